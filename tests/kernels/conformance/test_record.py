"""The counts of a run."""

from opserve_kernels.conformance.comparison import Outcome
from opserve_kernels.conformance.record import CaseResult, Tally
from opserve_kernels.verdict.verdict import Status


def test_the_worst_used_fraction_is_that_of_outputs_that_are_right() -> None:
    results = (
        CaseResult(case="one", status="PASSED", worst=0.25),
        CaseResult(case="two", status="PASSED", worst=0.125),
        CaseResult(case="three", status="FAILED", worst=1e9),
    )
    tally = Tally.of(result.outcome for result in results)
    assert tally.counts == {"PASSED": 2, "FAILED": 1}
    assert tally.worst == 0.25


def test_a_run_without_cases_has_no_counts() -> None:
    assert Tally.of(()) == Tally()
    tally = Tally()
    tally.add(Outcome(status=Status.SKIPPED, worst=0.0))
    assert tally == Tally.of([Outcome(status=Status.SKIPPED, worst=0.5)])
