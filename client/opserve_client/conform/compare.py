"""Two runs beside each other: what broke, what was mended, what is left out, what drifts."""

from dataclasses import asdict, dataclass
from typing import Any

from opserve_client.conform.record import RunRecord
from opserve_client.conform.report.changes import Change, compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A case that passed both times, but uses more of its tolerance than before."""

    case: str
    before: float
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What differs, by ids of cases.

    Attributes:
        new_failures: That did not fail before, or were not tried.
        fixed: That failed before and pass.
        newly_skipped: That were judged before and are left out now.
        drifts: The largest first.
        missing: How many of the earlier run's cases were not chosen now.
    """

    new_failures: tuple[str, ...]
    fixed: tuple[str, ...]
    newly_skipped: tuple[str, ...]
    drifts: tuple[Drift, ...]
    missing: int

    @property
    def exit_code(self) -> int:
        """1 if something is worse than before; a drift is not."""
        return int(bool(self.new_failures or self.newly_skipped))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def compare(before: RunRecord, now: RunRecord) -> Comparison:
    """The second run against the first."""
    older = compared(now, before)
    changed = [(older.change(result), result.case.id) for result in now.results]
    failing = {result.case.id for result in now.failures}
    by_change = {kind: tuple(case for one, case in changed if one is kind) for kind in Change}
    new_cases = tuple(case for case in by_change[Change.NEW_CASE] if case in failing)
    drifts = [
        Drift(case=one.case.id, before=older.baseline[one.case.id].worst, now=one.worst)
        for one in now.results
        if older.change(one) is Change.DRIFT
    ]
    return Comparison(
        new_failures=(*by_change[Change.NEW_FAILURE], *new_cases),
        fixed=by_change[Change.FIXED],
        newly_skipped=by_change[Change.NEWLY_SKIPPED],
        drifts=tuple(sorted(drifts, key=lambda drift: drift.before - drift.now)),
        missing=older.missing,
    )
