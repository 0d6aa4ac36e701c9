"""Winograd's algorithm for the gradient of a weight.

    output, block   ->  padded planes of LANES channels  ->  left sides, panels of channels (G)
    image, block    ->  padded planes of LANES channels  ->  right sides, panels of channels (B^T)
    left, right     ->  total (points, output's channels, image's channels), added up over blocks
    total           ->  lines of taps (A^T)  ->  the result's view

Units, group by group and block by block: the output by channels, the image by channels, and chunks
of the output's channels. With a single block, the total is that of one chunk.

If the stage of ranges raised the flag, the units do nothing, and a stage of a direct algorithm
computes the result.
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
from opserve_kernels.algorithms.winograd.layout import PANEL_VALUES, WinogradStage, WinogradTensor
from opserve_kernels.algorithms.winograd.tiles import (
    collect_taps,
    transform_image,
    transform_output,
)
from opserve_kernels.loops import compiled, entry, reading
from opserve_kernels.records import decode
from opserve_kernels.strided import store

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Pair = tuple[int, int]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]

_as_stage = reading(WinogradStage)
_OUTPUT, _IMAGE = range(2)  # sides


@compiled()
def _columns(stage: WinogradStage) -> int:
    """The image's channels in whole panels."""
    return -(-stage.geometry.input_channels // TILE_COLUMNS) * TILE_COLUMNS


@compiled()
def _chunk_of(stage: WinogradStage, chunk: int) -> tuple[int, int, int]:
    """First channel and channels of a chunk, and the place of its total."""
    channel = chunk * stage.chunk_channels
    channels = min(stage.chunk_channels, stage.geometry.output_channels - channel)
    total = stage.total.place + (channel * _columns(stage) if stage.grid.blocks > 1 else 0)
    return channel, channels, total


@compiled()
def _tensor_of(stage: WinogradStage, side: int) -> WinogradTensor:
    return stage.left_tensor if side == _OUTPUT else stage.right_tensor


@compiled()
def _size_of(stage: WinogradStage, side: int) -> Pair:
    shape = stage.geometry
    size = shape.output_size if side == _OUTPUT else shape.input_size
    return size[1], size[2]


@compiled()
def _sizes_of(stage: WinogradStage, side: int) -> Quad:
    """A side's channels in a group, whether it has a halo, and where its first tile begins."""
    shape = stage.geometry
    if side == _OUTPUT:
        return shape.output_channels, 0, 0, 0
    return shape.input_channels, 1, -shape.padding[1], -shape.padding[2]


@compiled()
def _transform(
    stage: WinogradStage, scratch: Floats, table: Offsets, side: int, tiles: int, planes: Pair
) -> None:
    """Transforms LANES channels, from the given one on, into the panels of a side."""
    grid = stage.grid
    shape = stage.geometry
    channel, width = planes
    # The two sides have different panels: TILE_ROWS channels on the left, TILE_COLUMNS on the
    # right.
    lanes, offsets = stage.table + 2 * grid.tiles, stage.table + side * grid.tiles
    # Lanes are channels here, not tiles: a panel then has its channels contiguous, as the product
    # of channels with channels reads them.
    if side == _OUTPUT:
        panel, piece = stage.left.place + channel * grid.tiles, grid.tiles * TILE_ROWS
        for tile in range(tiles):
            source, target = stage.copies + table[offsets + tile], panel + tile * TILE_ROWS
            numbers = (source, lanes, width, target, stage.left.pitch, piece)
            transform_output(scratch, numbers, shape.taps)
    else:
        column = channel % TILE_COLUMNS
        panel = stage.right.place + (channel - column) * grid.tiles + column
        for tile in range(tiles):
            source, target = stage.copies + table[offsets + tile], panel + tile * TILE_COLUMNS
            numbers = (source, lanes, width, target, stage.right.pitch, 0)
            transform_image(scratch, numbers, shape.kernel_size[1])


@entry()
def _transform_side(  # noqa: PLR0913, PLR0917  # arrays and integers
    encoded: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    side: int,
    unit: Triple,
) -> None:
    """Transforms some channels of a side; unit: group, block, part."""
    stage = _as_stage(encoded)
    grid = stage.grid
    group, number, part = unit
    tensor, (channels, halo, y, x) = _tensor_of(stage, side), _sizes_of(stage, side)
    size = _size_of(stage, side)
    block, (height, width) = block_of(stage, number), plane_of(stage, halo)
    lanes, pitch = stage.table + 2 * grid.tiles, planes_of(stage, block) * height * width
    # Units of a slice may belong to different blocks, so the table is filled for each.
    fill_tile_offsets(stage, table, stage.table + side * grid.tiles, block, halo)
    fill_lane_offsets(table, lanes, pitch)
    first = part * stage.loaded
    for begin in range(first, min(first + stage.loaded, channels), LANES):
        # The first channels clear the planes; the copies behind them leave the padding as it is.
        # The last ones clear them again where lanes have no channel.
        if begin == first or begin + LANES > channels:
            clear_planes(stage, scratch, halo, stage.copies, LANES)
        for lane in range(min(LANES, channels - begin)):
            channel = group * channels + begin + lane
            place = (channel, number, halo, stage.copies + lane * pitch)
            load_planes(stage, scratch, floats, halves, tensor, size, (y, x), place)
        _transform(stage, scratch, table, side, tiles_of(stage, block), (begin, width))


@entry()
def _multiply(encoded: Integers, scratch: Floats, number: int, chunk: int) -> None:
    """Adds a block's part to the total of a chunk."""
    stage = _as_stage(encoded)
    grid = stage.grid
    shape = stage.geometry
    # Sums over tiles go in pieces that keep their right panel in the cache; later pieces and blocks
    # add to the total.
    tiles, most = tiles_of(stage, block_of(stage, number)), PANEL_VALUES // TILE_COLUMNS
    channel, channels, total = _chunk_of(stage, chunk)
    columns, all_tiles = _columns(stage), grid.tiles
    # Point by point: at each one, this is a matrix product of its own. A panel of the right side,
    # at most PANEL_VALUES, stays in the first-level cache while the chunk's channels pass.
    for xi in range(grid.points):
        left_plane = stage.left.place + xi * stage.left.pitch + channel * all_tiles
        right_plane = stage.right.place + xi * stage.right.pitch
        total_plane = total + xi * stage.total.pitch
        for c in range(0, shape.input_channels, TILE_COLUMNS):
            vectors = -(-min(TILE_COLUMNS, shape.input_channels - c) // LANES)
            for tile in range(0, tiles, most):
                right = right_plane + c * all_tiles + tile * TILE_COLUMNS
                count, adds = min(most, tiles - tile), int(number > 0 or tile > 0)
                for m in range(0, channels, TILE_ROWS):
                    left = left_plane + m * all_tiles + tile * TILE_ROWS
                    numbers = (count, left, right, total_plane + m * columns + c, columns, adds)
                    multiply_packed(scratch, numbers, min(TILE_ROWS, channels - m), vectors)


@compiled()
def _store_line(
    stage: WinogradStage, scratch: Floats, floats: Floats, halves: Halves, row: int
) -> None:
    """Stores the line as a row of the weight."""
    shape, tensor = stage.geometry, stage.result_tensor
    count = shape.input_channels * shape.taps
    values = scratch[stage.line : stage.line + count]
    store(values, tensor.number_format, tensor.layout, row * count, floats, halves)


@entry()
def _store_chunk(  # noqa: PLR0913, PLR0917  # arrays and integers
    encoded: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
    chunk: int,
) -> None:
    """Transforms the total of a chunk and stores the result."""
    stage = _as_stage(encoded)
    shape = stage.geometry
    # Lanes are image channels: their taps are contiguous in a row of the weight, `taps` apart.
    channel, channels, total = _chunk_of(stage, chunk)
    lanes, taps = stage.table + 2 * stage.grid.tiles, shape.taps
    fill_lane_offsets(table, lanes, taps)
    for m in range(channels):
        for c in range(0, shape.input_channels, LANES):
            place, line = total + m * _columns(stage) + c, stage.line + c * taps
            numbers = (place, stage.total.pitch, line, lanes, shape.kernel_size[2])
            collect_taps(scratch, numbers, taps)
        row = group * shape.output_channels + channel + m
        _store_line(stage, scratch, floats, halves, row)


def run_winograd_weight(  # noqa: PLR0913, PLR0917  # arrays and integers
    encoded: Integers,
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
    """Runs units first .. last-1; buffers of the tensors are given as float32 and as halves.

    Python calls the units one by one: a compiled loop with all of them would take long to compile.
    """
    stage = decode(WinogradStage, encoded)
    shape, blocks = stage.geometry, stage.grid.blocks
    outputs, images = (
        -(-channels // stage.loaded) for channels in (shape.output_channels, shape.input_channels)
    )
    if scratch[stage.flag] != 0:
        return
    for unit in range(first, last):
        # Units of a block: left side, right side, then one product for each chunk.
        whole, part = divmod(unit, outputs + images + stage.chunks)
        group, number = divmod(whole, blocks)
        chunk = part - outputs - images
        if part < outputs:
            at = (group, number, part)
            _transform_side(encoded, scratch, table, output, output_halves, _OUTPUT, at)
        elif chunk < 0:
            at = (group, number, part - outputs)
            _transform_side(encoded, scratch, table, image, image_halves, _IMAGE, at)
        else:
            _multiply(encoded, scratch, number, chunk)
            if number == blocks - 1:
                _store_chunk(encoded, scratch, table, result, result_halves, group, chunk)
