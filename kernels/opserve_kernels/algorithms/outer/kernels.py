"""The micro-kernel of outer products: looks both operands up, pixel by pixel.

    add_outer  (depth, left, left_step, right, pixels, vector_pitch, total, pitch, adds),
               rows, vectors
        total[m, n] (= | +=) sum over k < depth of left[p[k], m] * right[q[k], n]

`rows` is at most TURN_ROWS, `vectors` at most TURN_VECTORS. Left and right are channels of images
in the workspace, or left is in a tensor that is read in place. Left's rows are left_step apart: 1
in the workspace. Right's channels are vectors, vector_pitch apart. The int32 table in the workspace
has the places of the pixels, p and q in turn: p[0] q[0] p[1] q[1] and so on, from `pixels` on. All
else is as in opserve_kernels.algorithms.codegen.micro_kernels.

    add_outer_in_place   the same with left's array before the workspace; TURN_ROWS rows only
    add_outer_pairs      the same with words of BF16 values in place of values
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.tiles import Adding
from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function,
    function_of_two,
    integer,
    load_integer,
    loop,
)
from opserve_kernels.algorithms.host import LANES, TILE_ROWS, TILE_VECTORS, VARIANT
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Nine = tuple[int, int, int, int, int, int, int, int, int]

_LEFT, _LEFT_STEP = 1, 2  # their places among the numbers
_SIGNATURE = "void(float32[::1], UniTuple(int64, 9), int64, int64)"

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
        first = ahead(builder, memory, numbers[_LEFT])

        # Adjacent rows have one base address.
        def factors(pixel: Value) -> list[Value]:
            start = ahead(builder, first, pixel)
            return [ahead(builder, start, integer(row)) for row in range(rows)]

        _emit_tile(Vectors(builder, width), memory, numbers, (rows, vectors), (factors, add))

    return function(emit)


def in_place_tile(vectors: int, *, width: int) -> Any:  # noqa: ANN401  # numba's
    """Left's array, memory, the numbers of add_outer: TURN_ROWS rows at any distance."""

    def emit(builder: Value, lefts: Value, memory: Value, numbers: Sequence[Value]) -> None:
        # Each row has a base address of its own, which stays in a register.
        first, step = ahead(builder, lefts, numbers[_LEFT]), numbers[_LEFT_STEP]
        starts = [ahead(builder, first, _times(builder, step, row)) for row in range(TURN_ROWS)]

        def factors(pixel: Value) -> list[Value]:
            return [ahead(builder, start, pixel) for start in starts]

        add = Vectors.multiply_add
        _emit_tile(Vectors(builder, width), memory, numbers, (TURN_ROWS, vectors), (factors, add))

    return function_of_two(emit)


def _emit_tile(
    lanes: Vectors,
    memory: Value,
    numbers: Sequence[Value],
    shape: tuple[int, int],
    parts: tuple[Callable[[Value], list[Value]], Adding],
) -> None:
    """Emits a tile of rows and vectors; parts are left's places of a pixel, and the addition."""
    depth, _, _, right, pixels, vector_pitch, total, pitch, adds = numbers
    builder, (rows, vectors), (factors, add) = lanes.builder, shape, parts
    # Vectors of right's channels are a block's pixels apart, so each has a base address of its own.
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
        after = list[Value]()
        for row in factors(p):
            factor = lanes.broadcast(row)
            for value in values:
                after.append(add(lanes, factor, value, sums[len(after)]))
        return after

    zeros = [lanes.zero()] * (rows * vectors)
    k, sums = loop(builder, (integer(0), depth, _UNROLLED), zeros, several)
    _, sums = loop(builder, (k, depth, 1), sums, once)
    for row in range(rows):
        place = ahead(builder, memory, builder.add(total, _times(builder, pitch, row)))
        _finish(lanes, sums[row * vectors : (row + 1) * vectors], place, adds)


def _finish(lanes: Vectors, sums: Sequence[Value], first: Value, adds: Value) -> None:
    """Stores a row of sums, or adds them to the totals in memory."""
    builder = lanes.builder
    places = [ahead(builder, first, integer(at * lanes.width)) for at in range(len(sums))]
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
_in_place_3 = in_place_tile(3, width=LANES)
_in_place_2 = in_place_tile(2, width=LANES)
_in_place_1 = in_place_tile(1, width=LANES)
_pairs = Vectors.multiply_add_pairs if VARIANT.pairs else Vectors.multiply_add
_pairs_3 = outer_tile(TURN_ROWS, 3, width=LANES, add=_pairs)
_pairs_2 = outer_tile(TURN_ROWS, 2, width=LANES, add=_pairs)
_pairs_1 = outer_tile(TURN_ROWS, 1, width=LANES, add=_pairs)
_pairs_quarter_1 = outer_tile(_QUARTER, 1, width=LANES, add=_pairs)


@compiled("UniTuple(int64, 9)(UniTuple(int64, 9), int64, int64)")
def _later(numbers: Nine, row: int, vector: int) -> Nine:
    """The same product, from a later row of adjacent ones and a later vector."""
    depth, left, step, right, pixels, vector_pitch, total, pitch, adds = numbers
    source, target = right + vector * vector_pitch, total + row * pitch + vector * LANES
    return depth, left + row, step, source, pixels, vector_pitch, target, pitch, adds


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64)")
def _generated_in_place(left: Floats, memory: Floats, numbers: Nine, vectors: int) -> None:
    if vectors == TURN_VECTORS:
        _in_place_3(left, memory, numbers)
    elif vectors == _TWO_VECTORS:
        _in_place_2(left, memory, numbers)
    else:
        _in_place_1(left, memory, numbers)


@compiled(_SIGNATURE)
def _generated_pairs(memory: Floats, numbers: Nine, rows: int, vectors: int) -> None:
    if rows > _HALF and vectors == TURN_VECTORS:
        _pairs_3(memory, numbers)
    elif rows > _HALF and vectors == _TWO_VECTORS:
        _pairs_2(memory, numbers)
    elif rows > _HALF:
        _pairs_1(memory, numbers)
    else:
        for row in range(0, rows, _QUARTER):
            for vector in range(vectors):
                _pairs_quarter_1(memory, _later(numbers, row, vector))


@compiled(_SIGNATURE)
def _generated_outer(memory: Floats, numbers: Nine, rows: int, vectors: int) -> None:
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
        for vector in range(vectors):
            if rows > _QUARTER:
                _outer_half_1(memory, _later(numbers, 0, vector))
            else:
                _outer_quarter_1(memory, _later(numbers, 0, vector))


@compiled("int64(int64)")
def _whole(rows: int) -> int:
    """Rows that the generated micro-kernel computes."""
    if rows > _HALF:
        return TURN_ROWS
    return _HALF if rows > _QUARTER else _QUARTER


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64, int64)")
def _plain(left: Floats, scratch: Floats, numbers: Nine, rows: int, vectors: int) -> None:
    depth, first, step, right, pixels, vector_pitch, total, pitch, adds = numbers
    table = scratch.view(np.int32)
    for row in range(_whole(rows)):
        for vector in range(vectors):
            target = scratch[total + row * pitch + vector * LANES :][:LANES]
            if not adds:
                target[:] = np.float32(0)
            for k in range(depth):
                factor = left[first + row * step + int(table[pixels + 2 * k])]
                place = right + vector * vector_pitch + int(table[pixels + 2 * k + 1])
                source = scratch[place : place + LANES]
                for lane in range(LANES):
                    target[lane] += factor * source[lane]


@compiled(_SIGNATURE)
def plain_outer(memory: Floats, numbers: Nine, rows: int, vectors: int) -> None:
    """The same in plain loops."""
    _plain(memory, memory, numbers, rows, vectors)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64)")
def plain_in_place(left: Floats, memory: Floats, numbers: Nine, vectors: int) -> None:
    """The same with left's array."""
    _plain(left, memory, numbers, TURN_ROWS, vectors)


add_outer = plain_outer if VARIANT.plain else _generated_outer
add_outer_in_place = plain_in_place if VARIANT.plain else _generated_in_place
# Without the instruction no plan has pairs.
add_outer_pairs = _generated_pairs if VARIANT.pairs else add_outer
