"""Winograd's algorithm for the products of a convolution with its weight.

    weight          ->  left sides (points, result's channels / TILE_ROWS, source's channels,
                        TILE_ROWS) (transforms: G)
    source, block   ->  padded planes  ->  right sides, panels of tiles, all points (B^T)
    left, right     ->  total (points, channels of a chunk, tiles)
    total           ->  planes (A^T)  ->  the result's view

Units, group by group: the weight by chunks of the result's channels; then for every block the
source by channels, and each chunk. With a single block, a chunk transforms its weight itself, so
that the weight is read while it is in the cache.

If the stage of ranges raised the flag, the units do nothing, and a stage of a direct algorithm
computes the result.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.micro_kernels import multiply_packed
from opserve_kernels.algorithms.codegen.rows import copy_rows_exactly
from opserve_kernels.algorithms.codegen.transfers import copy_to_steps, fill
from opserve_kernels.algorithms.correlation.layout import SCATTER
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.winograd.blocks import (
    are_rows,
    block_of,
    clear_planes,
    fill_lane_offsets,
    fill_tile_offsets,
    load_planes,
    plane_of,
    tiles_of,
)
from opserve_kernels.algorithms.winograd.layout import LINE_DEPTH, PANEL_VALUES, WinogradStage
from opserve_kernels.algorithms.winograd.tiles import (
    collect_results,
    transform_image,
    transform_kernel,
    transform_turned_kernel,
)
from opserve_kernels.loops import compiled, entry, reading
from opserve_kernels.records import decode
from opserve_kernels.strided import load, position_of, store

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Pair = tuple[int, int]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]

_as_stage = reading(WinogradStage)


@compiled()
def _depth_of(stage: WinogradStage) -> int:
    """Channels of the source in a group."""
    shape = stage.geometry
    scatters = stage.direction == SCATTER
    return shape.output_channels if scatters else shape.input_channels


@compiled()
def _width_of(stage: WinogradStage) -> int:
    """Channels of the result in a group."""
    shape = stage.geometry
    scatters = stage.direction == SCATTER
    return shape.input_channels if scatters else shape.output_channels


@compiled()
def _chunk_of(stage: WinogradStage, chunk: int) -> tuple[int, int]:
    """First channel and channels of a chunk."""
    channel = chunk * stage.chunk_channels
    return channel, min(stage.chunk_channels, _width_of(stage) - channel)


@compiled()
def _left_place(stage: WinogradStage, channel: int) -> int:
    """Start of the left side of the chunk with this first channel."""
    return stage.left.place + (channel * stage.left_depth if stage.grid.blocks > 1 else 0)


@compiled()
def _weight_index(stage: WinogradStage, group: int, channel: int, k: int) -> int:
    """Index of the taps from channel k of the source to a channel of the result."""
    shape = stage.geometry
    # The weight is (output, image channels, taps); which of them is the source depends on the
    # direction.
    output, image = (k, channel) if stage.direction == SCATTER else (channel, k)
    row = group * shape.output_channels + output
    return (row * shape.input_channels + image) * shape.taps


@entry()
def _transform_rows(  # noqa: PLR0913, PLR0917  # arrays and integers
    encoded: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    part: Pair,
) -> None:
    """Transforms a left side whose weight has a row for each source channel; kernels are turned.

    Args:
        encoded: The integers of the stage.
        scratch: The workspace.
        table: The same as int32.
        floats: The weight's buffer as float32 values.
        halves: The same as 16-bit patterns.
        group: Group of channels.
        part: The chunk, and the first of the `stage.left_depth` channels of the source.
    """
    stage = _as_stage(encoded)
    shape = stage.geometry
    (channel, channels), depth = _chunk_of(stage, part[0]), stage.left_depth
    place, line, taps = _left_place(stage, channel), stage.line, shape.taps
    count, row_pitch = channels * taps, shape.kernel_size[2]
    tensor, lanes = stage.left_tensor, stage.table + 2 * stage.grid.tiles
    # Lanes are the result's channels: taps of neighbouring channels are `taps` values apart. Lanes
    # behind the last channel read zeros.
    fill_lane_offsets(table, lanes, taps)
    fill(scratch, line + count, LANES * taps, np.float32(0))
    for k in range(min(depth, _depth_of(stage) - part[1])):
        index = _weight_index(stage, group, channel, part[1] + k)
        values = scratch[line : line + count]
        load(floats, halves, tensor.layout, tensor.number_format, index, values)
        for m in range(0, channels, LANES):
            target = place + m * depth + k * TILE_ROWS
            numbers = (line + m * taps, lanes, row_pitch, target)
            pitches = (stage.left.pitch, depth * TILE_ROWS)
            transform_turned_kernel(scratch, (*numbers, *pitches), taps)


@entry()
def _transform_columns(  # noqa: PLR0913, PLR0917  # arrays and integers
    encoded: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    part: Pair,
) -> None:
    """The same where the weight has a row for each channel of the result."""
    stage = _as_stage(encoded)
    shape = stage.geometry
    (channel, channels), depth = _chunk_of(stage, part[0]), stage.left_depth
    place, line, taps = _left_place(stage, channel), stage.line, shape.taps
    pitch, row_pitch = LINE_DEPTH * taps, shape.kernel_size[2]
    tensor, lanes = stage.left_tensor, stage.table + 2 * stage.grid.tiles
    # Rows of LANES result channels are loaded for LINE_DEPTH source channels at a time: lanes are
    # then a line's pitch apart, and the lines stay in the cache.
    fill_lane_offsets(table, lanes, pitch)
    fill(scratch, line, (LANES + 1) * pitch, np.float32(0))
    end = min(depth, _depth_of(stage) - part[1])
    for m in range(0, channels, LANES):
        for first in range(0, end, LINE_DEPTH):
            columns, rows = min(LINE_DEPTH, end - first), min(LANES, channels - m)
            for row in range(rows):
                index = _weight_index(stage, group, channel + m + row, part[1] + first)
                to, count = line + row * pitch, columns * taps
                values = scratch[to : to + count]
                load(floats, halves, tensor.layout, tensor.number_format, index, values)
            for k in range(columns):
                target = place + m * depth + (first + k) * TILE_ROWS
                numbers = (line + k * taps, lanes, row_pitch, target)
                pitches = (stage.left.pitch, depth * TILE_ROWS)
                transform_kernel(scratch, (*numbers, *pitches), taps)


@compiled()
def _source_size(stage: WinogradStage) -> Pair:
    shape = stage.geometry
    size = shape.output_size if stage.direction == SCATTER else shape.input_size
    return size[1], size[2]


@compiled()
def _result_size(stage: WinogradStage) -> Pair:
    shape = stage.geometry
    size = shape.input_size if stage.direction == SCATTER else shape.output_size
    return size[1], size[2]


@compiled()
def _origin_of(stage: WinogradStage) -> tuple[int, int]:
    """The position of the source at which the first tile of the result begins."""
    shape = stage.geometry
    # The image gradient correlates with turned kernels, so its padding is the kernel's span less
    # the forward padding.
    y, x = shape.padding[1], shape.padding[2]
    if stage.direction == SCATTER:
        y -= (shape.kernel_size[1] - 1) * shape.dilation[1]
        x -= (shape.kernel_size[2] - 1) * shape.dilation[2]
        return y, x
    return -y, -x


@entry()
def _transform_source(  # noqa: PLR0913, PLR0917  # arrays and integers
    encoded: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    number: int,
    unit: int,
) -> None:
    """Transforms some channels of the right side of a block."""
    stage = _as_stage(encoded)
    block, depth = block_of(stage, number), _depth_of(stage)
    # The tables of the block: sources with the kernel's halo, results without.
    if unit == 0:
        fill_tile_offsets(stage, table, stage.table, block, 1)
        fill_tile_offsets(stage, table, stage.table + stage.grid.tiles, block, 0)
    # One plane's copy serves all channels of the unit: its padding is written once.
    clear_planes(stage, scratch, 1, stage.copies, 1)
    tiles, pitch, first = tiles_of(stage, block), plane_of(stage, 1)[1], unit * stage.loaded
    source, size, origin = stage.right_tensor, _source_size(stage), _origin_of(stage)
    for k in range(first, min(first + stage.loaded, depth)):
        place = (group * depth + k, number, 1, stage.copies)
        load_planes(stage, scratch, floats, halves, source, size, origin, place)
        # Lanes are tiles: one vector transforms LANES tiles of a channel, whose columns of the
        # panel are contiguous.
        for tile in range(0, tiles, LANES):
            panel = tile // TILE_COLUMNS * depth + k
            target = stage.right.place + panel * TILE_COLUMNS + tile % TILE_COLUMNS
            strip = (stage.copies, stage.table + tile, pitch, target, stage.right.pitch, 0)
            transform_image(scratch, strip, stage.geometry.kernel_size[1])


@entry()
def _multiply(encoded: Integers, scratch: Floats, number: int, chunk: int, begin: int) -> None:
    """Adds the products of `stage.left_depth` channels, from `begin` on, to a chunk's total."""
    stage = _as_stage(encoded)
    grid = stage.grid
    (channel, channels), depth = _chunk_of(stage, chunk), _depth_of(stage)
    tiles, most = tiles_of(stage, block_of(stage, number)), PANEL_VALUES // TILE_COLUMNS
    # The depth goes in pieces of one right panel each; all but the first add to the total.
    held, pitch = stage.left_depth, grid.tiles
    # Point by point, a matrix product each. A panel of the right side, at most PANEL_VALUES, stays
    # in the first-level cache while the chunk's channels pass.
    for xi in range(grid.points):
        left_plane = _left_place(stage, channel) + xi * stage.left.pitch
        right_plane = stage.right.place + xi * stage.right.pitch
        total = stage.total.place + xi * stage.total.pitch
        for tile in range(0, tiles, TILE_COLUMNS):
            vectors = -(-min(TILE_COLUMNS, tiles - tile) // LANES)
            for k in range(begin, min(begin + held, depth), most):
                right = right_plane + tile * depth + k * TILE_COLUMNS
                count, adds = min(most, begin + held - k, depth - k), int(k > 0)
                for m in range(0, channels, TILE_ROWS):
                    left = left_plane + m * held + (k - begin) * TILE_ROWS
                    numbers = (count, left, right, total + m * pitch + tile, pitch, adds)
                    multiply_packed(scratch, numbers, min(TILE_ROWS, channels - m), vectors)


@compiled()
def _store_planes(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: WinogradStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    channel: int,
    block: Quad,
    planes: int,
) -> None:
    """Stores the planes of a channel of the result, if the tensor has the channel."""
    shape = stage.geometry
    entry, entries, row, rows = block
    tensor, (height, width) = stage.result_tensor, _result_size(stage)
    down, across = shape.dilation[1], shape.dilation[2]
    plane_height, pitch = plane_of(stage, 0)
    results = stage.grid.results[0]
    first, last = row * results * down, min(height, (row + rows) * results * down)
    count = (last - first) * width
    if channel >= tensor.channels or count <= 0:
        return
    for i in range(entries):
        source = planes + i * down * across * plane_height * pitch
        index = ((channel * shape.batch + entry + i) * height + first) * width
        if down * across == 1 and are_rows(tensor, index, count):
            to = position_of(tensor.layout, index)
            copied = (source, 0, pitch, to, 0, width, 1, last - first, width)
            copy_rows_exactly(scratch, floats, copied)
            continue
        place = source
        # Planes of several phases, or wider than the result, are first put into rows of the image.
        if down * across > 1 or pitch != width:
            place = stage.line
            for y in range(first, last):
                for x in range(across):
                    plane = source + (y % down * across + x) * plane_height * pitch
                    run = plane + (y // down - row * results) * pitch
                    to = place + (y - first) * width + x
                    copy_to_steps(scratch, run, to, across, (width - x - 1) // across + 1)
        values = scratch[place : place + count]
        store(values, tensor.number_format, tensor.layout, index, floats, halves)


@entry()
def _store_total(  # noqa: PLR0913, PLR0917  # arrays and integers
    encoded: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    group: int,
    number: int,
    chunk: int,
) -> None:
    """Transforms the total of a chunk and stores the result."""
    stage = _as_stage(encoded)
    grid = stage.grid
    block, (channel, channels) = block_of(stage, number), _chunk_of(stage, chunk)
    tiles, pitch = tiles_of(stage, block), plane_of(stage, 0)[1]
    # Results are written tile by tile into planes without a halo; the planes then go to the tensor
    # row by row.
    offsets = stage.table + grid.tiles
    for m in range(channels):
        for tile in range(0, tiles, LANES):
            place = stage.total.place + m * grid.tiles + tile
            numbers = (place, stage.total.pitch, stage.planes, offsets + tile, pitch)
            collect_results(scratch, numbers, stage.geometry.taps)
        number_in_all = group * _width_of(stage) + channel + m
        _store_planes(stage, scratch, floats, halves, number_in_all, block, stage.planes)


def run_winograd(  # noqa: PLR0913, PLR0917  # arrays and integers
    encoded: Integers,
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
    """Runs units first .. last-1; buffers of the tensors are given as float32 and as halves.

    Python calls the units one by one: a compiled loop with all of them would take long to compile.
    """
    stage = decode(WinogradStage, encoded)
    shape, chunks, blocks = stage.geometry, stage.chunks, stage.grid.blocks
    transform, depth = _transform_columns, shape.input_channels
    if stage.direction == SCATTER:
        transform, depth = _transform_rows, shape.output_channels
    loads, weights = -(-depth // stage.loaded), chunks if blocks > 1 else 0
    if scratch[stage.flag] != 0:
        return
    for unit in range(first, last):
        # Units of a group: its weights if blocks share them, then loads and chunks of each block.
        group, inside = divmod(unit, weights + blocks * (loads + chunks))
        number, part = divmod(inside - weights, loads + chunks)
        chunk = part - loads
        if inside < weights:
            transform(encoded, scratch, table, weight, weight_halves, group, (inside, 0))
            continue
        if part < loads:
            _transform_source(encoded, scratch, table, source, source_halves, group, number, part)
            continue
        # With one block the weight is used once: the part that fits the cache is transformed,
        # multiplied, and replaced by the next part.
        for k in range(0, depth, stage.left_depth):
            if blocks == 1:
                transform(encoded, scratch, table, weight, weight_halves, group, (chunk, k))
            _multiply(encoded, scratch, number, chunk, k)
        _store_total(encoded, scratch, result, result_halves, group, number, chunk)
