"""The vectors that micro-kernels are generated for follow the processor that runs Python."""

import platform
from pathlib import Path

import pytest

from opserve_kernels.algorithms.host import LANES_VARIABLE, PLAIN_VARIABLE, find_host

X86 = "processor: 0\nflags\t\t: fpu fma f16c avx2 avx512f\n"


def read_text(_path: Path, **_: str) -> str:
    return X86


@pytest.mark.parametrize(
    ("machine", "plain", "lanes"),
    [("x86_64", False, 16), ("aarch64", False, 4), ("s390x", True, 8)],
)
def test_an_emulated_processor_has_no_vectors_of_the_real_one(
    machine: str, *, plain: bool, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (LANES_VARIABLE, PLAIN_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(Path, "read_text", read_text)
    host = find_host()
    assert (host.plain, host.lanes) == (plain, lanes)
