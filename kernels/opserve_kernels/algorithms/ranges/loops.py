"""The range of operands, measured before Winograd's algorithm runs.

    operand  ->  greatest and least magnitude, and mean exponent, of the elements not 0  ->  flag

The transforms spread the error of an element over a tile, so they suit operands whose elements are
of similar size. The flag is raised for others: an element that is not a number, infinite or not
below LIMIT, or a greatest magnitude whose exponent is more than RANGE_BITS above the mean exponent.
It is also raised where transforms or products could underflow: for an exponent below
LEAST_EXPONENT, or for least exponents of both operands with a sum below LEAST_PRODUCT_EXPONENT.
docs/explanation/error-bounds.md derives the error bound from these limits.

Units: chunks of the first operand, then of the second; the first unit clears the flag.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.ranges.layout import (
    CHUNK,
    LEAST_EXPONENT,
    LEAST_PRODUCT_EXPONENT,
    RANGE_BITS,
    STATE_VALUES,
    RangesStage,
    RangeState,
)
from opserve_kernels.algorithms.winograd.layout import LIMIT
from opserve_kernels.loops import compiled, reading
from opserve_kernels.strided import load

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Patterns = NDArray[np.int32]

_as_state = reading(RangeState)
_MAGNITUDE = np.int32(0x7FFFFFFF)
_MANTISSA_BITS = np.int32(23)
# Magnitudes are compared as integers: the order of float32 patterns without the sign is the same,
# and infinities and NaNs are the greatest.
_GREATEST_BITS = np.int32(np.float32(LIMIT).view(np.int32) - 1)
_BIAS = 127  # of exponents as float32 stores them
_NONE = 2**32 - 1  # least magnitude of no elements, less 1


@compiled()
def _measure(patterns: Patterns, state: RangeState) -> None:
    """Adds elements to the greatest and least magnitudes, the sum of exponents and the count.

    The sums of a chunk fit into 32 bits, so whole vectors of them are added. The least magnitude is
    stored less 1: as an unsigned number, that of an element 0 is the greatest, so zeros do not
    count.
    """
    greatest, exponents, count = np.int32(0), np.int32(0), np.int32(0)
    below_least = np.uint32(_NONE)
    # One pass, and only integer operations that vectors have: maxima, sums and minima of 32 bits.
    for i in range(patterns.size):
        magnitude = np.int32(patterns[i] & _MAGNITUDE)
        greatest = max(greatest, magnitude)
        exponents = np.int32(exponents + np.int32(magnitude >> _MANTISSA_BITS))
        count = np.int32(count + np.int32(magnitude != 0))
        below_least = min(below_least, np.uint32(magnitude - np.int32(1)))
    state.greatest = max(state.greatest, int(greatest))
    state.exponents += int(exponents)
    state.nonzero += int(count)
    state.below_least = min(state.below_least, int(below_least))


@compiled()
def _least_exponent(state: RangeState) -> int:
    """Least exponent of the elements that are not 0; without such elements, above any exponent."""
    return int((state.below_least + 1) >> _MANTISSA_BITS) - _BIAS


@compiled()
def _is_wide(state: RangeState) -> bool:
    """Whether an operand's range is too wide for transforms."""
    # The mean is compared without a division: both sides are multiplied by the count.
    above_mean = (state.greatest >> _MANTISSA_BITS) * state.nonzero - state.exponents
    return bool(
        state.greatest > _GREATEST_BITS
        or above_mean > RANGE_BITS * state.nonzero
        or _least_exponent(state) < LEAST_EXPONENT
    )


@compiled()
def run_ranges(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: RangesStage,
    scratch: Floats,
    one: Floats,
    one_halves: Halves,
    other: Floats,
    other_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; the operands' buffers come as float32 and as halves."""
    state = _as_state(scratch[stage.state :][:STATE_VALUES])
    chunks = -(-stage.one.length // CHUNK)
    if first == 0:
        scratch[stage.flag] = np.float32(0)
    for unit in range(first, last):
        is_other = unit >= chunks
        operand = stage.other if is_other else stage.one
        begin = (unit - chunks if is_other else unit) * CHUNK
        if begin == 0:
            # Slices may begin at any unit, so the state is in the workspace, and the first chunk of
            # each operand resets it.
            state.greatest, state.exponents, state.nonzero = 0, 0, 0
            state.below_least = _NONE
        line = scratch[stage.line :][: min(CHUNK, operand.length - begin)]
        if is_other:
            load(other, other_halves, operand.layout, operand.number_format, begin, line)
        else:
            load(one, one_halves, operand.layout, operand.number_format, begin, line)
        _measure(line.view(np.int32), state)
        if begin + line.size < operand.length:
            continue
        # Both least exponents are known behind the last chunk of the second operand.
        least = _least_exponent(state)
        underflows = is_other and state.least_of_one + least < LEAST_PRODUCT_EXPONENT
        state.least_of_one = least
        if underflows or _is_wide(state):
            scratch[stage.flag] = np.float32(1)
