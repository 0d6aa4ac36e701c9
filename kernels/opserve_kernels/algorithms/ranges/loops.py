"""The range of operands, measured before Winograd's algorithm runs.

    operand  ->  greatest, least magnitude and mean exponent of what is not 0  ->  flag

The transforms spread the error of an element over a tile, so they suit operands whose elements are
of like size. The flag is raised for others: an element that is not a number, infinite or not below
LIMIT, or a greatest magnitude whose exponent is more than RANGE_BITS above the mean exponent. It is
raised as well where transforms or products could underflow: an exponent below LEAST_EXPONENT, or
least exponents of both operands with a sum below LEAST_PRODUCT_EXPONENT. docs/numerics.md derives
the error bound from these limits.

Units: chunks of the one operand, then of the other; the first clears the flag.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.ranges.plan import (
    CHUNK,
    COUNTS,
    FIRST,
    FLAG,
    FORMATS,
    LEAST_EXPONENT,
    LEAST_PRODUCT_EXPONENT,
    LINE,
    RANGE_BITS,
    STATE,
    STATE_VALUES,
)
from opserve_kernels.algorithms.winograd.layout import LIMIT
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load
from opserve_kernels.views import VIEW_LENGTH

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Patterns = NDArray[np.int32]
Integers = NDArray[np.int64]

_MAGNITUDE = np.int32(0x7FFFFFFF)
_MANTISSA_BITS = np.int32(23)
_GREATEST_BITS = np.int32(np.float32(LIMIT).view(np.int32) - 1)
_BIAS = 127  # of exponents as float32 stores them
_NONE = np.int64(2**32 - 1)  # least magnitude of no elements, less 1
_GREATEST, _EXPONENTS, _COUNT, _BELOW_LEAST, _LEAST_OF_ONE = range(5)  # of the state


@compiled("void(int32[::1], int64[::1])")
def _measure(patterns: Patterns, state: Integers) -> None:
    """Adds elements to the greatest and least magnitudes, the sum of exponents and the count.

    The sums of a chunk fit 32 bits, so whole vectors of them are added. The least magnitude is kept
    less 1: as an unsigned number, that of an element 0 is the greatest, so zeros do not count.
    """
    greatest, exponents, count = np.int32(0), np.int32(0), np.int32(0)
    below_least = np.uint32(_NONE)
    for i in range(patterns.size):
        magnitude = np.int32(patterns[i] & _MAGNITUDE)
        greatest = max(greatest, magnitude)
        exponents = np.int32(exponents + np.int32(magnitude >> _MANTISSA_BITS))
        count = np.int32(count + np.int32(magnitude != 0))
        below_least = min(below_least, np.uint32(magnitude - np.int32(1)))
    state[_GREATEST] = max(state[_GREATEST], np.int64(greatest))
    state[_EXPONENTS] += exponents
    state[_COUNT] += count
    state[_BELOW_LEAST] = min(state[_BELOW_LEAST], np.int64(below_least))


@compiled("int64(int64[::1])")
def _least_exponent(state: Integers) -> int:
    """Of the elements that are not 0; of none of them more than any exponent."""
    return int((state[_BELOW_LEAST] + 1) >> _MANTISSA_BITS) - _BIAS


@compiled("boolean(int64[::1])")
def _is_wide(state: Integers) -> bool:
    """Whether the operand is not one for transforms."""
    above_mean = (state[_GREATEST] >> _MANTISSA_BITS) * state[_COUNT] - state[_EXPONENTS]
    return bool(
        state[_GREATEST] > _GREATEST_BITS
        or above_mean > RANGE_BITS * state[_COUNT]
        or _least_exponent(state) < LEAST_EXPONENT
    )


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], float32[::1], uint16[::1], int64, "
    "int64)"
)
def run_ranges(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    one: Floats,
    one_halves: Halves,
    other: Floats,
    other_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; the operands' buffers come as float32 and as halves."""
    place = stage[STATE]
    state = scratch[place : place + STATE_VALUES].view(np.int64)
    chunks = -(-stage[COUNTS] // CHUNK)
    if first == 0:
        scratch[stage[FLAG]] = np.float32(0)
    for unit in range(first, last):
        side = int(unit >= chunks)
        begin = (unit - side * chunks) * CHUNK
        if begin == 0:
            state[:_BELOW_LEAST] = 0
            state[_BELOW_LEAST] = _NONE
        count = min(CHUNK, stage[COUNTS + side] - begin)
        line = scratch[stage[LINE] : stage[LINE] + count]
        view = stage[FIRST + side * VIEW_LENGTH :]
        if side == 0:
            load(one, one_halves, view, stage[FORMATS], begin, line)
        else:
            load(other, other_halves, view, stage[FORMATS + 1], begin, line)
        _measure(line.view(np.int32), state)
        if begin + count < stage[COUNTS + side]:
            continue
        least = _least_exponent(state)
        underflows = side == 1 and state[_LEAST_OF_ONE] + least < LEAST_PRODUCT_EXPONENT
        state[_LEAST_OF_ONE] = least
        if underflows or _is_wide(state):
            scratch[stage[FLAG]] = np.float32(1)
