"""What a judgement says: statuses and the frozen values that a verdict consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

Index = tuple[int, ...]


class Status(StrEnum):
    """What became of a case."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    MISTRUSTED = "MISTRUSTED"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    ERROR = "ERROR"


GOOD = frozenset({Status.PASSED, Status.SKIPPED, Status.UNIMPLEMENTED, Status.MISTRUSTED})
"""Statuses that do not fail a run: MISTRUSTED is about the case, not about the target."""


class Overflow(Enum):
    """What the operator's contract makes of a result beyond the dtype's range."""

    INFINITE = "infinite"
    SATURATED = "saturated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerResult:
    """What one layer or one standard says of an output.

    Attributes:
        name: "exact", "rounding", "projection" or a standard's name.
        version: Of the rule; a result can be compared with another of the same version only.
        source: Where the rule is from.
        passed: Whether the output meets it.
        gate: Whether the output fails if it does not; else it is only reported.
        metrics: What was measured, by name.
    """

    name: str
    version: str
    source: str
    passed: bool
    gate: bool
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One element of an output.

    Attributes:
        index: Where it is.
        exact: The expected value in float64.
        expected: The expected value rounded once to the output's dtype.
        got: What was given.
        absolute: |got - exact|; NaN where either is no number.
        relative: absolute / |exact|.
        used: Fraction of the tolerance that the difference uses; beyond 1 is an error.
        ulp: Values of the dtype from expected to got; None where either is NaN.
    """

    index: Index
    exact: float
    expected: float
    got: float
    absolute: float
    relative: float
    used: float
    ulp: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Elements whose used fraction is at most `most` and above the bin's before."""

    name: str
    most: float
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The worst used fraction by place along some axes, over all others.

    Attributes:
        axes: Names of the axes that remain.
        sizes: Entries of the output along them.
        steps: Entries along each axis that share a cell.
        shape: Cells along them.
        values: Of the cells, the last axis fastest.
    """

    axes: tuple[str, ...]
    sizes: Index
    steps: Index
    shape: Index
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputVerdict:
    """What is said of one output.

    Attributes:
        name: Of the output.
        dtype: NumPy's name of its dtype.
        shape: Of the output.
        status: PASSED or FAILED.
        reason: In one sentence.
        layers: What each layer and standard says.
        elements: How many there are.
        errors: How many the exact, rounding or projection layer rejects.
        worst: The greatest used fraction.
        first: The first elements that are wrong, at most 10.
        greatest: The 10 worst of them, worst first; the worst of all where none is wrong.
        histogram: Elements by used fraction.
        maps: Where the used fraction is how large.
    """

    name: str
    dtype: str
    shape: Index
    status: Status
    reason: str
    layers: tuple[LayerResult, ...]
    elements: int
    errors: int
    worst: float
    first: tuple[Element, ...] = ()
    greatest: tuple[Element, ...] = ()
    histogram: tuple[Bin, ...] = ()
    maps: tuple[HeatMap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one of the checks beside the values says.

    Attributes:
        name: Of the check.
        tensor: Which tensor it looked at.
        status: PASSED, or what the case is because of it.
        reason: In one sentence.
        elements: How many it complains of.
        first: The first of them, at most 10.
    """

    name: str
    tensor: str
    status: Status
    reason: str
    elements: int = 0
    first: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A status code; either part may be unknown."""

    number: int | None = None
    name: str | None = None

    @property
    def text(self) -> str:
        """As a sentence shows it."""
        return " ".join(str(part) for part in (self.number, self.name) if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusVerdict:
    """The code that a call had to be refused with, against the given one.

    Attributes:
        status: PASSED or FAILED.
        reason: In one sentence.
        expected: The code of the contract; None for a call that must succeed.
        given: The code that came; None if the call succeeded.
    """

    status: Status
    reason: str
    expected: Code | None
    given: Code | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is said of a case.

    Attributes:
        case: The case's id.
        status: What became of it.
        reason: In one sentence.
        contract: Revision of the operator's contract that it was judged by.
        outputs: What is said of each output.
        checks: What the checks say.
        refusal: Of a case that is about a status code.
        standards: Versions of the layers and standards that were used, by name.
    """

    case: str
    status: Status
    reason: str
    contract: str
    outputs: tuple[OutputVerdict, ...] = ()
    checks: tuple[Check, ...] = ()
    refusal: StatusVerdict | None = None
    standards: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def worst(self) -> float:
        """The greatest used fraction of the tolerance, of all outputs."""
        return max((output.worst for output in self.outputs), default=0.0)
