"""The fold: adds every tap's positions to the image rows under it, block by block.

out[plane, h, w] = sum over taps a, b, both descending, of columns[plane, a, b, i, j]
    where h = i * stride + a * dilation - padding, and w likewise of j, b

For a pixel, taps that descend are positions i, then j, that ascend. The stride splits a row into
phases, w = u * stride + phase; in a phase, a tap's positions are contiguous. Neighbouring taps b
that shift by the same u meet different phases, and are added at once:

    columns of taps b, b+1     phases of a row         row
    0 1 2 3                    0 1 2 3
    a b c d               ->   a b c d            ->   0 a 1 b 2 c 3 d

A later tap is before this one in memory, where hardware prefetchers do not read ahead. While one
tap is added, the values that follow it in this order are prefetched.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.rows import add_rows, interleave_phases
from opserve_kernels.algorithms.fold.layout import FoldStage, Pair
from opserve_kernels.loops import compiled
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.strided import load, position_of, store

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Triple = tuple[int, int, int]


@compiled()
def _positions_down(stage: FoldStage, tap: int, rows: Pair) -> tuple[int, int, int]:
    """First and last position whose tap is in rows first .. last-1, and the row of the first."""
    # Rows below 0 or beyond the block are left out: bounds are computed, not tested row by row.
    shift, stride = tap * stage.shape.dilation[0] - stage.shape.padding[0], stage.shape.stride[0]
    first = max(0, -((shift - rows[0]) // stride))
    last = min(stage.shape.positions[0], (rows[1] - 1 - shift) // stride + 1)
    return first, last, first * stride + shift - rows[0]


@compiled()
def _taps_beside(stage: FoldStage, least: int, tap: int) -> tuple[int, int, int]:
    """First of the taps up to `tap` that shift by the same u; that u; and the first tap's phase."""
    # Taps a dilation apart have the same u until the phase would exceed the stride.
    dilation, stride = stage.shape.dilation[1], stage.shape.stride[1]
    shift = tap * dilation - stage.shape.padding[1]
    column = shift // stride
    beside = min(tap - least, (shift - column * stride) // dilation)
    return tap - beside, column, shift - column * stride - beside * dilation


@compiled()
def _ahead(stage: FoldStage, tap: int, rows: int) -> int:
    """Distance from a tap's values to those that are added one group of taps later.

    Behind a block's first taps come the last taps of the next block.
    """
    # Taps that shift by the same u are at most this many.
    beside = (stage.shape.stride[1] - 1) // stage.shape.dilation[1] + 1
    values = stage.shape.positions[0] * stage.shape.positions[1]
    distance = -beside * values
    if tap < beside:
        plane = stage.shape.kernel[0] * stage.shape.kernel[1] * values
        distance += 2 * plane if stage.blocks == 1 else plane + rows * stage.shape.positions[1]
    return distance


# From the last tap to the first: this order is the documented order of the sums of a pixel.
# Positions left of the row or right of it fall into padding, which has no sums.
# A plain source is added from its tensor, all neighbouring taps in one call. Others are loaded one
# tap at a time.
@compiled()
def _add_tap_row(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: FoldStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    plane: int,
    down: Triple,
    taps_of: Triple,
) -> None:
    """Adds positions `down` (first, last, row in the block) under taps (row, first, last)."""
    (first, last, row), (tap_row, least, most_tap) = down, taps_of
    wide, columns, row_pitch = stage.shape.positions[1], stage.columns, stage.row_pitch
    high, taps = stage.shape.positions[0], stage.shape.kernel[1]
    dilation, most = stage.shape.dilation[1], stage.phases
    phases, pitch = dilation * stage.phase_pitch, stage.shape.stride[0] * row_pitch
    view, values, tap = stage.source_layout, stage.values, most_tap - 1
    lines = (plane * stage.shape.kernel[0] + tap_row) * taps
    start = 0
    if stage.source_plain:
        whole = stage.shape.kernel[0] * taps * high * wide
        start = position_of(view, plane * whole) + (tap_row * taps * high + first) * wide
    while tap >= least:
        beside, column, phase = _taps_beside(stage, least, tap)
        left, right = max(0, -column), min(wide, columns - column)
        place = stage.sums + phase * stage.phase_pitch + row * row_pitch + left + column
        count = min(tap - beside + 1, (most - phase - 1) // dilation + 1)
        sizes = (last - first, max(0, right - left))
        if stage.source_plain:
            from_ = (start + beside * high * wide + left, high * wide, wide)
            numbers = (*from_, place, phases, pitch, count, *sizes)
            number = tap_row * taps + beside
            add_rows(floats, scratch, numbers, _ahead(stage, number, last - first))
        else:
            for number in range(count):
                index = ((lines + beside + number) * high + first) * wide
                loaded = scratch[values : values + (last - first) * wide]
                load(floats, halves, view, FLOAT, index, loaded)
                from_ = (values + left, 0, wide)
                to = (place + number * phases, 0, pitch)
                add_rows(scratch, scratch, (*from_, *to, 1, *sizes), 0)
        tap = beside - 1


@compiled()
def _store_rows(
    stage: FoldStage, scratch: Floats, floats: Floats, halves: Halves, plane: int, rows: Pair
) -> None:
    """Stores rows first .. last-1 of a plane from their sums."""
    # Sums are by phase; the stride's phases interleave into rows of the image.
    width, count = stage.shape.size[1], rows[1] - rows[0]
    view, index = stage.result_layout, plane * stage.shape.size[0] * stage.shape.size[1]
    source, sizes = (stage.sums, 0, stage.row_pitch), (1, count, width)
    phases, pitch = stage.phases, stage.phase_pitch
    if stage.result_plain:
        target = (position_of(view, index) + rows[0] * width, 0, width)
        interleave_phases(scratch, floats, (*source, *target, *sizes), phases, pitch)
        return
    target = (stage.lines, 0, width)
    interleave_phases(scratch, scratch, (*source, *target, *sizes), phases, pitch)
    lines = scratch[stage.lines : stage.lines + count * width]
    number_format, first = stage.number_format, index + rows[0] * width
    store(lines, number_format, view, first, floats, halves)


@compiled()
def _permute(stage: FoldStage, source: Floats, result: Floats, plane: int, rows: Pair) -> None:
    """Moves rows first .. last-1 of a plane where each row of the image has one row of taps."""
    # Nothing overlaps: each pixel has one column, so rows of taps interleave straight into the
    # image.
    stride, width = stage.shape.stride[0], stage.shape.size[1]
    high, wide, taps = stage.shape.positions[0], stage.shape.positions[1], stage.shape.kernel[1]
    pixels = plane * stage.shape.size[0] * width
    start = position_of(stage.source_layout, pixels) + rows[0] // stride * wide
    place = position_of(stage.result_layout, pixels) + rows[0] * width
    for tap_row in range(stride):
        from_ = (start + tap_row * taps * high * wide, 0, wide)
        to = (place + tap_row * width, 0, stride * width)
        sizes = (1, (rows[1] - rows[0]) // stride, width)
        interleave_phases(source, result, (*from_, *to, *sizes), taps, high * wide)


@compiled()
def _add_taps(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: FoldStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    plane: int,
    rows: Pair,
    part: int,
) -> None:
    """Adds a part of the taps, counted from the last, to the sums of rows first .. last-1."""
    # Parts of a block run in order: the first one clears the sums, the last one is followed by the
    # store.
    if part == 0:
        sums, count = stage.sums, stage.phases * stage.phase_pitch
        scratch[sums : sums + count] = np.float32(0)
    across = (stage.shape.kernel[1] - 1) // stage.part_taps + 1
    last_row = stage.shape.kernel[0] - part // across * stage.part_rows
    last_tap = stage.shape.kernel[1] - part % across * stage.part_taps
    first_tap = max(0, last_tap - stage.part_taps)
    for tap_row in range(last_row - 1, max(0, last_row - stage.part_rows) - 1, -1):
        down, taps = _positions_down(stage, tap_row, rows), (tap_row, first_tap, last_tap)
        if down[0] < down[1]:
            _add_tap_row(stage, scratch, floats, halves, plane, down, taps)


@compiled()
def run_fold(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: FoldStage,
    scratch: Floats,
    source: Floats,
    source_halves: Halves,
    result: Floats,
    result_halves: Halves,
    first_unit: int,
    last_unit: int,
) -> None:
    """Runs units first_unit .. last_unit-1; buffers are given as float32 and as halves."""
    # Units count parts, then blocks, then planes; the sums of a block stay in place between its
    # parts.
    blocks, height = stage.blocks, stage.shape.size[0]
    parts, unit_parts = stage.parts, stage.unit_parts
    last = min(last_unit * unit_parts, stage.planes * blocks * parts)
    for number in range(first_unit * unit_parts, last):
        block, part = number // parts, number % parts
        plane, row = block // blocks, block % blocks * stage.block_rows
        rows = (row, min(row + stage.block_rows, height))
        if stage.permuted:
            _permute(stage, source, result, plane, rows)
        else:
            _add_taps(stage, scratch, source, source_halves, plane, rows, part)
            if part == parts - 1:
                _store_rows(stage, scratch, result, result_halves, plane, rows)
