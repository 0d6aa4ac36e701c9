"""Winograd's algorithm for the products of a convolution with its weight.

    weight          ->  left sides (points, result's channels / TILE_ROWS, source's channels,
                        TILE_ROWS) (transforms: G)
    source, block   ->  padded planes  ->  right sides, panels of tiles, all points (B^T)
    left, right     ->  total (points, channels of a chunk, tiles)
    total           ->  planes (A^T)  ->  the result's view

Units, group by group: the weight by chunks of the result's channels; then for every block the
source by channels, and each chunk. With a single block, a chunk transforms its weight itself, so
that it is read while it is in the cache.

Where the stage of ranges has raised the flag, the units do nothing, and a stage of a direct
algorithm computes the result.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.micro_kernels import multiply_packed
from opserve_kernels.algorithms.codegen.transfers import copy_to_steps, fill
from opserve_kernels.algorithms.correlation.layout import SCATTER
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.winograd.blocks import (
    block_of,
    clear_planes,
    fill_lane_offsets,
    fill_tile_offsets,
    load_planes,
    plane_of,
    tiles_of,
)
from opserve_kernels.algorithms.winograd.layout import (
    BATCH,
    BLOCKS,
    CHUNK_CHANNELS,
    CHUNKS,
    COPY,
    DILATION,
    DIRECTION,
    FLAG,
    IMAGE_CHANNELS,
    IMAGE_SIZE,
    KERNEL,
    LEFT,
    LEFT_DEPTH,
    LEFT_FORMAT,
    LEFT_PITCH,
    LEFT_VIEW,
    LINE,
    LINE_DEPTH,
    LOADED,
    OUTPUT_CHANNELS,
    OUTPUT_SIZE,
    PADDING,
    PANEL_VALUES,
    PLANES,
    POINTS,
    RESULT_CHANNELS,
    RESULT_FORMAT,
    RESULT_VIEW,
    RESULTS_DOWN,
    RIGHT,
    RIGHT_CHANNELS,
    RIGHT_FORMAT,
    RIGHT_PITCH,
    RIGHT_VIEW,
    TABLE,
    TILES,
    TOTAL,
    TOTAL_PITCH,
    WEIGHT_TAPS,
)
from opserve_kernels.algorithms.winograd.tiles import (
    collect_results,
    transform_image,
    transform_kernel,
    transform_turned_kernel,
)
from opserve_kernels.loops import compiled, entry
from opserve_kernels.strided import load, store

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Pair = tuple[int, int]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]


@entry("int64(int64[::1])")
def _depth_of(stage: Integers) -> int:
    """Channels of the source in a group."""
    scatters = stage[DIRECTION] == SCATTER
    return int(stage[OUTPUT_CHANNELS] if scatters else stage[IMAGE_CHANNELS])


@compiled("int64(int64[::1])")
def _width_of(stage: Integers) -> int:
    """Channels of the result in a group."""
    scatters = stage[DIRECTION] == SCATTER
    return int(stage[IMAGE_CHANNELS] if scatters else stage[OUTPUT_CHANNELS])


@compiled("UniTuple(int64, 2)(int64[::1], int64)")
def _chunk_of(stage: Integers, chunk: int) -> tuple[int, int]:
    """First channel and channels of a chunk."""
    channel = chunk * stage[CHUNK_CHANNELS]
    return channel, min(stage[CHUNK_CHANNELS], _width_of(stage) - channel)


@compiled("int64(int64[::1], int64)")
def _left_place(stage: Integers, channel: int) -> int:
    """Where the left side of a chunk starts, whose first channel is given."""
    return int(stage[LEFT] + (channel * stage[LEFT_DEPTH] if stage[BLOCKS] > 1 else 0))


@compiled("int64(int64[::1], int64, int64, int64)")
def _weight_index(stage: Integers, group: int, channel: int, k: int) -> int:
    """Index of the taps from channel k of the source to a channel of the result."""
    output, image = (k, channel) if stage[DIRECTION] == SCATTER else (channel, k)
    row = group * stage[OUTPUT_CHANNELS] + output
    return int((row * stage[IMAGE_CHANNELS] + image) * stage[WEIGHT_TAPS])


@entry(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], int64, "
    "UniTuple(int64, 2))"
)
def _transform_rows(  # noqa: PLR0913, PLR0917  # arrays and integers
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
    (channel, channels), depth = _chunk_of(stage, part[0]), stage[LEFT_DEPTH]
    place, line, taps = _left_place(stage, channel), stage[LINE], stage[WEIGHT_TAPS]
    count, row_pitch = channels * taps, stage[KERNEL + 2]
    view, lanes = stage[LEFT_VIEW:], stage[TABLE] + 2 * stage[TILES]
    fill_lane_offsets(table, lanes, taps)
    fill(scratch, line + count, LANES * taps, np.float32(0))
    for k in range(min(depth, _depth_of(stage) - part[1])):
        index = _weight_index(stage, group, channel, part[1] + k)
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
def _transform_columns(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    part: Pair,
) -> None:
    """The same where the weight has a row for each channel of the result."""
    (channel, channels), depth = _chunk_of(stage, part[0]), stage[LEFT_DEPTH]
    place, line, taps = _left_place(stage, channel), stage[LINE], stage[WEIGHT_TAPS]
    pitch, row_pitch = LINE_DEPTH * taps, stage[KERNEL + 2]
    view, lanes = stage[LEFT_VIEW:], stage[TABLE] + 2 * stage[TILES]
    fill_lane_offsets(table, lanes, pitch)
    fill(scratch, line, (LANES + 1) * pitch, np.float32(0))
    end = min(depth, _depth_of(stage) - part[1])
    for m in range(0, channels, LANES):
        for first in range(0, end, LINE_DEPTH):
            columns, rows = min(LINE_DEPTH, end - first), min(LANES, channels - m)
            for row in range(rows):
                index = _weight_index(stage, group, channel + m + row, part[1] + first)
                to, count = line + row * pitch, columns * taps
                load(floats, halves, view, stage[LEFT_FORMAT], index, scratch[to : to + count])
            for k in range(columns):
                target = place + m * depth + (first + k) * TILE_ROWS
                numbers = (line + k * taps, lanes, row_pitch, target)
                pitches = (stage[LEFT_PITCH], depth * TILE_ROWS)
                transform_kernel(scratch, (*numbers, *pitches), taps)


@compiled("UniTuple(int64, 4)(int64[::1])")
def _source_of(stage: Integers) -> Quad:
    """The source as load_planes takes it."""
    size_at = OUTPUT_SIZE if stage[DIRECTION] == SCATTER else IMAGE_SIZE
    return RIGHT_VIEW, size_at, stage[RIGHT_FORMAT], stage[RIGHT_CHANNELS]


@compiled("UniTuple(int64, 2)(int64[::1])")
def _origin_of(stage: Integers) -> tuple[int, int]:
    """The position of the source that the first tile of the result begins with."""
    y, x = stage[PADDING + 1], stage[PADDING + 2]
    if stage[DIRECTION] == SCATTER:
        y -= (stage[KERNEL + 1] - 1) * stage[DILATION + 1]
        x -= (stage[KERNEL + 2] - 1) * stage[DILATION + 2]
        return y, x
    return -y, -x


@entry("void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], int64, int64, int64)")
def _transform_source(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    number: int,
    unit: int,
) -> None:
    """Some channels of the right side of a block."""
    block, depth = block_of(stage, number), _depth_of(stage)
    if unit == 0:
        fill_tile_offsets(stage, table, stage[TABLE], block, 1)
        fill_tile_offsets(stage, table, stage[TABLE] + stage[TILES], block, 0)
    clear_planes(stage, scratch, 1, stage[COPY], 1)
    tiles, pitch, first = tiles_of(stage, block), plane_of(stage, 1)[1], unit * stage[LOADED]
    source, origin, copy = _source_of(stage), _origin_of(stage), stage[COPY]
    for k in range(first, min(first + stage[LOADED], depth)):
        place = (group * depth + k, number, 1, copy)
        load_planes(stage, scratch, floats, halves, source, origin, place)
        for tile in range(0, tiles, LANES):
            panel = tile // TILE_COLUMNS * depth + k
            target = stage[RIGHT] + panel * TILE_COLUMNS + tile % TILE_COLUMNS
            numbers = (copy, stage[TABLE] + tile, pitch, target, stage[RIGHT_PITCH], 0)
            transform_image(scratch, numbers, stage[KERNEL + 1])


@entry("void(int64[::1], float32[::1], int64, int64, int64)")
def _multiply(stage: Integers, scratch: Floats, number: int, chunk: int, begin: int) -> None:
    """Adds what LEFT_DEPTH channels of the source, from one on, give to the total of a chunk."""
    (channel, channels), depth = _chunk_of(stage, chunk), _depth_of(stage)
    tiles, most = tiles_of(stage, block_of(stage, number)), PANEL_VALUES // TILE_COLUMNS
    held, pitch = stage[LEFT_DEPTH], stage[TILES]
    for xi in range(stage[POINTS]):
        left_plane = _left_place(stage, channel) + xi * stage[LEFT_PITCH]
        right_plane = stage[RIGHT] + xi * stage[RIGHT_PITCH]
        total = stage[TOTAL] + xi * stage[TOTAL_PITCH]
        for tile in range(0, tiles, TILE_COLUMNS):
            vectors = -(-min(TILE_COLUMNS, tiles - tile) // LANES)
            for k in range(begin, min(begin + held, depth), most):
                right = right_plane + tile * depth + k * TILE_COLUMNS
                count, adds = min(most, begin + held - k, depth - k), int(k > 0)
                for m in range(0, channels, TILE_ROWS):
                    left = left_plane + m * held + (k - begin) * TILE_ROWS
                    numbers = (count, left, right, total + m * pitch + tile, pitch, adds)
                    multiply_packed(scratch, numbers, min(TILE_ROWS, channels - m), vectors)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, UniTuple(int64, 4), int64)"
)
def _store_planes(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    channel: int,
    block: Quad,
    planes: int,
) -> None:
    """The planes of a channel of the result, if the tensor has it, to their place there."""
    entry, entries, row, rows = block
    size_at = IMAGE_SIZE if stage[DIRECTION] == SCATTER else OUTPUT_SIZE
    height, width = stage[size_at + 1], stage[size_at + 2]
    down, across = stage[DILATION + 1], stage[DILATION + 2]
    plane_height, pitch = plane_of(stage, 0)
    results = stage[RESULTS_DOWN]
    first, last = row * results * down, min(height, (row + rows) * results * down)
    count = (last - first) * width
    if channel >= stage[RESULT_CHANNELS] or count <= 0:
        return
    for i in range(entries):
        source = planes + i * down * across * plane_height * pitch
        place = source
        if down * across > 1 or pitch != width:
            place = stage[LINE]
            for y in range(first, last):
                for x in range(across):
                    plane = source + (y % down * across + x) * plane_height * pitch
                    run = plane + (y // down - row * results) * pitch
                    to = place + (y - first) * width + x
                    copy_to_steps(scratch, run, to, across, (width - x - 1) // across + 1)
        index = ((channel * stage[BATCH] + entry + i) * height + first) * width
        values = scratch[place : place + count]
        store(values, stage[RESULT_FORMAT], stage[RESULT_VIEW:], index, floats, halves)


@entry("void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, int64, int64)")
def _store_total(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    group: int,
    number: int,
    chunk: int,
) -> None:
    """The total of a chunk, transformed, to the result."""
    block, (channel, channels) = block_of(stage, number), _chunk_of(stage, chunk)
    tiles, pitch = tiles_of(stage, block), plane_of(stage, 0)[1]
    offsets = stage[TABLE] + stage[TILES]
    for m in range(channels):
        for tile in range(0, tiles, LANES):
            place = stage[TOTAL] + m * stage[TILES] + tile
            numbers = (place, stage[TOTAL_PITCH], stage[PLANES], offsets + tile, pitch)
            collect_results(scratch, numbers, stage[WEIGHT_TAPS])
        number_in_all = group * _width_of(stage) + channel + m
        _store_planes(stage, scratch, floats, halves, number_in_all, block, stage[PLANES])


def run_winograd(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    source_halves: Halves,
    weight: Floats,
    weight_halves: Halves,
    result: Floats,
    result_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; the buffers of the tensors come as float32 and as halves.

    Units are called one by one: a loop that holds them all would be compiled for long.
    """
    transform = _transform_rows if stage[DIRECTION] == SCATTER else _transform_columns
    chunks, blocks, held = int(stage[CHUNKS]), int(stage[BLOCKS]), int(stage[LEFT_DEPTH])
    depth, flag = _depth_of(stage), int(stage[FLAG])
    loads, weights = -(-depth // int(stage[LOADED])), chunks if blocks > 1 else 0
    if scratch[flag] != 0:
        return
    for unit in range(first, last):
        group, inside = divmod(unit, weights + blocks * (loads + chunks))
        number, part = divmod(inside - weights, loads + chunks)
        chunk = part - loads
        if inside < weights:
            transform(stage, scratch, table, weight, weight_halves, group, (inside, 0))
            continue
        if part < loads:
            _transform_source(stage, scratch, table, source, source_halves, group, number, part)
            continue
        for k in range(0, depth, held):
            if blocks == 1:
                transform(stage, scratch, table, weight, weight_halves, group, (chunk, k))
            _multiply(stage, scratch, number, chunk, k)
        _store_total(stage, scratch, result, result_halves, group, number, chunk)
