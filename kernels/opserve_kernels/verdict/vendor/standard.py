"""A published standard: sums and maxima over elements, and a conclusion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from opserve_kernels.verdict.dtypes import Doubles, Dtype, Given, ulps
from opserve_kernels.verdict.pair import Pair

HF32 = "hf32"
SMALLEST = 1e-7  # Ascend's relative errors add it to |expected value|


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The output to grade.

    Attributes:
        pair: The output and its expected values.
        terms: Products in a sum, K.
        precision: NumPy's name of the output's dtype, or "hf32" for operands that were HF32.
        of_weight: Whether it is a weight's gradient, for which some standards allow more.
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
        given: The target's values.
        expected: The right values.
        rounded: The right values, rounded once to the output's dtype.
        second: The second implementation's values.
        dtype: Dtype of the output.
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
    """Sums and maxima of measurements, by name."""

    sums: dict[str, float] = field(default_factory=dict[str, float])
    peaks: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, other: "Tally") -> None:
        """Adds the measurements of other elements."""
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        for name, value in other.peaks.items():
            self.peaks[name] = max(self.peaks.get(name, 0.0), value)


Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """A published rule, as a value.

    Attributes:
        name: Name for requests.
        version: Its edition.
        source: Its publication.
        applies: Whether it has numbers for a subject.
        measure: Function that measures some elements.
        conclude: Function that returns its metrics, and whether they meet it.
    """

    name: str
    version: str
    source: str
    applies: Callable[[Subject], bool]
    measure: Callable[[Chunk, Subject], Tally]
    conclude: Callable[[Tally, Subject], tuple[Metrics, bool]]


def share(part: float, whole: float) -> float:
    """A part as a fraction of the whole; 0 for an empty whole."""
    return part / whole if whole else 0.0


def ratio(first: float, second: float) -> float:
    """The first as a multiple of the second; 1 if both are 0."""
    if second:
        return first / second
    return float("inf") if first else 1.0


def count(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool]]) -> float:
    """Number of true entries."""
    return float(np.count_nonzero(mask))


def peak(values: Doubles) -> float:
    """The greatest value; 0 without values."""
    return float(np.max(values, initial=0.0))
