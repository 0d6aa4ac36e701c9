"""An output beside its expected values: what every layer and standard looks at."""

from dataclasses import dataclass

from opserve_kernels.verdict.dtypes import DTYPES, Doubles, Dtype, Given
from opserve_kernels.verdict.verdict import Overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An output and its expected values, of the same shape.

    Attributes:
        given: What the target computed; its dtype is the output's.
        expected: The right values in float64, never rounded.
        overflow: What the contract makes of results beyond the dtype's range.

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
