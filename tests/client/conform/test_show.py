"""The summary of a run on a terminal: counts of the cases that apply, and the largest error."""

from dataclasses import replace
from math import inf

import pytest

from client.conform.sample_results import (
    SAMPLE,
    failed,
    fold,
    folded,
    last_column_wrong,
    nothing_wrong,
    refused,
    run,
)
from opserve_client.conform.known import Known, expectations
from opserve_client.conform.record import Result
from opserve_client.conform.show import compared, show_summary
from opserve_client.conform.summary import Summary, error_words
from opserve_kernels.conformance.comparison import Comparison, compare
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
        "largest error: 0"
    )


def test_a_run_without_other_operators_counts_its_cases(capsys: Capture) -> None:
    assert last_line(capsys, RIGHT) == "1 case: 1 passed; largest error: 0"


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


def printed(capsys: Capture, summary: Summary) -> list[str]:
    show_summary(summary, as_json=False)
    return capsys.readouterr().out.splitlines()


def test_a_comparison_names_other_kernel_variants() -> None:
    (line,) = compared(Comparison(same_variant=False))
    assert line.startswith("the kernel variants differ")


def test_failures_that_the_baseline_has_are_listed_apart_and_named_in_the_last_line(
    capsys: Capture,
) -> None:
    other = folded(last_column_wrong, case=fold(5))
    before = run(WRONG, replace(other, verdict=RIGHT.verdict))
    record = run(WRONG, other)
    summary = Summary(record=record, comparison=compare(before.outcomes, record.outcomes))
    lines = printed(capsys, summary)
    assert lines[0] == "failures: 1"
    assert other.case.id in lines[1]
    assert lines[2] == "failures that the baseline has, too: 1"
    assert WRONG.case.id in lines[3]
    assert lines[-1].endswith("; the failure that the baseline has, too, did not fail this run")
    assert summary.exit_code == 1
    same = Summary(record=run(WRONG), comparison=compare(before.outcomes, run(WRONG).outcomes))
    assert (printed(capsys, same)[0], same.exit_code) == (lines[2], 0)
    assert same.to_json()["failures_of_baseline"] == [WRONG.case.id]


def test_known_failures_have_their_reasons_and_lines_without_a_case_are_reported(
    capsys: Capture,
) -> None:
    lines = [
        Known(pattern=WRONG.case.id, reason="not yet"),
        Known(pattern="convolution_*", reason=""),
        Known(pattern="nosuch*", reason="typo"),
    ]
    record = run(WRONG, refused())
    summary = Summary(record=record, expectations=expectations(record, lines))
    assert printed(capsys, summary)[:5] == [
        "known failures: 2",
        f"  {WRONG.case.id}  # not yet",
        f"  {refused().case.id}, without a reason in the file",
        "lines of known failures that match no selected case: 1",
        "  nosuch*  # typo",
    ]
    assert summary.exit_code == 0
    assert summary.to_json()["unmatched_known_failures"] == ["nosuch*"]


def test_a_failure_is_one_line_whatever_the_kernel_raised(capsys: Capture) -> None:
    raised = failed(Status.ERROR, "ValueError: one\ntwo\r\n  three (k.py, line 3)")
    lines = printed(capsys, Summary(record=run(raised)))
    assert lines[1].endswith(": ValueError: one two three (k.py, line 3)")
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("worst", "words"),
    [
        (0.0, "largest error: 0"),
        (0.25, "largest error: 0.25 of its tolerance"),
        (12.5, "largest error: 12.5 times its tolerance"),
        (inf, "largest error: infinite, because a wrong element has no tolerance"),
    ],
)
def test_the_largest_error_is_in_words(worst: float, words: str) -> None:
    assert error_words(worst) == words
