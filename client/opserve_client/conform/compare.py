"""Two runs beside each other: what broke, what was mended, what is left out, what drifts."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from opserve_client.conform.record import GOOD, Result, RunRecord
from opserve_kernels.verdict.verdict import Status

_DRIFT, _DRIFT_FACTOR = 0.05, 1.25  # of a tolerance, and by how much more than before


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
        newly_skipped: That were judged before and are skipped, unimplemented or not tried now.
        drifts: The largest first.
    """

    new_failures: tuple[str, ...]
    fixed: tuple[str, ...]
    newly_skipped: tuple[str, ...]
    drifts: tuple[Drift, ...]

    @property
    def exit_code(self) -> int:
        """1 if something is worse than before; a drift is not."""
        return int(bool(self.new_failures or self.newly_skipped))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def compare(before: RunRecord, now: RunRecord) -> Comparison:
    """The second run against the first."""
    old = {result.case.id: result for result in before.results}
    new = {result.case.id: result for result in now.results}
    failing = [case for case in new if _fails(new[case])]
    return Comparison(
        new_failures=tuple(one for one in failing if one not in old or not _fails(old[one])),
        fixed=tuple(case for case in new if case in old and _is_fixed(old[case], new[case])),
        newly_skipped=tuple(case for case in old if _was_judged(old[case], new.get(case))),
        drifts=tuple(sorted(_drifts(old, new), key=lambda drift: drift.before - drift.now)),
    )


def _fails(result: Result) -> bool:
    return result.verdict.status not in GOOD


def _is_fixed(before: Result, now: Result) -> bool:
    return _fails(before) and now.verdict.status is Status.PASSED


def _was_judged(before: Result, now: Result | None) -> bool:
    """Whether a case was judged, and is no more."""
    left_out = {Status.SKIPPED, Status.UNIMPLEMENTED}
    is_out = now is None or now.verdict.status in left_out
    return is_out and before.verdict.status not in left_out


def _drifts(old: dict[str, Result], new: dict[str, Result]) -> Iterator[Drift]:
    for case, now in new.items():
        before = old.get(case)
        if before is None or _fails(before) or _fails(now):
            continue
        if now.worst > max(before.worst + _DRIFT, before.worst * _DRIFT_FACTOR):
            yield Drift(case=case, before=before.worst, now=now.worst)
