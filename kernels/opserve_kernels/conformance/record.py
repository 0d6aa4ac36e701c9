"""The record of a run: results for a history, and their counts."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from opserve_kernels.conformance.comparison import Outcome
from opserve_kernels.verdict.json_form import to_json
from opserve_kernels.verdict.verdict import Status, Verdict

WORST = 1e9
"""Replaces everything greater: JSON has no number for infinity."""
REASON_CHARACTERS, VERDICT_CHARACTERS = 1024, 2**17
"""Limits of a result in a history: a verdict has at most a few maps of 1024 cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of a case.

    Attributes:
        case: Its id.
        status: Status of the verdict.
        reason: The reason in one sentence.
        worst: The greatest used fraction of the tolerance, at most WORST.
        seconds: Duration of the call.
        verdict: The whole verdict as JSON, with the `warnings` of the call; empty for a case that
            passed without one.
    """

    case: str = ""
    status: str = ""
    reason: str = ""
    worst: float = 0.0
    seconds: float = 0.0
    verdict: str = ""

    @property
    def outcome(self) -> Outcome:
        """The result for comparison with another run."""
        return Outcome(status=Status(self.status), worst=self.worst)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of a run.

    Attributes:
        counts: Cases by status, the statuses that occur.
        worst: The greatest used fraction of a tolerance among outputs that are right.
    """

    counts: Counter[str] = field(default_factory=Counter[str])
    worst: float = 0.0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Self:
        """The counts of some cases."""
        tally = cls()
        for outcome in outcomes:
            tally.add(outcome)
        return tally

    def add(self, outcome: Outcome) -> None:
        """Counts a case."""
        self.counts[outcome.status.value] += 1
        if outcome.status is Status.PASSED:
            self.worst = max(self.worst, outcome.worst)


def slim(verdict: Verdict) -> Verdict:
    """The verdict without the maps of outputs that are right."""
    outputs = (one if one.errors else replace(one, maps=()) for one in verdict.outputs)
    return replace(verdict, outputs=tuple(outputs))


def result_of(
    verdict: Verdict, *, seconds: float = 0.0, warnings: Sequence[Mapping[str, Any]] = ()
) -> CaseResult:
    """The result of a case from its verdict.

    Args:
        verdict: Verdict on the case.
        seconds: Duration of the call.
        warnings: Broken rules of the vendor's page, for a call that was accepted nevertheless.
    """
    form: dict[str, Any] = {}
    if warnings:
        form = {**to_json(slim(verdict)), "warnings": warnings}
    elif verdict.status is not Status.PASSED:
        form = to_json(verdict)
    return CaseResult(
        case=verdict.case,
        status=verdict.status.value,
        reason=verdict.reason,
        worst=min(verdict.worst, WORST),
        seconds=seconds,
        verdict=json.dumps(form, allow_nan=False) if form else "",
    )
