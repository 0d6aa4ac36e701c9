"""The records of the stage that measures ranges: the plan fills the one, the loops the other."""

from dataclasses import dataclass
from typing import NamedTuple

from opserve_kernels.views import View

RANGE_BITS = 8
LEAST_EXPONENT = -110
LEAST_PRODUCT_EXPONENT = -116
CHUNK = 1 << 14  # elements of a unit: their line stays in the cache


class RangedOperand(NamedTuple):
    """One of the two operands.

    Attributes:
        length: Elements.
        number_format: What they are rounded to.
        layout: Their view.
    """

    length: int
    number_format: int
    layout: View


class RangesStage(NamedTuple):
    """A stage.

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
    """What is found so far; magnitudes and exponents as float32 stores them.

    Attributes:
        greatest: Magnitude.
        exponents: Their sum.
        nonzero: Elements that are not 0.
        below_least: The least magnitude of those, less 1.
        least_of_one: The least exponent of the first operand.
    """

    greatest: int
    exponents: int
    nonzero: int
    below_least: int
    least_of_one: int


STATE_VALUES = 10  # float32 values that a RangeState takes
