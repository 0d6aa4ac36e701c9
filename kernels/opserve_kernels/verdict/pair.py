"""An output with its expected values: the input of every layer and standard."""

from dataclasses import dataclass

from opserve_kernels.verdict.dtypes import DTYPES, Doubles, Dtype, Given
from opserve_kernels.verdict.verdict import Overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An output and its expected values, of the same shape.

    Attributes:
        given: The target's output, in its own dtype.
        expected: The right values in float64, unrounded.
        overflow: The contract's rule for results beyond the dtype's range.

    Raises:
        ValueError: Shapes that differ, or a dtype that no output has.
    """

    given: Given
    expected: Doubles
    overflow: Overflow = Overflow.INFINITE

    def __post_init__(self) -> None:
        if self.given.dtype.name not in DTYPES:
            allowed = ", ".join(DTYPES)
            raise ValueError(f"dtype {self.given.dtype.name} was given; allowed are {allowed}")
        if self.given.shape != self.expected.shape:
            raise ValueError(f"shape {self.given.shape} was given instead of {self.expected.shape}")

    @property
    def dtype(self) -> Dtype:
        """Of the output."""
        return DTYPES[self.given.dtype.name]
