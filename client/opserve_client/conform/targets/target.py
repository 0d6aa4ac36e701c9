"""A target: what is tried on cases, wherever it runs, and what may come of a call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_kernels.cases.arrays import Placed
from opserve_kernels.cases.case import Case
from opserve_kernels.verdict.verdict import Code

Array = NDArray[Any]
Tensors = Mapping[str, Placed]


class InfrastructureError(Exception):
    """Nothing can be said of a case: a service, a file or this program failed, not the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The target computed something.

    Attributes:
        outputs: Arrays by output of the case; one that is missing was not written.
        storages: Memory after the call by tensor, gaps and all, where the target had it.
        seconds: That the call took.
        warnings: Broken rules of the vendor's page, of a target that accepts such calls.
    """

    outputs: Mapping[str, Array]
    storages: Mapping[str, Array] = field(default_factory=dict[str, Array])
    seconds: float = 0.0
    warnings: tuple[DocumentedRuleWarning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The target refused the call."""

    code: Code
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The target does not have this: no failure."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The target failed: it raised, ended badly or did not answer in time."""

    reason: str


Outcome = Ran | Refused | Missing | Broken


class Target(Protocol):
    """What is tried.

    Attributes:
        has_codes: Whether calls that must be refused can be tried: it refuses with status codes.
    """

    has_codes: bool

    def run(self, case: Case, tensors: Tensors) -> Outcome:
        """Makes the call once.

        Args:
            case: The call.
            tensors: Inputs filled, outputs full of NaN; the target may write to all of it. Nothing
                of a call that must be refused: its tensors may be too large to exist.

        Raises:
            InfrastructureError: The way to the target failed.
        """
        ...

    def close(self) -> None:
        """Ends what the target holds."""
        ...
