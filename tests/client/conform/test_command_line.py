"""opserve conform, against a real service."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from client.conform import kernels
from opserve_client import Client
from opserve_client.cli_connection import ConnectionOptions
from opserve_client.conform import command_line
from opserve_client.conform import options as options_module
from opserve_client.conform import service as service_module
from opserve_client.errors import OpserveError
from opserve_client.private_service import Addresses, private_service
from opserve_kernels.algorithms.host import VARIANT
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Kind, canonical
from opserve_kernels.cases.suite import Suite, write_suite
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status

REAL = Setting(kind=Kind.NORMAL)
FOLD = FoldCall(out=(2, 2, 4, 4), kernel=(2, 2))
CASES = (replace(FOLD.case(), tags=("2 x 2",)), FOLD.case(REAL))
CONNECTION = ConnectionOptions(allow_plaintext=False)
WRONG, RIGHT = "client.conform.kernels:one_wrong", "client.conform.kernels:fold"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.jsonl"
    path.write_text(write_suite(Suite(name="mine", seed=3, cases=CASES)))
    return path


@pytest.fixture(scope="module")
def without_reference() -> Generator[Addresses]:
    with private_service(devices=json.dumps(["ft78ne"])) as addresses:
        yield addresses


def conform(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        command_line.main([str(one) for one in arguments], CONNECTION)
    code = ended.value.code
    assert isinstance(code, int)
    return code


def run(service: Addresses, target: str, *more: str | Path) -> int:
    at = ("--suite", "mine.jsonl", "--server", service.grpc, "--jobs", "1")
    return conform("run", *at, "--target", target, *more)


def test_a_run_that_is_right_ends_with_0_and_can_be_read(
    service: Addresses, capsys: Capture
) -> None:
    assert run(service, RIGHT, "--json", "--folder", "run") == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert printed["counts"] == {"PASSED": 2}
    revision = OPERATORS["im2col_backward"].revision
    assert printed["contracts"] == {"im2col_backward": str(revision)}
    assert printed["seed"] == 3
    assert conform("compare", "run", "run/record.jsonl") == 0
    assert capsys.readouterr().out == "no differences\n"


@pytest.mark.parametrize(
    ("target", "devices"), [(RIGHT, ["reference"]), ("opserve", ["reference", "ascend910b"])]
)
def test_a_service_that_is_started_has_the_devices_that_cases_need(
    target: str,
    devices: list[str],
    service: Addresses,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    started: list[object] = []

    @contextmanager
    def start(**settings: str) -> Generator[Addresses]:
        started.append(json.loads(settings["devices"]))
        yield service

    monkeypatch.setattr(service_module, "private_service", start)
    assert conform("run", "--suite", "mine.jsonl", "--target", target) == 0
    assert started == [devices]
    assert capsys.readouterr().err.startswith("starting a service")


@pytest.mark.parametrize(("target", "variant"), [("opserve", VARIANT.name), (RIGHT, "")])
def test_a_record_names_the_kernel_variant_of_devices(
    target: str, variant: str, service: Addresses, capsys: Capture
) -> None:
    assert run(service, target, "--json") == 0
    assert json.loads(capsys.readouterr().out)["kernel_variant"] == variant


def test_a_record_of_the_profile_reference_names_no_kernel_variant(
    service: Addresses, suite: Path, capsys: Capture
) -> None:
    case = FOLD.case(Setting(profile="reference"))
    suite.write_text(write_suite(Suite(name="mine", seed=3, cases=(case, *CASES))))
    place = f"opserve:{service.grpc}"
    for target, variant in ((f"{place}/reference", ""), (f"{place}/ascend910b", VARIANT.name)):
        assert run(service, target, "--json") == 0
        assert json.loads(capsys.readouterr().out)["kernel_variant"] == variant
    suite.write_text(write_suite(Suite(name="mine", seed=3, cases=(case,))))
    assert run(service, place, "--json") == 0
    assert json.loads(capsys.readouterr().out)["kernel_variant"] == ""


def test_a_wrong_run_exits_with_1_and_every_output_shows_it(
    service: Addresses, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    assert run(service, WRONG, "--junit", "junit.xml", "--github", "--seed", "4") == 1
    out = capsys.readouterr().out
    assert "failures: 2" in out
    assert f"FAILED {CASES[0].id} (2 x 2): out: 1 of " in out
    assert "seed 4: 2 cases: 2 failed; largest error: " in out
    assert out.count("::error title=FAILED im2col_backward") == 2
    found = ET.parse("junit.xml").getroot()  # noqa: S314  our own file
    assert (found.get("tests"), found.get("failures")) == ("2", "2")
    assert "| FAILED | 2 |" in (tmp_path / "step.md").read_text()


def test_json_is_alone_on_standard_output(
    service: Addresses, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    assert run(service, WRONG, "--json", "--github") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["counts"] == {"FAILED": 2}
    assert printed.err.count("::error title=FAILED im2col_backward") == 2
    assert conform("cases", "--suite", "mine.jsonl", "--json") == 0
    assert [one["operator"] for one in json.loads(capsys.readouterr().out)] == [
        "im2col_backward",
        "im2col_backward",
    ]
    at = ("--suite", "mine.jsonl", "--server", service.grpc, "--target", RIGHT)
    assert conform("repro", "--case", CASES[0].id, *at, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["case"]["tags"], result["verdict"]["status"]) == (["2 x 2"], "PASSED")


def test_a_run_that_judges_nothing_reports_that_and_does_not_pass(
    service: Addresses, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    assert conform("verify", "none", "--suite", "mine.jsonl", "--server", service.grpc) == 2
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "no verdict: the target ran none of the selected cases"
    assert "0 of 2 cases apply to your kernel; not run: 2 unimplemented" in printed[1]


def test_an_interrupting_key_reports_how_to_resume(
    service: Addresses, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options_module, "run_cases", mock.Mock(side_effect=KeyboardInterrupt))
    assert run(service, RIGHT, "--folder", "cut") == 130
    message = "interrupted: cut has the results so far; --resume continues the run"
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_known_failures_do_not_fail_a_run_and_those_that_pass_are_reported(
    service: Addresses, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "known").write_text("# all\nim2col_backward.*  # one off\n\n")
    assert run(service, WRONG, "--known-failures", "known") == 0
    assert "known failures: 2" in capsys.readouterr().out
    assert run(service, RIGHT, "--known-failures", "known") == 0
    assert "known failures that pass: 1\n  im2col_backward.*" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_is_compared_with_an_earlier_one(service: Addresses, capsys: Capture) -> None:
    assert run(service, RIGHT, "--folder", "right") == 0
    assert run(service, WRONG, "--folder", "wrong", "--baseline", "right") == 1
    assert "new failures: 2" in capsys.readouterr().out
    assert run(service, WRONG, "--baseline", "wrong") == 0
    capsys.readouterr()
    assert conform("compare", "wrong", "right", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["fixed"]) == 2
    assert conform("compare", "right", "wrong") == 1


@pytest.mark.slow
def test_finished_outputs_are_verified(service: Addresses, tmp_path: Path) -> None:
    assert conform("cases", "--suite", "mine.jsonl", "--inputs", "inputs") == 0
    (tmp_path / "outputs").mkdir()
    for case in CASES:
        with np.load(tmp_path / "inputs" / f"{case.id}.npz") as inputs:
            arguments: dict[str, Any] = {**inputs, **case.arguments}
        out = kernels.fold(**arguments)
        np.savez(tmp_path / "outputs" / f"{case.id}.npz", out=out)
    at = ("--suite", "mine.jsonl", "--server", service.grpc)
    assert conform("verify", "outputs", *at, "--json") == 0


def test_cases_are_shown_and_written(capsys: Capture, tmp_path: Path, suite: Path) -> None:
    assert conform("cases", "--suite", "mine.jsonl") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        case.id for case in CASES
    ]
    assert conform("cases", "--suite", "mine.jsonl", "--output", "again") == 0
    assert (tmp_path / "again").read_text() == suite.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--suite", "other"), "Unknown suite 'other'; choose a file, "),
        (
            ("cases", "--seed", str(2**63)),
            f"seed does not accept {2**63}; it accepts 0 to {2**63 - 1}",
        ),
        (
            ("run", "--operator", "add"),
            "operator does not accept add; it accepts convolution_backward",
        ),
        (
            ("run", "--operator", "aclnnConvolutionBackwards"),
            "; did you mean aclnnConvolutionBackward?",
        ),
        (
            ("run", "--suite", "mine.jsonl", "--match", "no*"),
            "no case has an id, source or tag that matches no*",
        ),
        (
            ("run", "--suite", "mine.jsonl", "--target", "opserv"),
            "target does not accept opserv; it accepts",
        ),
        (("run", "--suite", "mine.jsonl", "--target", "cmd:true"), "has no {out} among its words"),
        (
            ("run", "--suite", "mine.jsonl", "--target", "files:no"),
            "no: there is no such folder",
        ),
        (("run", "--suite", "mine.jsonl", "--resume"), "give --folder too"),
        (
            ("run", "--standard", "mine"),
            "standards does not accept mine; it accepts cann-ecosystem",
        ),
        (
            ("run", "--known-failures", "no"),
            "known failures: There is no file or folder 'no'.",
        ),
        (("run", "--baseline", "no"), "There is no file or folder 'no'."),
        (
            ("repro", "--case", "nosuchcase", "--suite", "mine.jsonl"),
            "as `opserve conform cases --suite mine.jsonl` shows",
        ),
        (
            ("repro", "--case", "nosuchcase", "--suite", "mine.jsonl", "--snippet", "no/a.py"),
            "There is no folder 'no' for 'no/a.py': create it first.",
        ),
        (("run", "--suite", "mine.jsonl", "--server", "http://127.0.0.1:9"), "127.0.0.1:9"),
        (("compare", "no", "no"), "There is no file or folder 'no'."),
    ],
)
def test_a_run_without_a_verdict_exits_with_2(
    arguments: tuple[str, ...], message: str, capsys: Capture
) -> None:
    assert conform(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "starting a service" not in captured.err
    assert not captured.out


@pytest.mark.parametrize("option", ["--junit", "--report", "--metrics", "--badge"])
def test_an_output_that_cannot_be_written_ends_a_run_before_anything_starts(
    option: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(options_module, "Workers", None)
    monkeypatch.setattr(options_module, "service", None)
    at = ("run", "--suite", "mine.jsonl", "--target", RIGHT, option)
    for path, sentence in (
        ("nodir/x", "There is no folder 'nodir' for 'nodir/x': create it first."),
        (tmp_path, f"'{tmp_path}' is a folder: name a file."),
    ):
        assert conform(*at, path) == 2
        assert capsys.readouterr().err == f"opserve conform: {sentence}\n"


@pytest.mark.slow
def test_outputs_may_be_in_the_folder_of_the_record_which_a_later_run_replaces_aloud(
    service: Addresses, capsys: Capture, tmp_path: Path
) -> None:
    at = ("--folder", "new/run", "--junit", "new/run/junit.xml")
    assert run(service, RIGHT, *at) == 0
    assert (tmp_path / "new/run/junit.xml").exists()
    assert "replaced" not in capsys.readouterr().err
    assert run(service, RIGHT, *at, "--resume") == 0
    assert "replaced" not in capsys.readouterr().err
    assert run(service, RIGHT, *at) == 0
    message = "new/run/record.jsonl: replaced the record of an earlier run\n"
    assert message in capsys.readouterr().err


def test_a_service_without_a_reference_device_ends_with_2_and_the_remedy(
    without_reference: Addresses, capsys: Capture
) -> None:
    assert run(without_reference, RIGHT) == 2
    message = (
        "opserve conform: The service has no device of the profile reference, which computes "
        'expected values: add "reference" to its setting OPSERVE_DEVICES and start it again, or '
        "name no service, so that one is started for the run\n"
    )
    assert message in capsys.readouterr().err


def test_a_call_for_expected_values_without_a_reference_device_names_the_remedy(
    without_reference: Addresses,
) -> None:
    with Client(without_reference.grpc) as client, pytest.raises(OpserveError) as raised:
        client.conformance.get_golden(canonical(FOLD.case().to_json()))
    assert raised.value.code == Status.ACL_ERROR_RT_INVALID_DEVICEID
    assert raised.value.message.endswith(
        'add "reference" to its setting OPSERVE_DEVICES and start it again.'
    )


def test_a_profile_that_the_service_does_not_have_ends_with_2(
    service: Addresses, capsys: Capture
) -> None:
    assert run(service, f"opserve:{service.grpc}/ascend91") == 2
    assert "does not accept profile ascend91; it accepts ascend910b, " in capsys.readouterr().err


def test_an_operator_is_selected_by_the_name_of_the_vendor(capsys: Capture) -> None:
    for name in ("aclnnIm2colBackward", "im2col_backward"):
        assert conform("cases", "--suite", "smoke", "--operator", name) == 0
    printed = capsys.readouterr().out.splitlines()
    half = len(printed) // 2
    assert printed[:half] == printed[half:]
    assert all(line.startswith("im2col_backward.") for line in printed)


def test_an_unknown_option_ends_with_2() -> None:
    assert conform("run", "--colour", "red") == 2
