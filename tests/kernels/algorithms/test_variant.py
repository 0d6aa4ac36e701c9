"""The kernel variant follows from the processor's features, and equal variants plan alike."""

import platform
import re
from importlib import import_module
from pathlib import Path

import pytest

from kernels.algorithms.forced import CALLS
from kernels.execution import plan_of
from kernels.samples.sample import Sample
from opserve_kernels.algorithms.host import (
    LANES_VARIABLE,
    PLAIN_VARIABLE,
    VARIANT,
    find_variant,
)
from opserve_kernels.algorithms.names import Algorithm

X86 = "processor: 0\nvendor_id\t: {}\nflags\t\t: fpu fma f16c avx2 {}\n"


@pytest.mark.parametrize(
    ("machine", "vendor", "more", "name"),
    [
        ("x86_64", "AuthenticAMD", "avx512f avx512_bf16", "fma16-bf16"),
        ("x86_64", "GenuineIntel", "avx512f avx512_bf16", "fma16"),
        ("x86_64", "AuthenticAMD", "avx512f", "fma16"),
        ("x86_64", "AuthenticAMD", "", "fma8"),
        ("aarch64", "AuthenticAMD", "avx512f avx512_bf16", "fma4"),
        ("s390x", "AuthenticAMD", "avx512f avx512_bf16", "plain8"),
    ],
)
def test_a_table_names_the_variant_of_each_processor(
    machine: str, vendor: str, more: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An emulated processor has no vectors of the real one, whose file it shows."""

    def read_text(_path: Path, **_: str) -> str:
        return X86.format(vendor, more)

    for variable in (LANES_VARIABLE, PLAIN_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(Path, "read_text", read_text)
    assert find_variant().name == name


@pytest.mark.parametrize("sample", CALLS[Algorithm.OUTER], ids=lambda sample: sample.name)
def test_plans_name_the_variant_that_sums(sample: Sample) -> None:
    assert plan_of(sample).variant == VARIANT.name


@pytest.mark.parametrize(
    "sample",
    [
        *CALLS[Algorithm.REFERENCE],
        *CALLS[Algorithm.FOLD],
        CALLS[Algorithm.OUTER][0].but("sums", output_mask=(False, False, True)),
    ],
    ids=lambda sample: sample.name,
)
def test_results_that_are_equal_on_any_computer_have_no_variant(sample: Sample) -> None:
    assert plan_of(sample).variant == ""


def test_neither_clocks_nor_counts_of_processors_reach_the_kernels() -> None:
    """Plans and loops read the processor's features only, in one place."""
    host = re.compile(
        r"\b(time|timeit|psutil|multiprocessing)\b|cpu_count|sysconf|affinity|cpuinfo"
    )
    package = Path(import_module("opserve_kernels").__file__ or "").parent
    imports = re.compile(r"^\s*(?:from|import) .*|\bos\.\w+.*|.*/proc/.*|.*/sys/.*", re.MULTILINE)
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        for line in imports.findall(file.read_text(encoding="utf-8"))
        if host.search(line)
    }
    assert found == {"algorithms/host.py"}
