"""Properties of numba that compiled loops rely on: stable names, bound at load time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.execution import execute
from kernels.samples import REGISTRY_SAMPLES
from opserve_kernels import loops

INNER = """
from opserve_kernels.loops import compiled

@compiled("int64(int64)")
def twice(value):
    return 2 * value

@compiled("float64(float64[::1])")
def total(values):
    sum_ = 0.0
    for i in range(values.size):
        sum_ += values[i]
    return sum_
"""
OUTER = """
from tiny_inner import total, twice
from opserve_kernels.loops import entry

@entry("float64(float64[::1])")
def twice_the_total(values):
    return twice(1) * total(values)
"""
CALL = """
import numpy as np
from tiny_outer import total, twice, twice_the_total
assert twice_the_total(np.arange(5.0)) == 20.0
"""
MISSES = (
    "print([sum(loop.stats.cache_misses.values()) for loop in (total, twice, twice_the_total)])"
)
CODE = """
(result,) = twice_the_total.overloads.values()
for function in result.library._final_module.functions:
    for name in ("total", "twice"):
        if f"10tiny_inner5{name}B" in function.name:
            print(name, "declared" if function.is_declaration else "copied")
"""
KEPT = """
(result,) = total.overloads.values()
print("keeps", bool(result.library._shared_module))
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path) -> None:
    (tmp_path / "tiny_inner.py").write_text(INNER)
    (tmp_path / "tiny_outer.py").write_text(OUTER)


def start(folder: Path, program: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "NUMBA_CACHE_DIR": str(folder / "cache"),
    }
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    found, _ = process.communicate()
    assert process.returncode == 0
    return found


def test_a_function_with_a_loop_is_called_and_one_without_is_copied(tmp_path: Path) -> None:
    found = ended(start(tmp_path, CALL + CODE))

    assert "total declared\n" in found
    assert "twice declared\n" not in found  # it is copied, or was even made part of its caller


@pytest.mark.parametrize("found", ["compiled", "cached"])
def test_a_loop_that_is_called_by_name_keeps_no_code_for_the_linker(
    tmp_path: Path, found: str
) -> None:
    if found == "cached":
        ended(start(tmp_path, CALL))
    assert "keeps False\n" in ended(start(tmp_path, CALL + KEPT))


@pytest.mark.slow
def test_processes_that_start_at_once_compile_every_function_once(tmp_path: Path) -> None:
    processes = [start(tmp_path, CALL + MISSES) for _ in range(2)]
    misses = [json.loads(ended(process)) for process in processes]

    assert np.sum(misses, axis=0).tolist() == [1, 1, 1]


def test_functions_find_each_other_whichever_process_compiled_them(tmp_path: Path) -> None:
    ended(start(tmp_path, CALL))
    for total in (tmp_path / "cache").rglob("tiny_inner.total*"):
        total.unlink()

    # Numba has counted another function before it compiles this one again.
    other = "import numba\nnumba.njit('int64()')(lambda: 1)\n"
    assert ended(start(tmp_path, other + CALL + MISSES)) == "[1, 0, 0]\n"


def test_python_calls_entries_and_no_other_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(loop: loops._Loop, *_: object) -> None:
        raise AssertionError(f"Python called {loop}: it should be an entry")

    monkeypatch.setattr(loops._Loop, "__call__", refuse)

    for samples in REGISTRY_SAMPLES.values():
        for sample in samples:
            execute(sample, sample.buffers())


def test_a_function_without_a_loop_is_kept_in_its_callers_alone(tmp_path: Path) -> None:
    ended(start(tmp_path, CALL))

    kept = {file.name.partition("-")[0] for file in (tmp_path / "cache").rglob("*.nbc")}
    assert kept == {"tiny_inner.total", "tiny_outer.twice_the_total"}
