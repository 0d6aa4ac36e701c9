"""The summary of a run on a terminal: counts of the cases that apply, and the largest error."""

from dataclasses import replace

import pytest

from client.conform.sample_results import (
    SAMPLE,
    failed,
    folded,
    last_column_wrong,
    nothing_wrong,
    refused,
    run,
)
from opserve_client.conform.record import Result
from opserve_client.conform.show import show_summary
from opserve_client.conform.summary import Summary
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.verdict.verdict import Status

Capture = pytest.CaptureFixture[str]
RIGHT, WRONG = folded(nothing_wrong), folded(last_column_wrong)
CONVOLUTION = ConvolutionCall(input=(1, 1, 4, 4), weight=(1, 1, 3, 3)).case()


def elsewhere(channels: int) -> Result:
    """A case of another operator than the target's."""
    case = replace(CONVOLUTION, profile="reference", source=str(channels))
    left_out = failed(Status.UNIMPLEMENTED, "the target implements only im2col_backward")
    return replace(left_out, case=case, verdict=replace(left_out.verdict, case=case.id))


def last_line(capsys: Capture, *results: Result) -> str:
    show_summary(Summary(record=run(*results, target="mine:fold")), as_json=False)
    return capsys.readouterr().out.splitlines()[-1].removeprefix("mine:fold on mine, seed 7: ")


def test_cases_of_other_operators_are_not_counted(capsys: Capture) -> None:
    line = last_line(capsys, RIGHT, WRONG, *map(elsewhere, range(9)))
    assert line.startswith("2 of 11 cases apply to your kernel: 1 passed, 1 failed; largest error")


def test_cases_of_the_same_operator_that_did_not_run_are_counted(capsys: Capture) -> None:
    skipped = failed(Status.SKIPPED, "the target reports no status codes")
    line = last_line(capsys, RIGHT, skipped, elsewhere(1))
    assert line == (
        "1 of 3 cases applies to your kernel: 1 passed; not run of the same operator: 1 skipped; "
        "largest error: 0 of its tolerance"
    )


def test_a_run_without_other_operators_counts_its_cases(capsys: Capture) -> None:
    assert last_line(capsys, RIGHT) == "1 case: 1 passed; largest error: 0 of its tolerance"


def test_beside_failures_the_largest_error_is_theirs(capsys: Capture) -> None:
    line = last_line(capsys, RIGHT, WRONG)
    assert line.endswith(f"; largest error: {WRONG.verdict.worst:.3g} times its tolerance")


@pytest.mark.parametrize("result", [refused(), failed(Status.ERROR, "raised")])
def test_failures_without_outputs_have_no_largest_error(result: Result, capsys: Capture) -> None:
    assert "largest error" not in last_line(capsys, RIGHT, result)


def test_a_summary_without_verdict_counts_what_did_not_run(capsys: Capture) -> None:
    assert last_line(capsys, elsewhere(1), elsewhere(2)) == (
        "0 of 2 cases apply to your kernel; not run: 2 unimplemented"
    )


def test_the_sample_has_cases_of_two_operators(capsys: Capture) -> None:
    line = last_line(capsys, *SAMPLE.results)
    assert line.startswith("3 of 4 cases apply to your kernel: 1 passed, 2 failed; not run: 1 sk")
