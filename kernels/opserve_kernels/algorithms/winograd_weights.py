"""The weight as left sides of Winograd products: panels of TILE_ROWS channels, at every point.

W[k, c, taps]  ->  (points, channels of the result / TILE_ROWS, channels of the source, TILE_ROWS)
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.product import SCATTER
from opserve_kernels.algorithms.transfers import fill
from opserve_kernels.algorithms.winograd_blocks import fill_lane_offsets
from opserve_kernels.algorithms.winograd_layout import (
    BLOCKS,
    CHUNK_CHANNELS,
    DIRECTION,
    IMAGE_CHANNELS,
    KERNEL,
    LEFT,
    LEFT_DEPTH,
    LEFT_FORMAT,
    LEFT_PITCH,
    LEFT_VIEW,
    LINE,
    LINE_DEPTH,
    OUTPUT_CHANNELS,
    TABLE,
    TILES,
    WEIGHT_TAPS,
)
from opserve_kernels.algorithms.winograd_tiles import transform_kernel, transform_turned_kernel
from opserve_kernels.loops import compiled, entry
from opserve_kernels.strided import load

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Pair = tuple[int, int]


@entry("int64(int64[::1])")
def depth_of(stage: Integers) -> int:
    """Channels of the source in a group."""
    scatters = stage[DIRECTION] == SCATTER
    return int(stage[OUTPUT_CHANNELS] if scatters else stage[IMAGE_CHANNELS])


@compiled("int64(int64[::1])")
def width_of(stage: Integers) -> int:
    """Channels of the result in a group."""
    scatters = stage[DIRECTION] == SCATTER
    return int(stage[IMAGE_CHANNELS] if scatters else stage[OUTPUT_CHANNELS])


@compiled("UniTuple(int64, 2)(int64[::1], int64)")
def chunk_of(stage: Integers, chunk: int) -> tuple[int, int]:
    """First channel and channels of a chunk."""
    channel = chunk * stage[CHUNK_CHANNELS]
    return channel, min(stage[CHUNK_CHANNELS], width_of(stage) - channel)


@compiled("int64(int64[::1], int64)")
def left_place(stage: Integers, channel: int) -> int:
    """Where the left side of a chunk starts, whose first channel is given."""
    return int(stage[LEFT] + (channel * stage[LEFT_DEPTH] if stage[BLOCKS] > 1 else 0))


@compiled("int64(int64[::1], int64, int64, int64)")
def weight_index(stage: Integers, group: int, channel: int, k: int) -> int:
    """Index of the taps from channel k of the source to a channel of the result."""
    output, image = (k, channel) if stage[DIRECTION] == SCATTER else (channel, k)
    row = group * stage[OUTPUT_CHANNELS] + output
    return int((row * stage[IMAGE_CHANNELS] + image) * stage[WEIGHT_TAPS])


@entry(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], int64, "
    "UniTuple(int64, 2))"
)
def transform_rows(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    part: Pair,
) -> None:
    """A left side whose weight has a row for each channel of the source; kernels are turned.

    Args:
        stage: Parameters.
        scratch: The workspace.
        table: The same as int32.
        floats: The weight's buffer as float32 values.
        halves: The same as 16-bit patterns.
        group: Of channels.
        part: The chunk, and the first of the LEFT_DEPTH channels of the source.
    """
    (channel, channels), depth = chunk_of(stage, part[0]), stage[LEFT_DEPTH]
    place, line, taps = left_place(stage, channel), stage[LINE], stage[WEIGHT_TAPS]
    count, row_pitch = channels * taps, stage[KERNEL + 2]
    view, lanes = stage[LEFT_VIEW:], stage[TABLE] + 2 * stage[TILES]
    fill_lane_offsets(table, lanes, taps)
    fill(scratch, line + count, LANES * taps, np.float32(0))
    for k in range(min(depth, depth_of(stage) - part[1])):
        index = weight_index(stage, group, channel, part[1] + k)
        load(floats, halves, view, stage[LEFT_FORMAT], index, scratch[line : line + count])
        for m in range(0, channels, LANES):
            target = place + m * depth + k * TILE_ROWS
            numbers = (line + m * taps, lanes, row_pitch, target)
            pitches = (stage[LEFT_PITCH], depth * TILE_ROWS)
            transform_turned_kernel(scratch, (*numbers, *pitches), taps)


@entry(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], int64, "
    "UniTuple(int64, 2))"
)
def transform_columns(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    part: Pair,
) -> None:
    """The same where the weight has a row for each channel of the result."""
    (channel, channels), depth = chunk_of(stage, part[0]), stage[LEFT_DEPTH]
    place, line, taps = left_place(stage, channel), stage[LINE], stage[WEIGHT_TAPS]
    pitch, row_pitch = LINE_DEPTH * taps, stage[KERNEL + 2]
    view, lanes = stage[LEFT_VIEW:], stage[TABLE] + 2 * stage[TILES]
    fill_lane_offsets(table, lanes, pitch)
    fill(scratch, line, (LANES + 1) * pitch, np.float32(0))
    end = min(depth, depth_of(stage) - part[1])
    for m in range(0, channels, LANES):
        for first in range(0, end, LINE_DEPTH):
            columns, rows = min(LINE_DEPTH, end - first), min(LANES, channels - m)
            for row in range(rows):
                index = weight_index(stage, group, channel + m + row, part[1] + first)
                to, count = line + row * pitch, columns * taps
                load(floats, halves, view, stage[LEFT_FORMAT], index, scratch[to : to + count])
            for k in range(columns):
                target = place + m * depth + (first + k) * TILE_ROWS
                numbers = (line + k * taps, lanes, row_pitch, target)
                pitches = (stage[LEFT_PITCH], depth * TILE_ROWS)
                transform_kernel(scratch, (*numbers, *pitches), taps)
