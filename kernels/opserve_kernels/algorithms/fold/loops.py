"""The fold: every tap's positions added to the rows of the image under it, block by block.

out[plane, h, w] = sum over taps a, b, both descending, of columns[plane, a, b, i, j]
    where h = i * stride + a * dilation - padding, and w likewise of j, b

For a pixel, taps that descend are positions i, then j, that ascend. The stride splits a row into
phases, w = u * stride + phase; in a phase, a tap's positions lie side by side. Taps b beside each
other that shift by the same u meet different phases, and are added at once:

    columns of taps b, b+1     phases of a row         row
    0 1 2 3                    0 1 2 3
    a b c d               ->   a b c d            ->   0 a 1 b 2 c 3 d

A later tap lies before this one in memory, where processors do not read ahead by themselves:
while one is added, what comes after it is fetched.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.rows import add_rows, deal_rows
from opserve_kernels.algorithms.fold.plan import (
    BLOCK_ROWS,
    BLOCKS,
    COLUMNS,
    DILATION,
    HEIGHT,
    HIGH,
    KERNEL,
    LINES,
    NUMBER_FORMAT,
    PADDING,
    PART_ROWS,
    PART_TAPS,
    PARTS,
    PERMUTED,
    PHASE_PITCH,
    PHASES,
    PLANES,
    RESULT_PLAIN,
    RESULT_VIEW,
    ROW_PITCH,
    SOURCE_PLAIN,
    SOURCE_VIEW,
    STRIDE,
    SUMS,
    UNIT_PARTS,
    VALUES,
    WIDE,
    WIDTH,
)
from opserve_kernels.loops import compiled
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.strided import load, position_of, store

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]
Pair = tuple[int, int]
Triple = tuple[int, int, int]


@compiled("UniTuple(int64, 3)(int64[::1], int64, UniTuple(int64, 2))")
def _positions_down(parameters: Integers, tap: int, rows: Pair) -> tuple[int, int, int]:
    """First and last position whose tap lies in rows first .. last-1; the row of the first."""
    shift, stride = tap * parameters[DILATION] - parameters[PADDING], parameters[STRIDE]
    first = max(0, -((shift - rows[0]) // stride))
    last = min(parameters[HIGH], (rows[1] - 1 - shift) // stride + 1)
    return int(first), int(last), int(first * stride + shift - rows[0])


@compiled("UniTuple(int64, 3)(int64[::1], int64, int64)")
def _taps_beside(parameters: Integers, least: int, tap: int) -> tuple[int, int, int]:
    """The first of the taps up to this that shift by the same u; that u; the first tap's phase."""
    dilation, stride = parameters[DILATION + 1], parameters[STRIDE + 1]
    shift = tap * dilation - parameters[PADDING + 1]
    column = shift // stride
    beside = min(tap - least, (shift - column * stride) // dilation)
    return tap - beside, int(column), int(shift - column * stride - beside * dilation)


@compiled("int64(int64[::1], int64, int64)")
def _ahead(parameters: Integers, tap: int, rows: int) -> int:
    """From the values of a tap to those that are added so many taps later as may be added at once.

    Behind a block's first taps come the last of the next block.
    """
    beside = (parameters[STRIDE + 1] - 1) // parameters[DILATION + 1] + 1
    values = parameters[HIGH] * parameters[WIDE]
    distance = -beside * values
    if tap < beside:
        plane = parameters[KERNEL] * parameters[KERNEL + 1] * values
        distance += 2 * plane if parameters[BLOCKS] == 1 else plane + rows * parameters[WIDE]
    return int(distance)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, UniTuple(int64, 3), "
    "UniTuple(int64, 3))"
)
def _add_tap_row(  # noqa: PLR0913, PLR0917  # arrays and places
    parameters: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    plane: int,
    down: Triple,
    taps_of: Triple,
) -> None:
    """Adds the positions `down` (first, last, row in the block) under taps (row, first, last)."""
    (first, last, row), (tap_row, least, most_tap) = down, taps_of
    wide, columns, row_pitch = parameters[WIDE], parameters[COLUMNS], parameters[ROW_PITCH]
    high, taps = parameters[HIGH], parameters[KERNEL + 1]
    dilation, most = parameters[DILATION + 1], parameters[PHASES]
    phases, pitch = dilation * parameters[PHASE_PITCH], parameters[STRIDE] * row_pitch
    view, values, tap = parameters[SOURCE_VIEW:], parameters[VALUES], most_tap - 1
    lines = (plane * parameters[KERNEL] + tap_row) * taps
    start = 0
    if parameters[SOURCE_PLAIN]:
        whole = parameters[KERNEL] * taps * high * wide
        start = position_of(view, plane * whole) + (tap_row * taps * high + first) * wide
    while tap >= least:
        beside, column, phase = _taps_beside(parameters, least, tap)
        left, right = max(0, -column), min(wide, columns - column)
        place = parameters[SUMS] + phase * parameters[PHASE_PITCH] + row * row_pitch + left + column
        count = min(tap - beside + 1, (most - phase - 1) // dilation + 1)
        sizes = (last - first, max(0, right - left))
        if parameters[SOURCE_PLAIN]:
            from_ = (start + beside * high * wide + left, high * wide, wide)
            numbers = (*from_, place, phases, pitch, count, *sizes)
            number = tap_row * taps + beside
            add_rows(floats, scratch, numbers, _ahead(parameters, number, last - first))
        else:
            for number in range(count):
                index = ((lines + beside + number) * high + first) * wide
                loaded = scratch[values : values + (last - first) * wide]
                load(floats, halves, view, FLOAT, index, loaded)
                from_ = (values + left, 0, wide)
                to = (place + number * phases, 0, pitch)
                add_rows(scratch, scratch, (*from_, *to, 1, *sizes), 0)
        tap = beside - 1


@compiled("void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, UniTuple(int64, 2))")
def _store_rows(
    parameters: Integers, scratch: Floats, floats: Floats, halves: Halves, plane: int, rows: Pair
) -> None:
    """Rows first .. last-1 of a plane from their sums."""
    width, count = parameters[WIDTH], rows[1] - rows[0]
    view, index = parameters[RESULT_VIEW:], plane * parameters[HEIGHT] * parameters[WIDTH]
    source, sizes = (parameters[SUMS], 0, parameters[ROW_PITCH]), (1, count, width)
    phases, pitch = parameters[PHASES], parameters[PHASE_PITCH]
    if parameters[RESULT_PLAIN]:
        target = (position_of(view, index) + rows[0] * width, 0, width)
        deal_rows(scratch, floats, (*source, *target, *sizes), phases, pitch)
        return
    target = (parameters[LINES], 0, width)
    deal_rows(scratch, scratch, (*source, *target, *sizes), phases, pitch)
    lines = scratch[parameters[LINES] : parameters[LINES] + count * width]
    number_format, first = parameters[NUMBER_FORMAT], index + rows[0] * width
    store(lines, number_format, view, first, floats, halves)


@compiled("void(int64[::1], float32[::1], float32[::1], int64, UniTuple(int64, 2))")
def _permute(parameters: Integers, source: Floats, result: Floats, plane: int, rows: Pair) -> None:
    """Rows first .. last-1 of a plane where a row of the image has one row of taps."""
    stride, width = parameters[STRIDE], parameters[WIDTH]
    high, wide, taps = parameters[HIGH], parameters[WIDE], parameters[KERNEL + 1]
    pixels = plane * parameters[HEIGHT] * width
    start = position_of(parameters[SOURCE_VIEW:], pixels) + rows[0] // stride * wide
    place = position_of(parameters[RESULT_VIEW:], pixels) + rows[0] * width
    for tap_row in range(stride):
        from_ = (start + tap_row * taps * high * wide, 0, wide)
        to = (place + tap_row * width, 0, stride * width)
        sizes = (1, (rows[1] - rows[0]) // stride, width)
        deal_rows(source, result, (*from_, *to, *sizes), taps, high * wide)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, UniTuple(int64, 2), int64)"
)
def _add_taps(  # noqa: PLR0913, PLR0917  # arrays and places
    parameters: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    plane: int,
    rows: Pair,
    part: int,
) -> None:
    """Adds a part of the taps, counted from the last, to the sums of rows first .. last-1."""
    if part == 0:
        sums, count = parameters[SUMS], parameters[PHASES] * parameters[PHASE_PITCH]
        scratch[sums : sums + count] = np.float32(0)
    across = (parameters[KERNEL + 1] - 1) // parameters[PART_TAPS] + 1
    last_row = parameters[KERNEL] - part // across * parameters[PART_ROWS]
    last_tap = parameters[KERNEL + 1] - part % across * parameters[PART_TAPS]
    first_tap = max(0, last_tap - parameters[PART_TAPS])
    for tap_row in range(last_row - 1, max(0, last_row - parameters[PART_ROWS]) - 1, -1):
        down, taps = _positions_down(parameters, tap_row, rows), (tap_row, first_tap, last_tap)
        if down[0] < down[1]:
            _add_tap_row(parameters, scratch, floats, halves, plane, down, taps)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], float32[::1], uint16[::1], "
    "int64, int64)"
)
def run_fold(  # noqa: PLR0913, PLR0917  # arrays and integers
    parameters: Integers,
    scratch: Floats,
    source: Floats,
    source_halves: Halves,
    result: Floats,
    result_halves: Halves,
    first_unit: int,
    last_unit: int,
) -> None:
    """Runs units first_unit .. last_unit-1; the buffers come as float32 and as halves."""
    blocks, height = parameters[BLOCKS], parameters[HEIGHT]
    parts, unit_parts = parameters[PARTS], parameters[UNIT_PARTS]
    last = min(last_unit * unit_parts, parameters[PLANES] * blocks * parts)
    for number in range(first_unit * unit_parts, last):
        block, part = number // parts, number % parts
        plane, row = block // blocks, block % blocks * parameters[BLOCK_ROWS]
        rows = (row, min(row + parameters[BLOCK_ROWS], height))
        if parameters[PERMUTED]:
            _permute(parameters, source, result, plane, rows)
        else:
            _add_taps(parameters, scratch, source, source_halves, plane, rows, part)
            if part == parts - 1:
                _store_rows(parameters, scratch, result, result_halves, plane, rows)
