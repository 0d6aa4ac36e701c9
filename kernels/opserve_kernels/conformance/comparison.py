"""Comparison of two runs: new failures, repairs, skipped cases and drifts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from opserve_kernels.status import ExitStatus
from opserve_kernels.verdict.verdict import GOOD, Status

DRIFT = 0.25  # of the tolerance: a right result that approaches its end by more is a drift


class Change(StrEnum):
    """The change of a case since an earlier run."""

    NEW_FAILURE = "new failure"
    STILL_FAILING = "still failing"
    FIXED = "fixed"
    NEWLY_SKIPPED = "newly skipped"
    DRIFT = "drift"
    NEW_CASE = "new case"
    SAME = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a case in a run.

    Attributes:
        status: Status of the verdict.
        worst: The greatest used fraction of the tolerance, of all outputs.
    """

    status: Status
    worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """The results of the cases of a run.

    Attributes:
        digest: Digest of the suite.
        by_case: Results by the case's id, in the run's order.
        kernel_variant: Kernel variant of the devices of opserve that ran; empty of other targets.
    """

    digest: str
    by_case: Mapping[str, Outcome]
    kernel_variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A case that passed both times, but uses more of its tolerance than before.

    Attributes:
        case: Its id.
        before: Used fraction of its tolerance before.
        now: Used fraction of its tolerance now.
    """

    case: str
    before: float
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences, by ids of cases.

    Attributes:
        same_suite: Whether both runs are of suites with equal digests.
        same_variant: Whether both runs are of kernels of one variant, as far as both name it.
        new_failures: Cases that fail now, and passed or were not tried before.
        fixed: Cases that failed before and pass now.
        newly_skipped: Cases that were judged before and are skipped now.
        drifts: Drifts, the largest first.
        missing: Number of the earlier run's cases that were not chosen now.
    """

    same_suite: bool = True
    same_variant: bool = True
    new_failures: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    newly_skipped: tuple[str, ...] = ()
    drifts: tuple[Drift, ...] = ()
    missing: int = 0

    @property
    def exit_code(self) -> int:
        """Returns 1 if a case is worse than before; a drift is not."""
        is_worse = bool(self.new_failures or self.newly_skipped)
        return ExitStatus.FAILED if is_worse else ExitStatus.DONE

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def change(before: Outcome | None, now: Outcome) -> Change:
    """The change of a case; `before` is None if it was not tried."""
    if before is None:
        return Change.NEW_CASE
    was_good, was_passed = before.status in GOOD, before.status is Status.PASSED
    if now.status not in GOOD:
        return Change.NEW_FAILURE if was_good else Change.STILL_FAILING
    if now.status is not Status.PASSED:
        return Change.NEWLY_SKIPPED if was_passed or not was_good else Change.SAME
    if not was_good:
        return Change.FIXED
    drifted = was_passed and now.worst - before.worst > DRIFT
    return Change.DRIFT if drifted else Change.SAME


def compare(before: Outcomes, now: Outcomes) -> Comparison:
    """Compares the second run with the first."""
    older, newer = before.by_case, now.by_case
    changes = {case: change(older.get(case), outcome) for case, outcome in newer.items()}
    by_change = {kind: tuple(case for case in newer if changes[case] is kind) for kind in Change}
    new_cases = by_change[Change.NEW_CASE]
    drifts = [
        Drift(case=case, before=older[case].worst, now=newer[case].worst)
        for case in by_change[Change.DRIFT]
    ]
    return Comparison(
        same_suite=before.digest == now.digest,
        same_variant=len({before.kernel_variant, now.kernel_variant} - {""}) <= 1,
        new_failures=(
            *by_change[Change.NEW_FAILURE],
            *(case for case in new_cases if newer[case].status not in GOOD),
        ),
        fixed=by_change[Change.FIXED],
        newly_skipped=by_change[Change.NEWLY_SKIPPED],
        drifts=tuple(sorted(drifts, key=lambda drift: drift.before - drift.now)),
        missing=len(older.keys() - newer.keys()),
    )
