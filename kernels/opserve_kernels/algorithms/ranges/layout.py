"""Records of the stage that measures ranges: the plan fills one, the loops the other."""

from dataclasses import dataclass
from typing import NamedTuple

from opserve_kernels.views import View

# docs/explanation/error-bounds.md derives the first three from the error bound of accuracy `fast`.
RANGE_BITS = 8
LEAST_EXPONENT = -110
LEAST_PRODUCT_EXPONENT = -116
CHUNK = 1 << 14  # elements of a unit: their line stays in the cache


class RangedOperand(NamedTuple):
    """One of the two operands.

    Attributes:
        length: Number of elements.
        number_format: Format that they are rounded to.
        layout: View of the elements.
    """

    length: int
    number_format: int
    layout: View


class RangesStage(NamedTuple):
    """The stage that measures both operands.

    Attributes:
        flag: Place in the workspace of the flag.
        state: Place of a RangeState.
        line: Place of a line of elements.
        one: The operand that is measured first.
        other: The operand that is measured after it.
    """

    flag: int
    state: int
    line: int
    one: RangedOperand
    other: RangedOperand


@dataclass(slots=True)
class RangeState:
    """The measured range so far; magnitudes and exponents as float32 stores them.

    Attributes:
        greatest: Greatest magnitude.
        exponents: Sum of the exponents.
        nonzero: Number of elements that are not 0.
        below_least: Least magnitude of those elements, less 1.
        least_of_one: Least exponent of the first operand.
    """

    greatest: int
    exponents: int
    nonzero: int
    below_least: int
    least_of_one: int


STATE_VALUES = 10  # float32 values that a RangeState takes
