"""What a named standard of somebody else's is: sums and maxima over elements, and a conclusion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from opserve_kernels.verdict.dtypes import Doubles, Dtype, Given, ulps
from opserve_kernels.verdict.pair import Pair

HF32 = "hf32"
SMALLEST = 1e-7  # what Ascend's relative errors add to |expected value|


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is graded.

    Attributes:
        pair: The output and its expected values.
        terms: Products in a sum, K.
        precision: NumPy's name of the output's dtype, or "hf32" for operands that were HF32.
        of_weight: Whether it is a weight's gradient, for which some allow more.
        second: The same output of a second implementation, for the dual benchmark.
    """

    pair: Pair
    terms: int
    precision: str
    of_weight: bool
    second: Given | None = None


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some elements, all of them finite on both sides.

    Attributes:
        given: What the target computed.
        expected: The right values.
        rounded: They, rounded once to the output's dtype.
        second: What the second implementation computed.
        dtype: Of the output.
    """

    given: Doubles
    expected: Doubles
    rounded: Given
    second: Doubles
    dtype: Dtype

    @cached_property
    def size(self) -> Doubles:
        """|expected value|."""
        return np.abs(self.expected)

    @cached_property
    def error(self) -> Doubles:
        """|given - expected value|."""
        return np.abs(self.given - self.expected)

    @cached_property
    def relative(self) -> Doubles:
        """|given - expected value| / (|expected value| + 1e-7)."""
        return self.error / (self.size + SMALLEST)

    @cached_property
    def ulps(self) -> Doubles:
        """Values of the dtype from the rounded value to given."""
        return ulps(self.given.astype(self.dtype.name), self.rounded, self.dtype)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums and maxima of what was measured, by name."""

    sums: dict[str, float] = field(default_factory=dict[str, float])
    peaks: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, other: "Tally") -> None:
        """Takes in what was measured elsewhere."""
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        for name, value in other.peaks.items():
            self.peaks[name] = max(self.peaks.get(name, 0.0), value)


Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """A rule that somebody publishes, as a value.

    Attributes:
        name: By which it is asked for.
        version: Which edition of it.
        source: Where it is published.
        applies: Whether it has numbers for a subject.
        measure: What it needs of some elements.
        conclude: Its metrics, and whether they meet it.
    """

    name: str
    version: str
    source: str
    applies: Callable[[Subject], bool]
    measure: Callable[[Chunk, Subject], Tally]
    conclude: Callable[[Tally, Subject], tuple[Metrics, bool]]


def share(part: float, whole: float) -> float:
    """What a part is of the whole; of nothing 0."""
    return part / whole if whole else 0.0


def ratio(first: float, second: float) -> float:
    """What the first is of the second; 1 where both are 0."""
    if second:
        return first / second
    return float("inf") if first else 1.0


def count(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool]]) -> float:
    """How many are true."""
    return float(np.count_nonzero(mask))


def peak(values: Doubles) -> float:
    """The greatest; of nothing 0."""
    return float(np.max(values, initial=0.0))
