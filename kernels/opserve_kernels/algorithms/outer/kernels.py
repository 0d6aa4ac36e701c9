"""The micro-kernel of outer products: looks both operands up, pixel by pixel.

    add_outer  (depth, left, right, pixels, vector_pitch, total, pitch, adds), rows, vectors
        total[m, n] (= | +=) sum over k < depth of left[p[k], m] * right[q[k], n]

`rows` is at most TURN_ROWS, `vectors` at most TURN_VECTORS. Left and right are channels of images
whose pixels are LANES values apart, one vector of channels behind the other. Left's rows are part
of one vector, right's vectors are vector_pitch apart. The int32 table has the places of the pixels,
p and q in turn: p[0] q[0] p[1] q[1] and so on, from `pixels` on. All else is as in
opserve_kernels.algorithms.codegen.micro_kernels.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.tiles import Adding
from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function,
    integer,
    load_integer,
    loop,
)
from opserve_kernels.algorithms.host import LANES, TILE_ROWS, TILE_VECTORS, VARIANT
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Eight = tuple[int, int, int, int, int, int, int, int]

_UNROLLED = 4  # pixels between two branches
TURN_ROWS, TURN_VECTORS = TILE_ROWS, TILE_VECTORS
_HALF, _QUARTER = TURN_ROWS // 2, TURN_ROWS // 4
_TWO_VECTORS = 2


# In registers: rows x vectors sums, the vectors of right's pixel, and one factor of left in all
# lanes. Both places are loaded from the table, so strides and dilations cost no arithmetic.
def outer_tile(rows: int, vectors: int, *, width: int, add: Adding = Vectors.multiply_add) -> Any:  # noqa: ANN401  # numba's
    """memory, the numbers of add_outer.

    Args:
        rows: m.
        vectors: n, in vectors.
        width: Lanes of a vector.
        add: The sum of left * right and a total.
    """

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        depth, left, right, pixels, vector_pitch, total, pitch, adds = numbers
        lanes = Vectors(builder, width)
        # Vectors of right's channels are a block's pixels apart, so each has a base address of its
        # own.
        factors = ahead(builder, memory, left)
        columns = [
            ahead(builder, memory, builder.add(right, _times(builder, vector_pitch, vector)))
            for vector in range(vectors)
        ]

        def several(k: Value, sums: Sequence[Value]) -> Sequence[Value]:
            for round_ in range(_UNROLLED):
                sums = once(builder.add(k, integer(round_)), sums)
            return sums

        def once(k: Value, sums: Sequence[Value]) -> Sequence[Value]:
            place = builder.add(pixels, _times(builder, k, 2))
            p = load_integer(builder, memory, place)
            q = load_integer(builder, memory, builder.add(place, integer(1)))
            values = [lanes.load(ahead(builder, column, q)) for column in columns]
            start, after = ahead(builder, factors, p), list[Value]()
            for row in range(rows):
                factor = lanes.broadcast(ahead(builder, start, integer(row)))
                for value in values:
                    after.append(add(lanes, factor, value, sums[len(after)]))
            return after

        zeros = [lanes.zero()] * (rows * vectors)
        k, sums = loop(builder, (integer(0), depth, _UNROLLED), zeros, several)
        _, sums = loop(builder, (k, depth, 1), sums, once)
        for row in range(rows):
            place = ahead(builder, memory, builder.add(total, _times(builder, pitch, row)))
            found = sums[row * vectors : (row + 1) * vectors]
            places = [ahead(builder, place, integer(at * width)) for at in range(vectors)]
            _finish(lanes, found, places, adds)

    return function(emit)


def _finish(lanes: Vectors, sums: Sequence[Value], places: Sequence[Value], adds: Value) -> None:
    """Stores sums, or adds them to the totals in memory."""
    builder = lanes.builder
    # A branch, not a product with `adds`: totals that are set may hold anything before, also NaN.
    with builder.if_else(builder.icmp_signed("!=", adds, integer(0))) as (adding, setting):
        with adding:
            for value, place in zip(sums, places, strict=True):
                lanes.store(lanes.add(lanes.load(place), value), place)
        with setting:
            for value, place in zip(sums, places, strict=True):
                lanes.store(value, place)


def _times(builder: Value, value: Value, factor: int) -> Value:
    return builder.mul(value, integer(factor))


# As in micro_kernels: full tiles, and those for the last rows and columns that are met often.
_outer_3 = outer_tile(TURN_ROWS, 3, width=LANES)
_outer_2 = outer_tile(TURN_ROWS, 2, width=LANES)
_outer_1 = outer_tile(TURN_ROWS, 1, width=LANES)
_outer_half_3 = outer_tile(_HALF, 3, width=LANES)
_outer_half_1 = outer_tile(_HALF, 1, width=LANES)
_outer_quarter_3 = outer_tile(_QUARTER, 3, width=LANES)
_outer_quarter_1 = outer_tile(_QUARTER, 1, width=LANES)


_pairs = Vectors.multiply_add_pairs if VARIANT.pairs else Vectors.multiply_add
_pairs_3 = outer_tile(TURN_ROWS, 3, width=LANES, add=_pairs)
_pairs_2 = outer_tile(TURN_ROWS, 2, width=LANES, add=_pairs)
_pairs_1 = outer_tile(TURN_ROWS, 1, width=LANES, add=_pairs)
_pairs_quarter_1 = outer_tile(_QUARTER, 1, width=LANES, add=_pairs)


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 8), int64, int64)")
def _generated_pairs(
    memory: Floats, _table: Offsets, numbers: Eight, rows: int, vectors: int
) -> None:
    depth, left, right, pixels, vector_pitch, total, pitch, adds = numbers
    if rows > _HALF and vectors == TURN_VECTORS:
        _pairs_3(memory, numbers)
    elif rows > _HALF and vectors == _TWO_VECTORS:
        _pairs_2(memory, numbers)
    elif rows > _HALF:
        _pairs_1(memory, numbers)
    else:
        for row in range(0, rows, _QUARTER):
            for vector in range(vectors):
                source, target = right + vector * vector_pitch, total + vector * LANES
                place = target + row * pitch
                later = (depth, left + row, source, pixels, vector_pitch, place, pitch, adds)
                _pairs_quarter_1(memory, later)


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 8), int64, int64)")
def _generated_outer(
    memory: Floats, _table: Offsets, numbers: Eight, rows: int, vectors: int
) -> None:
    if vectors == TURN_VECTORS and rows > _HALF:
        _outer_3(memory, numbers)
    elif vectors == _TWO_VECTORS and rows > _HALF:
        _outer_2(memory, numbers)
    elif rows > _HALF:
        _outer_1(memory, numbers)
    elif vectors == TURN_VECTORS and rows > _QUARTER:
        _outer_half_3(memory, numbers)
    elif vectors == TURN_VECTORS:
        _outer_quarter_3(memory, numbers)
    else:
        depth, left, right, pixels, vector_pitch, total, pitch, adds = numbers
        for vector in range(vectors):
            source, target = right + vector * vector_pitch, total + vector * LANES
            later = (depth, left, source, pixels, vector_pitch, target, pitch, adds)
            if rows > _QUARTER:
                _outer_half_1(memory, later)
            else:
                _outer_quarter_1(memory, later)


@compiled("int64(int64)")
def _whole(rows: int) -> int:
    """Rows that the generated micro-kernel computes."""
    if rows > _HALF:
        return TURN_ROWS
    return _HALF if rows > _QUARTER else _QUARTER


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 8), int64, int64)")
def plain_outer(memory: Floats, table: Offsets, numbers: Eight, rows: int, vectors: int) -> None:
    """The same in plain loops."""
    depth, left, right, pixels, vector_pitch, total, pitch, adds = numbers
    for row in range(_whole(rows)):
        for vector in range(vectors):
            target = memory[total + row * pitch + vector * LANES :][:LANES]
            if not adds:
                target[:] = np.float32(0)
            for k in range(depth):
                factor = memory[left + row + int(table[pixels + 2 * k])]
                place = right + vector * vector_pitch + int(table[pixels + 2 * k + 1])
                source = memory[place : place + LANES]
                for lane in range(LANES):
                    target[lane] += factor * source[lane]


add_outer = plain_outer if VARIANT.plain else _generated_outer
# Without the instruction no plan has pairs.
add_outer_pairs = _generated_pairs if VARIANT.pairs else add_outer
"""As add_outer, with words of BF16 values in place of values."""
