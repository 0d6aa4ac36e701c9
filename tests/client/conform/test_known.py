"""Known failures: excused cases, those that pass, and the exit status of the run."""

from pathlib import Path

import pytest

from client.conform.sample_results import SAMPLE, failed, fold, folded, nothing_wrong, refused, run
from opserve_client.conform.known import Known, expectations, read_known
from opserve_client.conform.summary import Summary
from opserve_client.conform.targets.target import InfrastructureError
from opserve_kernels.conformance.comparison import compare
from opserve_kernels.verdict.verdict import Status

WRONG, RIGHT, REFUSED, SKIPPED = SAMPLE.results
ALL = Known(pattern="*", reason="")
FOLDS = Known(pattern="im2col_backward.*", reason="not yet")
RIGHT_ONE = Known(pattern=RIGHT.case.id, reason="mended")


def test_a_failure_is_known_by_the_first_line_that_it_matches() -> None:
    found = expectations(SAMPLE, [FOLDS, ALL, RIGHT_ONE])
    assert dict(found.failing) == {WRONG.case.id: FOLDS, REFUSED.case.id: ALL}
    assert dict(found.passing) == {RIGHT.case.id: RIGHT_ONE}
    assert found.unexpected == (RIGHT_ONE,)


def test_a_line_of_cases_that_were_left_out_says_nothing() -> None:
    assert expectations(run(SKIPPED), [ALL]).unexpected == ()
    assert expectations(run(SKIPPED, RIGHT), [ALL]).unexpected == (ALL,)


def test_known_failures_do_not_fail_a_run() -> None:
    assert Summary(record=SAMPLE).exit_code == 1
    some = Summary(record=SAMPLE, expectations=expectations(SAMPLE, [FOLDS]))
    assert (some.known, some.failures, some.exit_code) == ((WRONG,), (REFUSED,), 1)
    assert Summary(record=SAMPLE, expectations=expectations(SAMPLE, [ALL])).exit_code == 0


def test_beside_a_baseline_only_regressions_fail_a_run() -> None:
    same = Summary(record=SAMPLE, comparison=compare(SAMPLE.outcomes, SAMPLE.outcomes))
    assert same.exit_code == 0
    before = run(folded(nothing_wrong), RIGHT, refused(), SKIPPED)
    worse = compare(before.outcomes, SAMPLE.outcomes)
    assert Summary(record=SAMPLE, comparison=worse).exit_code == 1
    known = expectations(SAMPLE, [FOLDS])
    assert Summary(record=SAMPLE, expectations=known, comparison=worse).exit_code == 0


def test_newly_skipped_cases_fail_a_run_beside_a_baseline() -> None:
    case = fold(4)
    left_out = run(failed(Status.SKIPPED, "too slow", channels=4))
    right = run(folded(nothing_wrong, case=case))
    comparison = compare(right.outcomes, left_out.outcomes)
    assert comparison.newly_skipped == (case.id,)
    assert Summary(record=left_out, comparison=comparison).exit_code == 1


def test_lines_are_read_with_their_reasons(tmp_path: Path) -> None:
    path = tmp_path / "known"
    path.write_text("# all of these\n\n a.* # one # two\nb\n")
    lines = read_known(path)
    assert lines == (Known(pattern="a.*", reason="one # two"), Known(pattern="b", reason=""))
    assert [line.text for line in lines] == ["a.*  # one # two", "b"]
    with pytest.raises(InfrastructureError, match="known failures"):
        read_known(tmp_path / "none")
