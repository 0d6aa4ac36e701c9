"""The totals of a block: products of panels, step by step, and their way into the result.

    weight panels, panels of pixels   ->  totals (phases, channels, positions of a group)
    totals of all phases of a stride  ->  the result, or by way of lines what has to be converted

With FLAT there are no panels of pixels: the micro-kernel reads the padded copy where it lies, and
also computes the positions between the rows, which are dropped. That pays for few channels.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.blocks import result_size, triple
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.micro_kernels import (
    multiply_flat,
    multiply_flat_carefully,
    multiply_packed,
    multiply_packed_carefully,
)
from opserve_kernels.algorithms.panels import fill_panel, joined
from opserve_kernels.algorithms.product import (
    ALGORITHM,
    BATCH,
    BLOCK_AXIS,
    CHANNEL_PITCH,
    DEPTH_BLOCK,
    EXTENT,
    FLAGS,
    FLAT,
    LINE,
    PANEL,
    PHASE_TOTAL,
    RESULT_CHANNEL_STEP,
    RESULT_CHANNELS,
    RESULT_ENTRY_STEP,
    RESULT_FORMAT,
    RESULT_VIEW,
    SOURCE,
    SOURCE_IN_PLACE,
    TABLE,
    TOTAL,
    TOTAL_PITCH,
)
from opserve_kernels.algorithms.rows import deal_rows
from opserve_kernels.algorithms.taps import (
    offsets_place,
    result_channels,
    result_phases,
    result_stride,
    source_channels,
)
from opserve_kernels.algorithms.transfers import all_finite, fill
from opserve_kernels.algorithms.weight_panels import panel_place
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.strided import store

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]
Six = tuple[int, int, int, int, int, int]


@compiled("int64(int64[::1], int32[::1], int64)")
def _depth(stage: Integers, table: Offsets, phase: int) -> int:
    """Products of a sum of a phase."""
    taps = table[stage[TABLE] + phase + 1] - table[stage[TABLE] + phase]
    return int(source_channels(stage) * taps)


@compiled("UniTuple(int64, 2)(int64[::1], int32[::1], int64)")
def step_of(stage: Integers, table: Offsets, step: int) -> tuple[int, int]:
    """Phase and first product of a step; a phase without products has one step as well."""
    for phase in range(result_phases(stage)):
        steps = max(1, -(-_depth(stage, table, phase) // DEPTH_BLOCK))
        if step < steps:
            return phase, step * DEPTH_BLOCK
        step -= steps
    return -1, 0


@compiled("void(int64[::1], float32[::1], int32[::1], UniTuple(int64, 6), int64, int64)")
def _multiply_tile(  # arrays and integers
    stage: Integers, scratch: Floats, table: Offsets, numbers: Six, vectors: int, pitch: int
) -> None:
    """All channels of a tile; numbers are those of the first panel, others a pitch apart."""
    count, left, right, offsets, total, adds = numbers
    flagged, flat = scratch[stage[FLAGS]] != 0, stage[ALGORITHM] == FLAT
    is_padded = flagged and not stage[SOURCE_IN_PLACE]
    for m in range(0, result_channels(stage), TILE_ROWS):
        rows = min(TILE_ROWS, result_channels(stage) - m)
        finite = not is_padded or all_finite(table, left, count * TILE_ROWS)
        if flat:
            looked_up = (count, left, right, offsets, total, stage[TOTAL_PITCH], adds)
            if finite:
                multiply_flat(scratch, table, looked_up, rows, vectors)
            else:
                multiply_flat_carefully(scratch, table, looked_up, rows, vectors)
        else:
            packed = (count, left, right, total, stage[TOTAL_PITCH], adds)
            if finite:
                multiply_packed(scratch, packed, rows, vectors)
            else:
                multiply_packed_carefully(scratch, packed, rows, vectors)
        left += pitch
        total += TILE_ROWS * stage[TOTAL_PITCH]


@compiled(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], int64, UniTuple(int64, 2), "
    "UniTuple(int64, 3), UniTuple(int64, 2))"
)
def add_step(  # noqa: PLR0913, PLR0917  # arrays, places and pairs
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    group: int,
    step: tuple[int, int],
    rows: Triple,
    positions: tuple[int, int],
) -> None:
    """Adds a step to the totals of positions first .. last-1, the first step of a phase sets them.

    Positions are counted in the block's rows, with FLAT in those of the padded copy.
    """
    (phase, k), (first, last) = step, positions
    depth, total = _depth(stage, table, phase), stage[TOTAL] + phase * stage[PHASE_TOTAL]
    if depth == 0:
        fill(scratch, total, stage[PHASE_TOTAL], np.float32(0))
        return
    count, offsets = min(DEPTH_BLOCK, depth - k), offsets_place(stage, table, phase) + k
    left = panel_place(stage, table, group, phase, 0) + k * TILE_ROWS
    extent, rows = joined(triple(stage, EXTENT), rows)
    pitch, start, memory = depth * TILE_ROWS, stage[SOURCE], scratch
    if stage[SOURCE_IN_PLACE]:
        start += group * source_channels(stage) * stage[CHANNEL_PITCH]
        memory = source
    for position in range(first, last, TILE_COLUMNS):
        end = min(position + TILE_COLUMNS, last)
        right = start + position
        if stage[ALGORITHM] != FLAT:
            right, tile = stage[PANEL], (position, end)
            fill_panel(memory, scratch, table, start, offsets, right, count, extent, rows, tile)
        numbers = (count, left, right, offsets, total + position - first, int(k > 0))
        _multiply_tile(stage, scratch, table, numbers, -(-(end - position) // LANES), pitch)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], UniTuple(int64, 2), int64, UniTuple(int64, 6), "
    "UniTuple(int64, 3))"
)
def _deal_lines(  # noqa: PLR0913, PLR0917  # arrays, places and pairs
    stage: Integers,
    scratch: Floats,
    target: Floats,
    channels: tuple[int, int],
    depth: int,
    lines: Six,
    places: Triple,
) -> None:
    """Lines of some channels from the totals of the phases that cross them.

    Args:
        stage: The numbers.
        scratch: The workspace.
        target: Where the lines go.
        channels: The first of the group, and how many.
        depth: The phase along the depth.
        lines: Where the first starts in a total, how many, from one to the next, positions of
            each, and how many lines and positions the result has there.
        places: Where the first line goes, from a channel to the next, from a line to the next.
    """
    start, count, pitch, width, high, wide = lines
    place, channel_step, line_step = places
    height, across = result_stride(stage, 1), result_stride(stage, 2)
    if height * across == 1 and (count == 1 or pitch == width == line_step):
        high, wide = 1, count * width
    for h in range(min(height, high)):
        total = stage[TOTAL] + (depth * height + h) * across * stage[PHASE_TOTAL] + start
        total += channels[0] * stage[TOTAL_PITCH]
        pitches = (stage[TOTAL_PITCH], pitch)
        to = (place + h * line_step, channel_step, height * line_step)
        counts = (channels[1], (high - h - 1) // height + 1, wide)
        deal_rows(scratch, target, (total, *pitches, *to, *counts), across, stage[PHASE_TOTAL])


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, int64, int64, "
    "UniTuple(int64, 6), int64)"
)
def _store_channel(  # noqa: PLR0913, PLR0917  # arrays, places and integers
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    m: int,
    depth: int,
    index: int,
    lines: Six,
    line_step: int,
) -> None:
    """Lines of a channel into elements from `index` on, rounded; arguments as for _deal_lines."""
    start, count, pitch, width, high, wide = lines
    place = stage[TOTAL] + m * stage[TOTAL_PITCH] + start
    if result_phases(stage) > 1 or (count > 1 and pitch > width):
        place = stage[LINE]
        _deal_lines(stage, scratch, scratch, (m, 1), depth, lines, (place, 0, wide))
    rows, length = (1, high * wide) if wide == line_step else (high, wide)
    for row in range(rows):
        values = scratch[place + row * length :][:length]
        first = index + row * line_step
        store(values, stage[RESULT_FORMAT], stage[RESULT_VIEW:], first, floats, halves)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, UniTuple(int64, 6), "
    "UniTuple(int64, 3), UniTuple(int64, 4))"
)
def _store_lines(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    group: int,
    lines: Six,
    size: Triple,
    corner: tuple[int, int, int, int],
) -> None:
    """Lines of one plane of the result, from the one at entry, depth, line and column `corner`."""
    entry, d, h, w = corner
    first = group * result_channels(stage)
    channels = min(result_channels(stage), stage[RESULT_CHANNELS] - first)
    step = stage[RESULT_CHANNEL_STEP]
    for depth in range(min(result_stride(stage, 0), size[0] - d)):
        position = ((d + depth) * size[1] + h) * size[2] + w
        if step:
            place = stage[RESULT_VIEW + 1] + first * step + entry * stage[RESULT_ENTRY_STEP]
            places = (place + position, step, size[2])
            _deal_lines(stage, scratch, floats, (0, channels), depth, lines, places)
            continue
        for m in range(channels):
            index = ((first + m) * stage[BATCH] + entry) * size[0] * size[1] * size[2] + position
            _store_channel(stage, scratch, floats, halves, m, depth, index, lines, size[2])


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 3), "
    "UniTuple(int64, 3), UniTuple(int64, 2), UniTuple(int64, 2))"
)
def store_totals(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    block: Triple,
    rows: Triple,
    lines: tuple[int, int],
    columns: tuple[int, int],
) -> None:
    """The totals of a group into the result.

    Args:
        stage: The numbers.
        scratch: The workspace.
        floats: The result's buffer as float32 values.
        halves: The same as 16-bit patterns.
        block: Group of channels, first entry of the batch, first row.
        rows: Of the block.
        lines: The first and the one behind the last, counted over planes and entries.
        columns: The first and the one behind the last of each line.
    """
    group, first_entry, row = block
    size, axis, flat = result_size(stage), stage[BLOCK_AXIS], stage[ALGORITHM] == FLAT
    grid = triple(stage, EXTENT) if flat else rows
    stride = (result_stride(stage, 0), result_stride(stage, 1), result_stride(stage, 2))
    last_column = min(columns[1], rows[2])
    line = lines[0]
    while line < lines[1]:
        h, plane = line % grid[1], line // grid[1]
        following = min(line + grid[1] - h, lines[1])
        d, entry = plane % grid[0], plane // grid[0]
        last_h = min(h + following - line, rows[1])
        if d < rows[0] and h < last_h and columns[0] < last_column:
            corner_d = (d + (row if axis == 0 else 0)) * stride[0]
            corner_h = (h + (row if axis == 1 else 0)) * stride[1]
            corner_w = (columns[0] + (row if axis == WIDTH else 0)) * stride[2]
            high = min((last_h - h) * stride[1], size[1] - corner_h)
            wide = min((last_column - columns[0]) * stride[2], size[2] - corner_w)
            start = (line - lines[0]) * (columns[1] - columns[0])
            numbers = (
                *(start, last_h - h, columns[1] - columns[0]),
                *(last_column - columns[0], high, wide),
            )
            corner = (first_entry + entry, corner_d, corner_h, corner_w)
            _store_lines(stage, scratch, floats, halves, group, numbers, size, corner)
        line = following


@compiled("boolean(int64[::1])")
def is_one_line(stage: Integers) -> bool:
    """Whether positions of a block are counted over rows and entries: PACKED without phases."""
    return bool(stage[ALGORITHM] != FLAT and result_phases(stage) == 1)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 3), "
    "UniTuple(int64, 3), UniTuple(int64, 2))"
)
def store_line(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    block: Triple,
    rows: Triple,
    positions: tuple[int, int],
) -> None:
    """The totals of positions first .. last-1 of a block that is one line, entry by entry."""
    group, first_entry, row = block
    size, axis, entry_size = result_size(stage), stage[BLOCK_AXIS], rows[0] * rows[1] * rows[2]
    whole = (1, 1, size[0] * size[1] * size[2])
    begin = row * (size[1] * size[2] if axis == 0 else (size[2] if axis == 1 else 1))
    position, last = positions
    while position < last:
        entry, inside = position // entry_size, position % entry_size
        count = min(entry_size - inside, last - position)
        line = (position - positions[0], 1, count, count, 1, count)
        corner = (first_entry + entry, 0, 0, begin + inside)
        _store_lines(stage, scratch, floats, halves, group, line, whole, corner)
        position += count
