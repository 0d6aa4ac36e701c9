"""The target of a trial: the maker of a case's calls, and the possible outcomes of a call."""

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
    """The target computed a result.

    Attributes:
        outputs: Arrays by output of the case; a missing one was not written. None means that all of
            them are in `storages`.
        storages: Memory after the call by tensor, with gaps, if the target has it.
        seconds: Duration of the call.
        warnings: Broken rules of the vendor's page, from a target that accepts such calls.
    """

    outputs: Mapping[str, Array] | None = None
    storages: Mapping[str, Array] = field(default_factory=dict[str, Array])
    seconds: float = 0.0
    warnings: tuple[BrokenRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The target rejected the call."""

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
    """The subject of a trial, local or remote."""

    def skips(self, case: Case) -> str:
        """The reason why a case is not tried; "" if it is tried."""
        ...

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        """Makes the call once.

        Args:
            case: The call.
            before: Flat memory of every tensor before the call, with gaps: inputs filled, outputs
                full of NaN; it is not modified. Empty for a call that must be rejected: its tensors
                may be too large to exist.
            read: Tensors whose memory is needed after the call.
        """
        ...


def without_codes(case: Case) -> str:
    """The reason why a target without status codes skips a case; "" if it does not."""
    return "the target reports no status codes" if case.is_refused else ""
