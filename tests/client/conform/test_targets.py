"""Targets: functions, programs and finished files."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from client.conform import kernels
from opserve_client.conform.targets.arrays_files import read_outputs, write_case
from opserve_client.conform.targets.command import CommandTarget
from opserve_client.conform.targets.files import FilesTarget
from opserve_client.conform.targets.function import Called, FunctionTarget, returned_outputs
from opserve_client.conform.targets.named import BUILT_IN_TARGETS, Access, target_named
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.trial import at_once
from opserve_kernels.cases.arrays import arrays_of, memory_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suite import Suite
from opserve_kernels.conformance.target import Broken, Missing, Outcome, Ran, Target
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import DataType

CASE = FoldCall(out=(2, 1, 3, 4), kernel=(2, 1)).case()
NARROW = FoldCall(out=(1, 1, 2, 2), kernel=(1, 1), dtypes=(DataType.BF16, DataType.BF16)).case()
CONVOLUTION = ConvolutionCall(
    input=(1, 2, 3, 3), weight=(2, 2, 1, 1), mask=(True, False, True)
).case()
COPYING = """
import sys
import numpy as np
given = np.load(sys.argv[1])
np.savez(sys.argv[2], out=given["grad_output"].reshape(1, 1, 2, 2))
"""


def tried(target: Target, case: Case = CASE) -> Outcome:
    before = memory_of(case, 0)
    copies = {name: storage.copy() for name, storage in before.items()}
    outcome = at_once(target.run(case, before, read=before))
    assert all(before[name].tobytes() == copies[name].tobytes() for name in before)
    return outcome


def outputs_of(outcome: Outcome) -> Mapping[str, Any]:
    assert isinstance(outcome, Ran)
    assert outcome.outputs is not None
    return outcome.outputs


def program(folder: Path, text: str, *, timeout_s: float = 30.0) -> CommandTarget:
    (folder / "kernel.py").write_text(text)
    return CommandTarget(f"{sys.executable} {folder}/kernel.py {{in}} {{out}} {{case}}", timeout_s)


def test_a_function_gets_the_arguments_that_it_has_parameters_for() -> None:
    outcome = tried(FunctionTarget(Called(kernels.fold)))
    assert isinstance(outcome, Ran)
    assert outputs_of(outcome)["out"].shape == (2, 1, 3, 4)
    assert set(outcome.storages) == {"grad_output", "out"}


def test_a_function_gets_the_formats_of_tensors_by_their_parameter_alone() -> None:
    given: list[object] = []

    def with_formats(formats: Mapping[str, str], **_: Any) -> None:
        given.append(formats)

    def with_keywords(**call: Any) -> None:
        given.append("formats" in call)

    for function in (with_formats, with_keywords):
        tried(FunctionTarget(Called(function)), CONVOLUTION)
    formats = dict.fromkeys(("grad_output", "input", "weight", "grad_input"), "NCHW")
    assert given == [formats | {"grad_bias": "ND"}, False]


def test_a_function_may_write_into_its_outputs() -> None:
    def fill(out: Any) -> None:
        assert np.isnan(out).all()
        out[...] = 2

    outcome = tried(FunctionTarget(Called(fill)))
    assert isinstance(outcome, Ran)
    assert np.all(outputs_of(outcome)["out"] == 2)


def test_a_function_reports_that_it_does_not_implement_a_call() -> None:
    assert tried(FunctionTarget(Called(kernels.fold)), NARROW) == Missing(reason="FLOAT only")
    other = FunctionTarget(Called(kernels.fold, "deconv_grad_filter"))
    assert isinstance(tried(other), Missing)


def test_a_function_that_raises_is_broken() -> None:
    outcome = tried(FunctionTarget(Called(kernels.raising)))
    assert isinstance(outcome, Broken)
    assert re.fullmatch(r"ValueError: no such kernel \(kernels\.py, line \d+\)", outcome.reason)


def test_the_line_that_called_the_library_is_named() -> None:
    def call() -> Any:
        return np.linalg.inv(np.zeros((2, 3)))

    outcome = tried(FunctionTarget(Called(call)))
    assert isinstance(outcome, Broken)
    assert outcome.reason.endswith(
        f"({Path(__file__).name}, line {call.__code__.co_firstlineno + 1})"
    )


def test_a_tuple_is_in_the_order_of_all_outputs_or_of_those_that_are_written() -> None:
    one, two = np.zeros(1), np.ones(1)
    assert returned_outputs(CONVOLUTION, (one, two)) == {"grad_input": one, "grad_bias": two}
    assert returned_outputs(CONVOLUTION, (one, None, two)) == {"grad_input": one, "grad_bias": two}
    assert returned_outputs(CONVOLUTION, {"grad_bias": two, "x": one}) == {"grad_bias": two}
    assert returned_outputs(CASE, one) == {"out": one}


def test_a_program_reads_and_writes_files_and_bf16_is_its_bits(tmp_path: Path) -> None:
    outcome = tried(program(tmp_path, COPYING), NARROW)
    assert isinstance(outcome, Ran)
    assert outputs_of(outcome)["out"].dtype == ml_dtypes.bfloat16
    given = arrays_of(NARROW, 0)["grad_output"].elements
    assert np.array_equal(outputs_of(outcome)["out"].reshape(-1), given.reshape(-1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raise SystemExit(77)", Missing),
        ("raise SystemExit('bad luck')", Broken),
        ("pass", Broken),
        ("import sys; open(sys.argv[2], 'w').write('x')", Broken),
        ("import signal; signal.pause()", Broken),
    ],
)
def test_a_program_that_returns_nothing(text: str, expected: type, tmp_path: Path) -> None:
    outcome = tried(program(tmp_path, text, timeout_s=20.0 if "pause" not in text else 0.5))
    assert isinstance(outcome, expected)


def test_a_program_receives_the_case(tmp_path: Path) -> None:
    text = "import sys, json; raise SystemExit(json.load(open(sys.argv[3]))['id'])"
    outcome = tried(program(tmp_path, text))
    assert isinstance(outcome, Broken)
    assert CASE.id in outcome.reason


def test_the_last_output_of_a_program_is_reported_in_whole_lines_as_one(tmp_path: Path) -> None:
    outcome = tried(
        program(tmp_path, f"raise SystemExit('{'x' * 500} y\\n  call()\\n  ^^^^\\nend')")
    )
    assert isinstance(outcome, Broken)
    assert outcome.reason.endswith(" ended with 1: call(); end")
    outcome = tried(program(tmp_path, "raise SystemExit(1)"))
    assert isinstance(outcome, Broken)
    assert outcome.reason.endswith(" ended with 1: it wrote no error")


def test_files_are_outputs_by_case(tmp_path: Path) -> None:
    target = FilesTarget(tmp_path)
    assert isinstance(tried(target), Missing)
    np.savez(tmp_path / f"{CASE.id}.npz", out=np.zeros((2, 1, 3, 4), np.float32))
    outcome = tried(target)
    assert isinstance(outcome, Ran)
    assert outputs_of(outcome)["out"].shape == (2, 1, 3, 4)
    (tmp_path / f"{CASE.id}.npz").write_bytes(b"x")
    assert isinstance(tried(target), Broken)


def test_pickles_are_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=True, out=np.array([{}], object))
    with pytest.raises(ValueError, match="has Python objects; save arrays"):
        read_outputs(CASE, tmp_path / "a.npz")


def test_a_case_is_written_with_its_inputs(tmp_path: Path) -> None:
    write_case(CASE, Suite(name="mine", seed=3, cases=(CASE,)), tmp_path)
    assert json.loads((tmp_path / f"{CASE.id}.json").read_text()) == CASE.to_json()
    with np.load(tmp_path / f"{CASE.id}.npz") as inputs:
        expected = arrays_of(CASE, 3)["grad_output"].elements
        assert np.array_equal(inputs["grad_output"], expected)


@pytest.mark.parametrize(
    "name",
    ["what", "cmd:./kernel", "files:nowhere", "no.such.module:f", "json:nothing", "json:decoder"],
)
def test_a_missing_target_is_no_verdict(name: str) -> None:
    with pytest.raises(InfrastructureError, match="target"):
        target_named(name, Access(address="127.0.0.1:1"), timeout_s=1.0)


@pytest.mark.parametrize("package", BUILT_IN_TARGETS)
def test_a_package_that_is_not_installed_is_named(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, BUILT_IN_TARGETS[package].partition(":")[0], raising=False)
    with pytest.raises(InfrastructureError, match=f"lacks: pip install {package}"):
        target_named(package, Access(address="127.0.0.1:1"), timeout_s=1.0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("./nofile", "there is no program ./nofile: give its path"),
        ("./mine", "./mine is not executable: run `chmod +x ./mine`."),
        ("mine", "there is no program mine in PATH: write ./mine for the file here."),
    ],
)
def test_a_program_that_cannot_start_is_named_before_a_run_with_the_remedy(
    words: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    with pytest.raises(InfrastructureError, match=re.escape(sentence)):
        CommandTarget(f"{words} {{in}} {{out}}", 1.0)


def test_an_npy_file_has_no_outputs_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"write the outputs by name with numpy\.savez"):
        read_outputs(CASE, tmp_path / "a.npy")
