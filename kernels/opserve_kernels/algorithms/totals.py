"""The totals of a block: products of panels, step by step, and their way into the result.

    weight panels, panels of pixels   ->  totals (phases, channels, positions of a group)
    totals of all phases of a stride  ->  lines  ->  the result's view

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
from opserve_kernels.algorithms.panels import fill_panel
from opserve_kernels.algorithms.product import (
    ALGORITHM,
    BATCH,
    BLOCK_AXIS,
    DEPTH_BLOCK,
    EXTENT,
    FLAGS,
    FLAT,
    LINE,
    PANEL,
    PHASE_TOTAL,
    RESULT_CHANNELS,
    RESULT_FORMAT,
    RESULT_VIEW,
    SOURCE,
    TABLE,
    TOTAL,
    TOTAL_PITCH,
)
from opserve_kernels.algorithms.taps import (
    offsets_place,
    result_channels,
    result_phases,
    result_stride,
    source_channels,
)
from opserve_kernels.algorithms.transfers import copy_to_steps, fill, store_values
from opserve_kernels.algorithms.weight_panels import panel_place
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.precision import round_all

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
    finite, flat = scratch[stage[FLAGS]] == 0, stage[ALGORITHM] == FLAT
    for m in range(0, result_channels(stage), TILE_ROWS):
        rows = min(TILE_ROWS, result_channels(stage) - m)
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
    "void(int64[::1], float32[::1], int32[::1], int64, UniTuple(int64, 2), UniTuple(int64, 3), "
    "UniTuple(int64, 2))"
)
def add_step(  # noqa: PLR0913, PLR0917  # arrays, places and pairs
    stage: Integers,
    scratch: Floats,
    table: Offsets,
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
    extent, pitch = triple(stage, EXTENT), depth * TILE_ROWS
    for position in range(first, last, TILE_COLUMNS):
        end = min(position + TILE_COLUMNS, last)
        right = stage[SOURCE] + position
        if stage[ALGORITHM] != FLAT:
            right, tile = stage[PANEL], (position, end)
            fill_panel(scratch, table, stage[SOURCE], offsets, right, count, extent, rows, tile)
        numbers = (count, left, right, offsets, total + position - first, int(k > 0))
        _multiply_tile(stage, scratch, table, numbers, -(-(end - position) // LANES), pitch)


@compiled("void(int64[::1], float32[::1], int64, int64, UniTuple(int64, 6), UniTuple(int64, 3))")
def _assemble(  # arrays, places and integers
    stage: Integers, scratch: Floats, channel: int, depth: int, lines: Six, stride: Triple
) -> None:
    """Lines of a channel, at the place LINE, from the totals of the phases that cross them.

    Args:
        stage: The numbers.
        scratch: The workspace.
        channel: Of the group.
        depth: The phase along the depth.
        lines: Where the first starts in a total, how many, from one to the next, positions of
            each, and how many lines and positions the result has there.
        stride: Phases along each axis.
    """
    start, count, pitch, width, high, wide = lines
    for line in range(count):
        for h in range(min(stride[1], high - line * stride[1])):
            row = stage[LINE] + (line * stride[1] + h) * wide
            for w in range(min(stride[2], wide)):
                phase = (depth * stride[1] + h) * stride[2] + w
                total = stage[TOTAL] + phase * stage[PHASE_TOTAL] + channel * stage[TOTAL_PITCH]
                values = min(width, (wide - 1 - w) // stride[2] + 1)
                copy_to_steps(scratch, total + start + line * pitch, row + w, stride[2], values)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, UniTuple(int64, 6), "
    "UniTuple(int64, 4))"
)
def _store_lines(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    group: int,
    lines: Six,
    corner: tuple[int, int, int, int],
) -> None:
    """Lines of one plane of the result, from the one at entry, depth, line and column `corner`.

    `lines` are those of _assemble, which need no assembling where one total has them as they are.
    """
    size, (entry, d, h, w) = result_size(stage), corner
    stride = (result_stride(stage, 0), result_stride(stage, 1), result_stride(stage, 2))
    start, count, pitch, width, high, wide = lines
    whole = result_phases(stage) == 1 and (count == 1 or pitch == width)
    for depth in range(min(stride[0], size[0] - d)):
        for m in range(result_channels(stage)):
            channel = group * result_channels(stage) + m
            if channel >= stage[RESULT_CHANNELS]:
                break
            place = stage[TOTAL] + m * stage[TOTAL_PITCH] + start if whole else stage[LINE]
            if not whole:
                _assemble(stage, scratch, m, depth, lines, stride)
            index = (channel * stage[BATCH] + entry) * size[0] + d + depth
            index = (index * size[1] + h) * size[2] + w
            round_all(scratch[place : place + high * wide], stage[RESULT_FORMAT])
            view = stage[RESULT_VIEW:]
            store_values(scratch, place, high * wide, view, index, floats, halves)


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
            _store_lines(stage, scratch, floats, halves, group, numbers, corner)
        line = following
