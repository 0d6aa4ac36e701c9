"""The plugin of pytest, in a pytest of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.service_with_keys import empty_store
from opserve_client import Client
from opserve_client.private_service import Addresses, private_service
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Kind
from opserve_kernels.cases.suite import Suite, write_suite
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall

pytestmark = pytest.mark.system
FOLD = FoldCall(out=(2, 2, 4, 4), kernel=(2, 2))
CASES = (FOLD.case(), FOLD.case(Setting(kind=Kind.NORMAL)))
CONVOLUTION = ConvolutionCall(input=(1, 2, 5, 5), weight=(3, 2, 3, 3)).case()
PAGE_BROKEN = replace(CONVOLUTION, arguments={**CONVOLUTION.arguments, "bias_sizes": (1,)})
OWN_TEST = """
def test_mine(opserve_session):
    assert opserve_session.device.profile == "ascend910b"
"""


def run_pytest(
    folder: Path, service: Addresses, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    (folder / "mine.jsonl").write_text(write_suite(Suite(name="mine", seed=3, cases=CASES)))
    (folder / "test_mine.py").write_text(OWN_TEST)
    roots = [path for path in sys.path if path]
    environment = os.environ | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(roots),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "pytest", "-p", "opserve_pytest", "-p", "no:cacheprovider"]
    command += ["-v", "--rootdir", str(folder), f"--opserve-server={service.grpc}", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_case_is_a_test_after_those_of_the_user(service: Addresses, tmp_path: Path) -> None:
    target = "--opserve-target=client.conform.kernels:fold"
    done = run_pytest(tmp_path, service, "--opserve-suite=mine.jsonl", target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if "PASSED" in line] == [
        "test_mine.py::test_mine",
        *(f"mine::{case.id}" for case in CASES),
    ]


def test_options_that_choose_nothing_are_a_usage_error(service: Addresses, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, service, "--opserve-suite=mine.jsonl", "--opserve-match=no")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "suite mine: no case has an id, source or tag that matches no" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("option", "status", "sentence"),
    [
        ("--opserve-target=nomod:f", 4, "ERROR: target nomod:f: "),
        pytest.param(
            "--opserve-target=client.conform.kernels:nofunc",
            2,
            "opserve: target client",
            marks=pytest.mark.slow,
        ),
        ("--opserve-server=127.0.0.1:9", 2, "opserve: 127.0.0.1:9: "),
        pytest.param("--opserve-suite=.", 4, "ERROR: ", marks=pytest.mark.slow),
        ("--opserve-operator=conv", 4, "ERROR: operator does not accept conv; "),
    ],
)
def test_a_failure_of_another_part_than_the_kernel_ends_pytest_with_one_sentence(
    service: Addresses, tmp_path: Path, option: str, status: int, sentence: str
) -> None:
    options = ("--opserve-suite=mine.jsonl", "--opserve-target=client.conform.kernels:fold")
    done = run_pytest(tmp_path, service, *options, option)
    printed = done.stdout + done.stderr
    assert done.returncode == status, printed
    assert printed.count(sentence) == 1
    assert "Traceback" not in printed
    assert not re.search(r"\d failed", printed)


@pytest.mark.slow
def test_processes_of_xdist_fail_each_test_with_the_sentence(
    service: Addresses, tmp_path: Path
) -> None:
    options = ("--opserve-suite=mine.jsonl", "--opserve-target=nomod:f", "-p", "xdist", "-n1")
    done = run_pytest(tmp_path, service, *options)
    printed = done.stdout + done.stderr
    assert f"{len(CASES)} failed, 1 passed" in printed
    assert "opserve: target nomod:f: neither the working directory nor the environment" in printed
    assert "Traceback" not in printed


@pytest.mark.slow
def test_an_unreachable_service_ends_pytest_at_the_first_test_with_the_fixture(
    service: Addresses, tmp_path: Path
) -> None:
    done = run_pytest(tmp_path, service, "--opserve-server=127.0.0.1:9")
    assert done.returncode == 2
    assert done.stdout.count("opserve: 127.0.0.1:9: ") == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_an_operator_is_selected(service: Addresses, tmp_path: Path) -> None:
    options = ("--opserve-suite=smoke", "--collect-only", "-qq")
    done = run_pytest(tmp_path, service, *options, "--opserve-operator=aclnnIm2colBackward")
    found = [line for line in done.stdout.splitlines() if line.startswith("smoke::")]
    assert found
    assert all(line.startswith("smoke::im2col_backward.") for line in found)


def test_a_case_that_fails_shows_its_verdict(service: Addresses, tmp_path: Path) -> None:
    target = "--opserve-target=client.conform.kernels:one_wrong"
    chosen = ("--opserve-suite=mine.jsonl", f"--opserve-match={CASES[0].id}", target)
    done = run_pytest(tmp_path, service, *chosen)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "out: 1 of 64 elements are wrong" in done.stdout
    assert "Traceback" not in done.stdout


TERMS_TEST = """
def test_terms(opserve_session):
    options = (opserve_session.accuracy, opserve_session.documented_rules)
    assert options == ("fast", "warn")
"""


def test_sessions_have_the_accuracy_and_documented_rules_of_the_options(
    service: Addresses, tmp_path: Path
) -> None:
    (tmp_path / "test_terms.py").write_text(TERMS_TEST)
    suite = Suite(name="page", seed=3, cases=(PAGE_BROKEN,))
    (tmp_path / "page.jsonl").write_text(write_suite(suite))
    chosen = ("--opserve-suite=page.jsonl", "test_terms.py")
    options = ("--opserve-accuracy=fast", "--opserve-documented-rules=warn")
    plain = run_pytest(tmp_path, service, *chosen)
    assert "2 failed" in plain.stdout, plain.stdout + plain.stderr
    done = run_pytest(tmp_path, service, *chosen, *options)
    assert "2 passed, 1 warning" in done.stdout, done.stdout + done.stderr
    assert "bias_sizes has [1], and the page allows [3]" in done.stdout


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    url = empty_store(tmp_path_factory.mktemp("history"))
    with private_service(store_url=url, devices='["ascend910b", "reference"]') as addresses:
        yield addresses


def test_judged_results_are_stored_in_the_history(kept: Addresses, tmp_path: Path) -> None:
    target = "--opserve-target=client.conform.kernels:one_wrong"
    chosen = ("--opserve-suite=mine.jsonl", "--opserve-match=im2col*", target)
    done = run_pytest(tmp_path, kept, *chosen, "--opserve-history=plugin")
    assert done.returncode == 1, done.stdout + done.stderr
    with Client(kept.grpc) as client:
        (run,) = client.conformance.list_runs("plugin").runs
        results = client.conformance.list_results(run.id, status="FAILED")
    assert f"added run {run.id} to the history of plugin" in done.stderr
    assert run.digest == Suite(name="mine", seed=3, cases=CASES).digest
    assert [one.case for one in results] == [case.id for case in CASES]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--opserve-history=a b",), "history: .*target does not accept 'a b'"),
        pytest.param(
            ("--opserve-history=mine", "--opserve-server="),
            "needs a service: give --opserve-server too",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("--opserve-history=mine", "-p", "xdist", "-n2"),
            "does not work with -n",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_history_that_accepts_no_run_is_reported_before_any_case_runs(
    kept: Addresses, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    target = "--opserve-target=client.conform.kernels:fold"
    done = run_pytest(tmp_path, kept, "--opserve-suite=mine.jsonl", target, *options)
    assert re.search(message, done.stdout + done.stderr)
    assert done.returncode in {2, pytest.ExitCode.USAGE_ERROR}
    assert "mine::" not in "".join(line for line in done.stdout.splitlines() if "PASSED" in line)


TELLING = """
import opserve_pytest.cases as plugin

begin = plugin.service

def reported(address, profiles):
    print(f"profiles: {profiles}")
    return begin(address, profiles)

plugin.service = reported
"""


@pytest.mark.parametrize(
    ("target", "chosen", "profiles"),
    [
        pytest.param("client.conform.kernels:fold", CASES[0].id, "()", marks=pytest.mark.slow),
        pytest.param("opserve", CASES[0].id, "{'ascend910b'}", marks=pytest.mark.slow),
        ("client.conform.kernels:fold", f"{CASES[0].id} or mine", "None"),
    ],
)
def test_a_service_has_the_devices_that_tests_need(
    service: Addresses, tmp_path: Path, target: str, chosen: str, profiles: str
) -> None:
    (tmp_path / "conftest.py").write_text(TELLING)
    options = ("-s", "-k", chosen, "--opserve-suite=mine.jsonl", f"--opserve-target={target}")
    done = run_pytest(tmp_path, service, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"profiles: {profiles}\n" in done.stdout


def test_without_its_options_it_imports_nothing_of_the_client(tmp_path: Path) -> None:
    program = "import sys, opserve_pytest; print([n for n in sys.modules if 'opserve_c' in n])"
    command = [sys.executable, "-c", program]
    roots = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": roots}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
