"""Results of a judgement: statuses, and the frozen values of a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

Index = tuple[int, ...]


class Status(StrEnum):
    """The result of a case."""

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
    """The contract's rule for a result beyond the dtype's range."""

    INFINITE = "infinite"
    SATURATED = "saturated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerResult:
    """The result of one layer or one standard for an output.

    Attributes:
        name: "exact", "rounding", "projection" or a standard's name.
        version: Version of the rule; only results of the same version are comparable.
        source: Publication of the rule.
        passed: Whether the output meets it.
        gate: Whether the output fails if it does not; else it is only reported.
        metrics: Measurements, by name.
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
        index: Its position.
        exact: The expected value in float64.
        expected: The expected value rounded once to the output's dtype.
        got: The given value.
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
    """The worst used fraction by position along some axes, over all others.

    Attributes:
        axes: Names of the axes that remain.
        sizes: Entries of the output along them.
        steps: Entries along each axis that share a cell.
        shape: Cells along them.
        values: Values of the cells, the last axis fastest.
    """

    axes: tuple[str, ...]
    sizes: Index
    steps: Index
    shape: Index
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputVerdict:
    """The verdict on one output.

    Attributes:
        name: Name of the output.
        dtype: NumPy's name of its dtype.
        shape: Shape of the output.
        status: PASSED or FAILED.
        reason: The reason in one sentence.
        layers: Results of each layer and standard.
        elements: Number of elements.
        errors: Number of elements that the exact, rounding or projection layer rejects.
        worst: The greatest used fraction.
        first: The first elements that are wrong, at most 10.
        greatest: The 10 worst of them, worst first; without errors, the worst element.
        histogram: Elements by used fraction.
        maps: Used fractions by position.
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
    """The result of one of the checks besides the values.

    Attributes:
        name: Name of the check.
        tensor: The tensor that it examined.
        status: PASSED, or the status that it gives the case.
        reason: The reason in one sentence.
        elements: Number of elements at fault.
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
        """The code for a sentence."""
        return " ".join(str(part) for part in (self.number, self.name) if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusVerdict:
    """The code that must reject a call, and the given one.

    Attributes:
        status: PASSED or FAILED.
        reason: The reason in one sentence.
        expected: The code of the contract; None for a call that must succeed.
        given: The code that was given; None if the call succeeded.
    """

    status: Status
    reason: str
    expected: Code | None
    given: Code | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on a case.

    Attributes:
        case: The case's id.
        status: The result of the case.
        reason: The reason in one sentence.
        contract: Revision of the operator's contract.
        outputs: Verdicts on the outputs.
        checks: Results of the checks.
        refusal: Verdict on the status code, if the case requires one.
        standards: Versions of the layers and standards used, by name.
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
