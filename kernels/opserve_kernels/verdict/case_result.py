"""What a history keeps of a verdict."""

import json
from dataclasses import dataclass

from opserve_kernels.verdict.json_form import to_json
from opserve_kernels.verdict.verdict import Status, Verdict

WORST = 1e9
"""Stands for all that is more: infinity has no number in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What became of a case.

    Attributes:
        case: Its id.
        status: Of the verdict.
        reason: In one sentence.
        worst: The greatest used fraction of the tolerance, at most WORST.
        seconds: From the call to its end.
        verdict: All of it, JSON; empty where it passed.
    """

    case: str = ""
    status: str = ""
    reason: str = ""
    worst: float = 0.0
    seconds: float = 0.0
    verdict: str = ""


def result_of(verdict: Verdict, *, seconds: float = 0.0) -> CaseResult:
    """What is kept of a verdict."""
    passed = verdict.status is Status.PASSED
    return CaseResult(
        case=verdict.case,
        status=verdict.status.value,
        reason=verdict.reason,
        worst=min(verdict.worst, WORST),
        seconds=seconds,
        verdict="" if passed else json.dumps(to_json(verdict), allow_nan=False),
    )
