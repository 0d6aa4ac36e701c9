"""The micro-kernels: four functions that perform all multiplications.

All operands and sums are in one float32 array, the workspace; `table` is the same memory as int32.
Places and pitches count float32 values from its start.

    multiply_packed  (depth, left, right, total, pitch, adds), rows, vectors
        total[m, n] (= | +=) sum over k < depth of left[k, m] * right[k, n]
        left is a panel (depth, TILE_ROWS), right a panel (depth, TILE_COLUMNS), both contiguous.

    multiply_in_place  factors, values, totals, memory, (depth, left, left_pitch, left_step,
                       right, right_pitch, total, pitch, adds, bias), rows, vectors
        The same of three arrays: left[k, m] is factors[left + m * left_pitch + k * left_step],
        right[k, n] is values[right + k * right_pitch + n], and total is in totals, of which no more
        rows are written. With a bias, memory[bias + m] is added to the sums of row m, which are
        set; a negative place is none.

    multiply_flat    (depth, left, right, offsets, total, pitch, adds), rows, vectors
        The same, but row k of right starts at right + table[offsets + k], at any place: rows
        may overlap, as those of an image under the taps of a kernel do.

    add_dots         (count, left, left_pitch, right, offsets, total), rows, columns
        total[n, m] += sum over i < count of right[n, i] * left[m, i]
        Rows of left are left_pitch apart, row n of right starts at right + table[offsets + n];
        total is a panel (columns, TILE_ROWS). count is a multiple of LANES.

`rows` is at most TILE_ROWS, `vectors` at most TILE_VECTORS (a vector is LANES columns), `columns`
at most DOT_COLUMNS. `rows` is rounded up to one of host.ROW_COUNTS: this many rows of left are read
and of total written (host.whole_rows returns the number in all). Row m of the first two totals
starts at total + m * pitch. `adds` is 0 or 1. Sums are taken in float32, with fused multiply-adds,
in an order that depends only on the arguments.

The first three have a variant, about half as fast, that skips the products of PADDING (-0.0) on the
right. It serves weights with infinities or NaNs, whose product with a zero is no zero.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen import plain_kernels
from opserve_kernels.algorithms.codegen.tiles import (
    dots_tile,
    flat_tile,
    in_place_tile,
    packed_tile,
)
from opserve_kernels.algorithms.codegen.vectors import Vectors
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS, TILE_VECTORS, VARIANT
from opserve_kernels.loops import compiled

__all__ = [
    "DOT_COLUMNS",
    "LANES",
    "TILE_COLUMNS",
    "TILE_ROWS",
    "TILE_VECTORS",
    "add_dots",
    "multiply_flat",
    "multiply_flat_skip_padding",
    "multiply_in_place",
    "multiply_in_place_skip_padding",
    "multiply_packed",
    "multiply_packed_skip_padding",
]

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Six = tuple[int, int, int, int, int, int]
Seven = tuple[int, int, int, int, int, int, int]
Ten = tuple[int, int, int, int, int, int, int, int, int, int]

_IN_PLACE = (
    "void(float32[::1], float32[::1], float32[::1], float32[::1], UniTuple(int64, 10), "
    "int64, int64)"
)
DOT_COLUMNS = 3

# Tiles for the last rows and columns of a product. Measured with AVX-512, in percent of the FMA
# peak: 8x3 vectors 97 to 102, 8x2 96 to 104, 8x1 78 to 87, 4x3 77 to 99, 4x1 53 to 57, 2x3 50 to
# 69. Larger tiles (9x3, 14x2, 28x1, 6x4) gain nothing over 8x3.
_HALF, _QUARTER = TILE_ROWS // 2, TILE_ROWS // 4
_TWO_VECTORS = 2
_PITCHES = (TILE_ROWS, TILE_COLUMNS)

# Pitches are constants of the panels: the generator folds them into the addresses.
_packed_3 = packed_tile(TILE_ROWS, 3, width=LANES, pitches=_PITCHES)
_packed_2 = packed_tile(TILE_ROWS, 2, width=LANES, pitches=_PITCHES)
_packed_1 = packed_tile(TILE_ROWS, 1, width=LANES, pitches=_PITCHES)
_packed_half_3 = packed_tile(_HALF, 3, width=LANES, pitches=_PITCHES)
_packed_half_1 = packed_tile(_HALF, 1, width=LANES, pitches=_PITCHES)
_packed_quarter_3 = packed_tile(_QUARTER, 3, width=LANES, pitches=_PITCHES)
_packed_quarter_1 = packed_tile(_QUARTER, 1, width=LANES, pitches=_PITCHES)

_in_place_3 = in_place_tile(TILE_ROWS, 3, width=LANES)
_in_place_2 = in_place_tile(TILE_ROWS, 2, width=LANES)
_in_place_1 = in_place_tile(TILE_ROWS, 1, width=LANES)

_flat_3 = flat_tile(TILE_ROWS, 3, width=LANES, pitch=TILE_ROWS)
_flat_1 = flat_tile(TILE_ROWS, 1, width=LANES, pitch=TILE_ROWS)
_flat_half_3 = flat_tile(_HALF, 3, width=LANES, pitch=TILE_ROWS)
_flat_half_1 = flat_tile(_HALF, 1, width=LANES, pitch=TILE_ROWS)
_flat_quarter_3 = flat_tile(_QUARTER, 3, width=LANES, pitch=TILE_ROWS)
_flat_quarter_1 = flat_tile(_QUARTER, 1, width=LANES, pitch=TILE_ROWS)

_dots_3 = dots_tile(TILE_ROWS, DOT_COLUMNS, width=LANES, pitch=TILE_ROWS)
_dots_1 = dots_tile(TILE_ROWS, 1, width=LANES, pitch=TILE_ROWS)
_dots_half_3 = dots_tile(_HALF, DOT_COLUMNS, width=LANES, pitch=TILE_ROWS)
_dots_half_1 = dots_tile(_HALF, 1, width=LANES, pitch=TILE_ROWS)
_dots_quarter_3 = dots_tile(_QUARTER, DOT_COLUMNS, width=LANES, pitch=TILE_ROWS)
_dots_quarter_1 = dots_tile(_QUARTER, 1, width=LANES, pitch=TILE_ROWS)

# One vector of columns is enough here: only calls with a weight that is not finite run these.
_skip = Vectors.multiply_add_image
_packed_skip = packed_tile(TILE_ROWS, 1, width=LANES, pitches=_PITCHES, add=_skip)
_in_place_skip = in_place_tile(TILE_ROWS, 1, width=LANES, add=_skip)
_packed_quarter_skip = packed_tile(_QUARTER, 1, width=LANES, pitches=_PITCHES, add=_skip)
_flat_skip = flat_tile(TILE_ROWS, 1, width=LANES, pitch=TILE_ROWS, add=_skip)
_flat_quarter_skip = flat_tile(_QUARTER, 1, width=LANES, pitch=TILE_ROWS, add=_skip)


@compiled("UniTuple(int64, 6)(UniTuple(int64, 6), int64)")
def _next_columns(numbers: Six, columns: int) -> Six:
    """The same product, from a later column."""
    depth, left, right, total, pitch, adds = numbers
    # Columns of right are contiguous within a panel, so a narrower product starts that much later.
    return depth, left, right + columns, total + columns, pitch, adds


# The four dispatchers below inline each tile once; compile time grows with every tile. So only the
# combinations that inner loops meet often have a tile, and the rest is computed vector by vector.
@compiled("void(float32[::1], UniTuple(int64, 6), int64, int64)")
def _generated_packed(memory: Floats, numbers: Six, rows: int, vectors: int) -> None:
    if vectors == TILE_VECTORS and rows > _HALF:
        _packed_3(memory, numbers)
    elif vectors == TILE_VECTORS and rows > _QUARTER:
        _packed_half_3(memory, numbers)
    elif vectors == TILE_VECTORS:
        _packed_quarter_3(memory, numbers)
    elif vectors == _TWO_VECTORS and rows > _HALF:
        _packed_2(memory, numbers)
    elif rows > _HALF:
        _packed_1(memory, numbers)
    else:
        for vector in range(vectors):
            later = _next_columns(numbers, vector * LANES)
            if rows > _QUARTER:
                _packed_half_1(memory, later)
            else:
                _packed_quarter_1(memory, later)


@compiled(_IN_PLACE)
def multiply_in_place(  # noqa: PLR0913, PLR0917  # arrays and integers
    factors: Floats,
    values: Floats,
    totals: Floats,
    memory: Floats,
    numbers: Ten,
    rows: int,
    vectors: int,
) -> None:
    """As multiply_packed, of several arrays; not for plain kernels."""
    if vectors == TILE_VECTORS:
        _in_place_3(factors, values, totals, memory, (*numbers, rows))
    elif vectors == _TWO_VECTORS:
        _in_place_2(factors, values, totals, memory, (*numbers, rows))
    else:
        _in_place_1(factors, values, totals, memory, (*numbers, rows))


@compiled(_IN_PLACE)
def multiply_in_place_skip_padding(  # noqa: PLR0913, PLR0917  # arrays and integers
    factors: Floats,
    values: Floats,
    totals: Floats,
    memory: Floats,
    numbers: Ten,
    rows: int,
    vectors: int,
) -> None:
    """The same without products of PADDING."""
    right, right_pitch, total = numbers[4:7]
    for at in range(0, vectors * LANES, LANES):
        later = (*numbers[:4], right + at, right_pitch, total + at, *numbers[7:], rows)
        _in_place_skip(factors, values, totals, memory, later)


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 7), int64, int64)")
def _generated_flat(
    memory: Floats, _table: Offsets, numbers: Seven, rows: int, vectors: int
) -> None:
    depth, left, right, offsets, total, pitch, adds = numbers
    if vectors == TILE_VECTORS and rows > _HALF:
        _flat_3(memory, numbers)
    elif vectors == TILE_VECTORS and rows > _QUARTER:
        _flat_half_3(memory, numbers)
    elif vectors == TILE_VECTORS:
        _flat_quarter_3(memory, numbers)
    else:
        for vector in range(vectors):
            at = vector * LANES
            later = (depth, left, right + at, offsets, total + at, pitch, adds)
            if rows > _HALF:
                _flat_1(memory, later)
            elif rows > _QUARTER:
                _flat_half_1(memory, later)
            else:
                _flat_quarter_1(memory, later)


@compiled("UniTuple(int64, 6)(UniTuple(int64, 6), int64)")
def _later_dots(numbers: Six, column: int) -> Six:
    """The same dots, from a later row of right."""
    count, left, left_pitch, right, offsets, total = numbers
    return count, left, left_pitch, right, offsets + column, total + column * TILE_ROWS


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 6), int64, int64)")
def _generated_dots(memory: Floats, _table: Offsets, numbers: Six, rows: int, columns: int) -> None:
    if columns == DOT_COLUMNS and rows > _HALF:
        _dots_3(memory, numbers)
    elif columns == DOT_COLUMNS and rows > _QUARTER:
        _dots_half_3(memory, numbers)
    elif columns == DOT_COLUMNS:
        _dots_quarter_3(memory, numbers)
    else:
        for column in range(columns):
            later = _later_dots(numbers, column)
            if rows > _HALF:
                _dots_1(memory, later)
            elif rows > _QUARTER:
                _dots_half_1(memory, later)
            else:
                _dots_quarter_1(memory, later)


@compiled("void(float32[::1], UniTuple(int64, 6), int64, int64)")
def _generated_packed_skip_padding(memory: Floats, numbers: Six, rows: int, vectors: int) -> None:
    for vector in range(vectors):
        depth, left, right, total, pitch, adds = _next_columns(numbers, vector * LANES)
        if rows > _HALF:
            _packed_skip(memory, (depth, left, right, total, pitch, adds))
            continue
        for row in range(0, rows, _QUARTER):
            lower = (depth, left + row, right, total + row * pitch, pitch, adds)
            _packed_quarter_skip(memory, lower)


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 7), int64, int64)")
def _generated_flat_skip_padding(
    memory: Floats, _table: Offsets, numbers: Seven, rows: int, vectors: int
) -> None:
    depth, left, right, offsets, total, pitch, adds = numbers
    for column in range(0, vectors * LANES, LANES):
        source, target = right + column, total + column
        if rows > _HALF:
            _flat_skip(memory, (depth, left, source, offsets, target, pitch, adds))
            continue
        for row in range(0, rows, _QUARTER):
            lower = (depth, left + row, source, offsets, target + row * pitch, pitch, adds)
            _flat_quarter_skip(memory, lower)


# The choice is made once, on import: compiled callers contain one variant only.
multiply_packed = plain_kernels.multiply_packed if VARIANT.plain else _generated_packed
multiply_flat = plain_kernels.multiply_flat if VARIANT.plain else _generated_flat
add_dots = plain_kernels.add_dots if VARIANT.plain else _generated_dots
multiply_packed_skip_padding = (
    plain_kernels.multiply_packed_skip_padding if VARIANT.plain else _generated_packed_skip_padding
)
multiply_flat_skip_padding = (
    plain_kernels.multiply_flat_skip_padding if VARIANT.plain else _generated_flat_skip_padding
)
