"""Winograd's algorithm for the gradient of a weight.

    output, block   ->  padded planes of LANES channels  ->  left sides, panels of channels (G)
    image, block    ->  padded planes of LANES channels  ->  right sides, panels of channels (B^T)
    left, right     ->  total (points, output's channels, image's channels), added up over blocks
    total           ->  lines of taps (A^T)  ->  the result's view

Units, group by group and block by block: the output by channels, the image by channels, and chunks
of the output's channels. With a single block the total is that of a chunk.

Where the stage of ranges has raised the flag, the units do nothing, and a stage of a direct
algorithm computes the result.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.micro_kernels import multiply_packed
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.winograd.blocks import (
    block_of,
    clear_planes,
    fill_lane_offsets,
    fill_tile_offsets,
    load_planes,
    plane_of,
    planes_of,
    tiles_of,
)
from opserve_kernels.algorithms.winograd.layout import (
    BLOCKS,
    CHUNK_CHANNELS,
    CHUNKS,
    COPY,
    FLAG,
    IMAGE_CHANNELS,
    IMAGE_SIZE,
    KERNEL,
    LEFT,
    LEFT_CHANNELS,
    LEFT_FORMAT,
    LEFT_PITCH,
    LEFT_VIEW,
    LINE,
    LOADED,
    OUTPUT_CHANNELS,
    OUTPUT_SIZE,
    PADDING,
    PANEL_VALUES,
    POINTS,
    RESULT_FORMAT,
    RESULT_VIEW,
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
    collect_taps,
    transform_image,
    transform_output,
)
from opserve_kernels.loops import compiled, entry
from opserve_kernels.strided import store

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Pair = tuple[int, int]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]

_OUTPUT, _IMAGE = range(2)  # sides


@compiled("int64(int64[::1])")
def _columns(stage: Integers) -> int:
    """The image's channels in whole panels."""
    return int(-(-stage[IMAGE_CHANNELS] // TILE_COLUMNS) * TILE_COLUMNS)


@compiled("UniTuple(int64, 3)(int64[::1], int64)")
def _chunk_of(stage: Integers, chunk: int) -> tuple[int, int, int]:
    """First channel and channels of a chunk, and where its total starts."""
    channel = chunk * stage[CHUNK_CHANNELS]
    channels = min(stage[CHUNK_CHANNELS], stage[OUTPUT_CHANNELS] - channel)
    total = stage[TOTAL] + (channel * _columns(stage) if stage[BLOCKS] > 1 else 0)
    return channel, channels, total


@compiled("UniTuple(int64, 4)(int64[::1], int64)")
def _tensor_of(stage: Integers, side: int) -> Quad:
    """A side as load_planes takes it."""
    if side == _OUTPUT:
        return LEFT_VIEW, OUTPUT_SIZE, stage[LEFT_FORMAT], stage[LEFT_CHANNELS]
    return RIGHT_VIEW, IMAGE_SIZE, stage[RIGHT_FORMAT], stage[RIGHT_CHANNELS]


@compiled("UniTuple(int64, 4)(int64[::1], int64)")
def _sizes_of(stage: Integers, side: int) -> Quad:
    """A side's channels in a group, whether it has a halo, and where its first tile begins."""
    if side == _OUTPUT:
        return stage[OUTPUT_CHANNELS], 0, 0, 0
    return stage[IMAGE_CHANNELS], 1, -stage[PADDING + 1], -stage[PADDING + 2]


@compiled("void(int64[::1], float32[::1], int32[::1], int64, int64, UniTuple(int64, 2))")
def _transform(
    stage: Integers, scratch: Floats, table: Offsets, side: int, tiles: int, planes: Pair
) -> None:
    """LANES channels from one on, whose planes have a width, to the panels of a side."""
    channel, width = planes
    lanes, offsets = stage[TABLE] + 2 * stage[TILES], stage[TABLE] + side * stage[TILES]
    if side == _OUTPUT:
        panel, piece = stage[LEFT] + channel * stage[TILES], stage[TILES] * TILE_ROWS
        for tile in range(tiles):
            source, target = stage[COPY] + table[offsets + tile], panel + tile * TILE_ROWS
            numbers = (source, lanes, width, target, stage[LEFT_PITCH], piece)
            transform_output(scratch, numbers, stage[WEIGHT_TAPS])
    else:
        column = channel % TILE_COLUMNS
        panel = stage[RIGHT] + (channel - column) * stage[TILES] + column
        for tile in range(tiles):
            source, target = stage[COPY] + table[offsets + tile], panel + tile * TILE_COLUMNS
            numbers = (source, lanes, width, target, stage[RIGHT_PITCH], 0)
            transform_image(scratch, numbers, stage[KERNEL + 1])


@entry(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], int64, "
    "UniTuple(int64, 3))"
)
def _transform_side(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    side: int,
    unit: Triple,
) -> None:
    """Some channels of a side; unit: group, block, part."""
    group, number, part = unit
    tensor, (channels, halo, y, x) = _tensor_of(stage, side), _sizes_of(stage, side)
    block, (height, width) = block_of(stage, number), plane_of(stage, halo)
    lanes, pitch = stage[TABLE] + 2 * stage[TILES], planes_of(stage, block) * height * width
    fill_tile_offsets(stage, table, stage[TABLE] + side * stage[TILES], block, halo)
    fill_lane_offsets(table, lanes, pitch)
    first = part * stage[LOADED]
    for begin in range(first, min(first + stage[LOADED], channels), LANES):
        if begin == first or begin + LANES > channels:
            clear_planes(stage, scratch, halo, stage[COPY], LANES)
        for lane in range(min(LANES, channels - begin)):
            channel = group * channels + begin + lane
            place = (channel, number, halo, stage[COPY] + lane * pitch)
            load_planes(stage, scratch, floats, halves, tensor, (y, x), place)
        _transform(stage, scratch, table, side, tiles_of(stage, block), (begin, width))


@entry("void(int64[::1], float32[::1], int64, int64)")
def _multiply(stage: Integers, scratch: Floats, number: int, chunk: int) -> None:
    """Adds a block's part to the total of a chunk."""
    tiles, most = tiles_of(stage, block_of(stage, number)), PANEL_VALUES // TILE_COLUMNS
    channel, channels, total = _chunk_of(stage, chunk)
    columns, all_tiles = _columns(stage), stage[TILES]
    for xi in range(stage[POINTS]):
        left_plane = stage[LEFT] + xi * stage[LEFT_PITCH] + channel * all_tiles
        right_plane = stage[RIGHT] + xi * stage[RIGHT_PITCH]
        total_plane = total + xi * stage[TOTAL_PITCH]
        for c in range(0, stage[IMAGE_CHANNELS], TILE_COLUMNS):
            vectors = -(-min(TILE_COLUMNS, stage[IMAGE_CHANNELS] - c) // LANES)
            for tile in range(0, tiles, most):
                right = right_plane + c * all_tiles + tile * TILE_COLUMNS
                count, adds = min(most, tiles - tile), int(number > 0 or tile > 0)
                for m in range(0, channels, TILE_ROWS):
                    left = left_plane + m * all_tiles + tile * TILE_ROWS
                    numbers = (count, left, right, total_plane + m * columns + c, columns, adds)
                    multiply_packed(scratch, numbers, min(TILE_ROWS, channels - m), vectors)


@compiled("void(int64[::1], float32[::1], float32[::1], uint16[::1], int64)")
def _store_line(stage: Integers, scratch: Floats, floats: Floats, halves: Halves, row: int) -> None:
    """Stores the line as a row of the weight."""
    count = stage[IMAGE_CHANNELS] * stage[WEIGHT_TAPS]
    values = scratch[stage[LINE] : stage[LINE] + count]
    store(values, stage[RESULT_FORMAT], stage[RESULT_VIEW:], row * count, floats, halves)


@entry("void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], int64, int64)")
def _store_chunk(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    chunk: int,
) -> None:
    """The total of a chunk, transformed, to the result."""
    channel, channels, total = _chunk_of(stage, chunk)
    lanes, taps = stage[TABLE] + 2 * stage[TILES], stage[WEIGHT_TAPS]
    fill_lane_offsets(table, lanes, taps)
    for m in range(channels):
        for c in range(0, stage[IMAGE_CHANNELS], LANES):
            place, line = total + m * _columns(stage) + c, stage[LINE] + c * taps
            numbers = (place, stage[TOTAL_PITCH], line, lanes, stage[KERNEL + 2])
            collect_taps(scratch, numbers, taps)
        row = group * stage[OUTPUT_CHANNELS] + channel + m
        _store_line(stage, scratch, floats, halves, row)


def run_winograd_weight(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    image: Floats,
    image_halves: Halves,
    result: Floats,
    result_halves: Halves,
    output: Floats,
    output_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; the buffers of the tensors come as float32 and as halves.

    Units are called one by one: a loop that holds them all would be compiled for long.
    """
    loaded, blocks = int(stage[LOADED]), int(stage[BLOCKS])
    outputs, images = (-(-int(stage[at]) // loaded) for at in (OUTPUT_CHANNELS, IMAGE_CHANNELS))
    if scratch[int(stage[FLAG])] != 0:
        return
    for unit in range(first, last):
        whole, part = divmod(unit, outputs + images + int(stage[CHUNKS]))
        group, number = divmod(whole, blocks)
        chunk = part - outputs - images
        if part < outputs:
            at = (group, number, part)
            _transform_side(stage, scratch, table, output, output_halves, _OUTPUT, at)
        elif chunk < 0:
            at = (group, number, part - outputs)
            _transform_side(stage, scratch, table, image, image_halves, _IMAGE, at)
        else:
            _multiply(stage, scratch, number, chunk)
            if number == blocks - 1:
                _store_chunk(stage, scratch, table, result, result_halves, group, chunk)
