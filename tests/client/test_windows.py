"""The client, its command line and runs of conformance where only Windows' modules are.

Python runs the whole of it on Linux, and shows the modules of opserve what Windows has: see
windows/sitecustomize.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opserve_client.private_service import Addresses
from opserve_kernels.cases.suite import Suite, write_suite
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall

TESTS = Path(__file__).resolve().parents[1]
MAIN = "from opserve_client.cli import main; main()"
AS_A_MODULE = """
import os, signal, socket, sys
assert sys.platform == "win32"
assert not hasattr(os, "killpg") and not hasattr(signal, "SIGKILL") and hasattr(os, "getpid")
try: import fcntl
except ImportError: pass
else: raise AssertionError
"""
OF_EVERY_MODULE = """
import importlib, pkgutil, opserve_client, opserve_pytest
for package in (opserve_client, opserve_pytest):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try: importlib.import_module(found.name)
        except ModuleNotFoundError as error: assert error.name in ("torch", "onnxruntime"), error
"""
TWO_LOCKS = """
from opserve_client.conform.exclusive import lock
with open("record", "a", encoding="utf-8") as one, open("record", "a", encoding="utf-8") as two:
    lock(one)
    one.write("whole")
    one.flush()
    assert open("record", encoding="utf-8").read() == "whole"
    try: lock(two)
    except OSError: pass
    else: raise AssertionError
"""


def on_windows(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    seen = os.pathsep.join((f"{TESTS / 'client/windows'}", f"{TESTS}"))
    variables = {
        "PYTHONPATH": seen,
        "XDG_CACHE_HOME": f"{folder}",
        "PYTHONWARNDEFAULTENCODING": "1",  # that of Windows is not UTF-8
        "PYTHONWARNINGS": "error::EncodingWarning",
    }
    return subprocess.run(
        [sys.executable, "-c", *arguments],
        check=False,
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env=os.environ | variables,
    )


def conform(
    folder: Path, target: str, service: Addresses, *more: str
) -> "subprocess.CompletedProcess[str]":
    suite = Suite(name="mine", seed=3, cases=(FoldCall(out=(2, 2, 4, 4), kernel=(2, 2)).case(),))
    (folder / "mine.jsonl").write_text(write_suite(suite), encoding="utf-8")
    command = ["conform", "run", "--suite", "mine.jsonl", "--jobs", "1", "--json"]
    where = ["--server", service.grpc, "--folder", "run", "--target", target]
    return on_windows(folder, MAIN, *command, *where, *more)


def test_every_module_imports_and_a_record_is_locked(tmp_path: Path) -> None:
    code = f"exec({AS_A_MODULE!r}, {{'__name__': 'opserve_seen'}}); {OF_EVERY_MODULE}{TWO_LOCKS}"
    done = on_windows(tmp_path, code)
    assert done.returncode == 0, done.stderr


def test_a_function_is_tried(tmp_path: Path, service: Addresses) -> None:
    done = conform(tmp_path, "client.conform.kernels:fold", service)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"PASSED": 1}
    assert len((tmp_path / "run/record.jsonl").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.slow
def test_a_program_that_does_not_end_is_ended_with_what_it_started(
    tmp_path: Path, service: Addresses
) -> None:
    kernel = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    (tmp_path / "kernel.py").write_text(kernel, encoding="utf-8")
    target = f"cmd:{sys.executable} kernel.py {{out}}"
    done = conform(tmp_path, target, service, "--timeout", "0.5")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["counts"] == {"ERROR": 1}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["serve"], 1),
        pytest.param(["conform", "run", "--suite", "smoke"], 2, marks=pytest.mark.slow),
    ],
)
def test_a_service_is_not_started(tmp_path: Path, arguments: list[str], status: int) -> None:
    done = on_windows(tmp_path, MAIN, *arguments)
    assert done.returncode == status
    assert (
        "the service runs on Linux only: connect to one that runs elsewhere, with --server"
        in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_the_command_line_shows_its_help(tmp_path: Path) -> None:
    done = on_windows(tmp_path, MAIN, "--help")
    assert done.returncode == 0, done.stderr
    assert "conform" in done.stdout
