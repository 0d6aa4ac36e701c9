"""What changed since a baseline, case by case."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from opserve_client.conform.record import GOOD, Result, RunRecord
from opserve_kernels.verdict.verdict import Status

DRIFT = 0.25  # of the tolerance; right results that come nearer to its end by more are news


class Change(StrEnum):
    """What became of a case since the baseline."""

    NEW_FAILURE = "new failure"
    STILL_FAILING = "still failing"
    FIXED = "fixed"
    NEWLY_SKIPPED = "newly skipped"
    DRIFT = "drift"
    NEW_CASE = "new case"
    SAME = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run beside an older one.

    Attributes:
        baseline: The older run's results, by case id.
        missing: How many of its cases the new run does not have.
    """

    baseline: Mapping[str, Result]
    missing: int

    def before(self, case: str) -> Result | None:
        """What the baseline says of a case."""
        return self.baseline.get(case)

    def change(self, now: Result) -> Change:
        """What became of a case since."""
        before = self.before(now.case.id)
        if before is None:
            return Change.NEW_CASE
        was_good, is_good = before.verdict.status in GOOD, now.verdict.status in GOOD
        if not is_good:
            return Change.NEW_FAILURE if was_good else Change.STILL_FAILING
        was_passed = before.verdict.status is Status.PASSED
        if now.verdict.status is not Status.PASSED:
            return Change.NEWLY_SKIPPED if was_passed or not was_good else Change.SAME
        if not was_good:
            return Change.FIXED
        return Change.DRIFT if now.worst - before.worst > DRIFT else Change.SAME


def compared(run: RunRecord, baseline: RunRecord) -> Comparison:
    """A run beside an older one."""
    older = {result.case.id: result for result in baseline.results}
    kept = {result.case.id for result in run.results}
    return Comparison(baseline=older, missing=len(older.keys() - kept))
