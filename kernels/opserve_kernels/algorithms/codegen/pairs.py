"""Products of BF16 values in pairs, by an instruction that multiplies and adds two of them at once.

A word, 32 bits, has two values that are summed one after the other: the first in its upper half,
the second in its lower one. The instruction counts subnormal operands and results as 0, so operands
must be in a range in which there are none: zeros, and magnitudes of 2^-56 <= |x| < 2^56. Products
are then multiples of 2^-126, the least normal number, and so is each sum of them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.micro_kernels import multiply_flat, multiply_packed
from opserve_kernels.algorithms.codegen.tiles import flat_tile, packed_tile
from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function,
    integer,
    loop,
)
from opserve_kernels.algorithms.host import (
    LANES,
    TILE_COLUMNS,
    TILE_ROWS,
    TILE_VECTORS,
    VARIANT,
)
from opserve_kernels.loops import compiled
from opserve_kernels.precision import bits_of

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Six = tuple[int, int, int, int, int, int]
Seven = tuple[int, int, int, int, int, int, int]

RANGE_EXPONENT = 56
# The bits of a float32 shifted left by 1, without the sign: the exponent is in the upper 8.
_BIAS, _EXPONENT = 127, 24
_LEAST = np.uint32(_BIAS - RANGE_EXPONENT << _EXPONENT)
_LIMIT = np.uint32(_BIAS + RANGE_EXPONENT << _EXPONENT)
_NO_VALUE = np.uint32(0xFFFFFFFF)

_HALF, _QUARTER = TILE_ROWS // 2, TILE_ROWS // 4
_PITCHES = (TILE_ROWS, TILE_COLUMNS)
_pairs = Vectors.multiply_add_pairs if VARIANT.pairs else Vectors.multiply_add
_packed_3 = packed_tile(TILE_ROWS, 3, width=LANES, pitches=_PITCHES, add=_pairs)
_packed_1 = packed_tile(TILE_ROWS, 1, width=LANES, pitches=_PITCHES, add=_pairs)
_packed_quarter_1 = packed_tile(_QUARTER, 1, width=LANES, pitches=_PITCHES, add=_pairs)
_flat_3 = flat_tile(TILE_ROWS, 3, width=LANES, pitch=TILE_ROWS, add=_pairs)
_flat_half_3 = flat_tile(_HALF, 3, width=LANES, pitch=TILE_ROWS, add=_pairs)
_flat_1 = flat_tile(TILE_ROWS, 1, width=LANES, pitch=TILE_ROWS, add=_pairs)
_flat_quarter_1 = flat_tile(_QUARTER, 1, width=LANES, pitch=TILE_ROWS, add=_pairs)


def _words(*, single: bool) -> Any:  # noqa: ANN401  # numba's
    """memory, (upper, lower, target, count): words of two rows, or of the upper one and zeros."""

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        upper, lower, target, count = numbers
        lanes = Vectors(builder, LANES)

        def place(start: Value, i: Value) -> Value:
            return ahead(builder, memory, builder.add(start, i))

        def word(i: Value, load: Callable[[Value], Value]) -> Value:
            first = load(place(upper, i))
            return lanes.paired(first, lanes.zero() if single else load(place(lower, i)))

        def one(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            lanes.store(word(i, lanes.load), place(target, i))
            return state

        i, _ = loop(builder, (integer(0), count, LANES), [], one)
        mask = lanes.within(integer(0), builder.sub(count, i))
        rest = word(i, lambda start: lanes.load_masked(start, mask))
        lanes.store_masked(rest, place(target, i), mask)

    return function(emit)


_join, _keep_upper = _words(single=False), _words(single=True)


@compiled("boolean(float32[::1])")
def suit_pairs(values: Floats) -> bool:
    """Whether all values are in the range of pairs; it checks all of them, which takes vectors."""
    # The least magnitude is taken less 1: an unsigned 0 becomes the greatest, and does not count.
    greatest, below_least = np.uint32(0), _NO_VALUE
    for i in range(values.size):
        magnitude = np.uint32(bits_of(values[i]) << np.uint32(1))
        greatest = max(greatest, magnitude)
        below_least = min(below_least, np.uint32(magnitude - np.uint32(1)))
    return bool(greatest < _LIMIT and below_least >= np.uint32(_LEAST - np.uint32(1)))


@compiled("void(float32[::1], int64, int64, int64, int64)")
def join(memory: Floats, upper: int, lower: int, target: int, count: int) -> None:
    """Writes words of two rows of float32; the target may be the upper row or lie before both."""
    _join(memory, (upper, lower, target, count))


@compiled("void(float32[::1], int64, int64, int64)")
def keep_upper(memory: Floats, upper: int, target: int, count: int) -> None:
    """Writes words of a row alone, whose lower halves are 0."""
    _keep_upper(memory, (upper, 0, target, count))


@compiled("void(float32[::1], int64, int64, int64, int64)")
def join_rows(memory: Floats, place: int, pitch: int, first: int, last: int) -> None:
    """Joins rows 2j and 2j + 1 of first .. last-1 to row j, in place; `first` is even.

    A last row without a neighbour is joined with zeros.
    """
    for row in range(first, last, 2):
        upper, target = place + row * pitch, place + row // 2 * pitch
        if row + 1 < last:
            join(memory, upper, upper + pitch, target, pitch)
        else:
            keep_upper(memory, upper, target, pitch)


# Fewer tiles than for float32: each one is compiled into the callers.
@compiled("void(float32[::1], UniTuple(int64, 6), int64, int64)")
def _generated_packed(memory: Floats, numbers: Six, rows: int, vectors: int) -> None:
    if vectors == TILE_VECTORS and rows > _HALF:
        _packed_3(memory, numbers)
        return
    depth, left, right, total, pitch, adds = numbers
    for column in range(0, vectors * LANES, LANES):
        later = (depth, left, right + column, total + column, pitch, adds)
        if rows > _HALF:
            _packed_1(memory, later)
            continue
        for row in range(0, rows, _QUARTER):
            lower = (depth, left + row, right + column, total + column + row * pitch, pitch, adds)
            _packed_quarter_1(memory, lower)


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 7), int64, int64)")
def _generated_flat(
    memory: Floats, _table: Offsets, numbers: Seven, rows: int, vectors: int
) -> None:
    depth, left, right, offsets, total, pitch, adds = numbers
    if vectors == TILE_VECTORS and rows > _HALF:
        _flat_3(memory, numbers)
        return
    if vectors == TILE_VECTORS and rows > _QUARTER:
        _flat_half_3(memory, numbers)
        return
    for column in range(0, vectors * LANES, LANES):
        source, target = right + column, total + column
        if rows > _HALF:
            _flat_1(memory, (depth, left, source, offsets, target, pitch, adds))
            continue
        for row in range(0, rows, _QUARTER):
            lower = (depth, left + row, source, offsets, target + row * pitch, pitch, adds)
            _flat_quarter_1(memory, lower)


# Without the instruction no plan has pairs, and the loops that could call these compile faster.
multiply_packed_pairs = _generated_packed if VARIANT.pairs else multiply_packed
"""As multiply_packed, with words in place of values."""
multiply_flat_pairs = _generated_flat if VARIANT.pairs else multiply_flat
"""As multiply_flat, with words in place of values."""
