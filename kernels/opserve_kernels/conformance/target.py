"""The target of a trial: what makes the calls of cases, and what may come of a call."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.refusals.warned import BrokenRule
from opserve_kernels.verdict.judge_case import Arrays
from opserve_kernels.verdict.verdict import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The target computed something.

    Attributes:
        outputs: Arrays by output of the case; one that is missing was not written. None means that
            all of them lie in `storages`.
        storages: Memory after the call by tensor, gaps and all, where the target has it.
        seconds: From the call to its end.
        warnings: Broken rules of the vendor's page, of a target that accepts such calls.
    """

    outputs: Mapping[str, Array] | None = None
    storages: Mapping[str, Array] = field(default_factory=dict[str, Array])
    seconds: float = 0.0
    warnings: tuple[BrokenRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The target refused the call."""

    code: Code
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The target does not implement the call: no failure."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The target failed: it raised, ended badly or did not answer in time."""

    reason: str


Outcome = Ran | Refused | Missing | Broken


class Target(Protocol):
    """The subject of a trial, wherever it runs."""

    def skips(self, case: Case) -> str:
        """Why a case is not tried; "" if it is."""
        ...

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        """Makes the call once.

        Args:
            case: The call.
            before: Flat memory of every tensor before the call, gaps and all: inputs filled,
                outputs full of NaN; it stays as it is. Nothing of a call that must be refused: its
                tensors may be too large to exist.
            read: The tensors whose memory is wanted after the call.
        """
        ...


def without_codes(case: Case) -> str:
    """Why a target that refuses no call with a status code skips a case; "" if it does not."""
    return "the target refuses nothing with a status code" if case.is_refused else ""
