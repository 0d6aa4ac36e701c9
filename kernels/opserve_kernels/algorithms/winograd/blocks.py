"""Blocks of tiles: their positions, and their padded copies."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.rows import copy_rows
from opserve_kernels.algorithms.codegen.transfers import copy_strided, fill
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.algorithms.winograd.layout import WinogradStage, WinogradTensor
from opserve_kernels.loops import compiled
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.strided import load, position_of
from opserve_kernels.sums import PADDING
from opserve_kernels.views import LAST_AXIS

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Pair = tuple[int, int]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]


@compiled()
def block_of(stage: WinogradStage, number: int) -> Quad:
    """First entry of the batch, entries, first row of tiles and rows of a block."""
    grid = stage.grid
    row = number % grid.row_blocks * grid.block_rows
    entry = number // grid.row_blocks * grid.block_batch
    entries = min(grid.block_batch, stage.geometry.batch - entry)
    return entry, entries, row, min(grid.block_rows, grid.tiles_down - row)


@compiled()
def phases_of(stage: WinogradStage) -> int:
    """Planes of a channel of an entry."""
    shape = stage.geometry
    return shape.dilation[1] * shape.dilation[2]


@compiled()
def planes_of(stage: WinogradStage, block: Quad) -> int:
    """Planes of a channel in a block."""
    return block[1] * phases_of(stage)


@compiled()
def tiles_of(stage: WinogradStage, block: Quad) -> int:
    """Tiles of a block."""
    return planes_of(stage, block) * block[3] * stage.grid.tiles_across


@compiled()
def plane_of(stage: WinogradStage, halo: int) -> tuple[int, int]:
    """Rows and columns of a block's plane; with halo 1, with the values its kernels need."""
    grid = stage.grid
    shape = stage.geometry
    height = grid.results[0] * grid.block_rows + halo * (shape.kernel_size[1] - 1)
    return height, grid.results[1] * grid.tiles_across + halo * (shape.kernel_size[2] - 1)


@compiled()
def fill_tile_offsets(
    stage: WinogradStage, table: Offsets, place: int, block: Quad, halo: int
) -> None:
    """Fills the starts of tiles in consecutive planes; missing tiles repeat the last one."""
    grid = stage.grid
    height, width = plane_of(stage, halo)
    # The order of tiles is that of planes, rows and columns, as the panels count them.
    tiles, across = tiles_of(stage, block), grid.tiles_across
    # Vectors of tiles are full: lanes without a tile repeat the last one, so that they write the
    # same results to the same place.
    for tile in range(grid.tiles):
        line, x = min(tile, tiles - 1) // across, min(tile, tiles - 1) % across
        plane, y = line // block[3] * height * width, line % block[3] * grid.results[0]
        table[place + tile] = plane + y * width + x * grid.results[1]


@compiled()
def fill_lane_offsets(table: Offsets, place: int, pitch: int) -> None:
    """Fills the places of the lanes, a pitch apart."""
    for lane in range(LANES):
        table[place + lane] = lane * pitch


@compiled()
def clear_planes(
    stage: WinogradStage, scratch: Floats, halo: int, target: int, copies: int
) -> None:
    """Sets all planes of some channels to padding, which load_planes leaves unchanged."""
    # Batches may end with fewer entries; planes of the largest block are cleared.
    height, width = plane_of(stage, halo)
    count = stage.grid.block_batch * phases_of(stage) * height * width
    fill(scratch, target, copies * count, PADDING)


@compiled()
def _inside(size: int, begin: int, step: int, extent: int) -> tuple[int, int]:
    """The z = first .. last-1 below extent for which an image has position z * step + begin."""
    first = max(0, -(begin // step))
    return first, max(first, min((size - 1 - begin) // step + 1, extent))


@compiled()
def _split_rows(
    stage: WinogradStage, scratch: Floats, halo: int, origin: Pair, places: Pair, rows: Triple
) -> None:
    """Copies rows of an image to the planes of their phases, up to the planes' edges.

    Args:
        stage: Parameters.
        scratch: The workspace.
        halo: Whether planes have a halo.
        origin: The position at which the first tile begins.
        places: Places of the first row and of the planes.
        rows: First row, one past the last, and the length of a row.
    """
    shape = stage.geometry
    (line, planes), (low, high, size) = places, rows
    (height, width), across = plane_of(stage, halo), shape.dilation[2]
    # Phase and row of a plane follow from the distance to the first tile.
    for y in range(low, high):
        phase = (y - origin[0]) % shape.dilation[1] * across
        z = (y - origin[0]) // shape.dilation[1]
        for x in range(across):
            first, last = _inside(size, origin[1] + x, across, width)
            source = line + (y - low) * size + first * across + origin[1] + x
            to = planes + ((phase + x) * height + z) * width + first
            copy_strided(scratch, source, across, to, last - first)


@compiled()
def are_rows(tensor: WinogradTensor, index: int, count: int) -> bool:
    """Whether values of a tensor from an index on are adjacent float32 values, used as they are."""
    layout = tensor.layout
    width = layout.sizes[LAST_AXIS]
    plain = layout.element_type == FLOAT and tensor.number_format == FLOAT
    return plain and layout.steps[LAST_AXIS] == 1 and 0 < count <= width - index % width


@compiled()
def load_planes(  # noqa: PLR0913, PLR0917  # arrays, places and tuples
    stage: WinogradStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    tensor: WinogradTensor,
    size: Pair,
    origin: Pair,
    place: Quad,
) -> None:
    """Copies a channel of a block into planes of padding.

    Args:
        stage: Parameters.
        scratch: The workspace.
        floats: The tensor's buffer as float32 values.
        halves: The same as 16-bit patterns.
        tensor: The tensor.
        size: Size of its images.
        origin: The position at which the first tile begins.
        place: The channel (padding alone if the tensor lacks it), the block, whether planes have a
            halo, and the start of the planes.
    """
    shape = stage.geometry
    channel, number, halo, target = place
    entry, entries, row, _ = block_of(stage, number)
    height, width = plane_of(stage, halo)
    down, across = shape.dilation[1], shape.dilation[2]
    if channel >= tensor.channels:
        fill(scratch, target, entries * down * across * height * width, PADDING)
        return
    # Only the image's rows that the block needs are loaded, entry by entry, and split into phases.
    begin, line = origin[0] + row * stage.grid.results[0] * down, stage.line
    low = min(max(begin, 0), size[0])
    high = max(low, min(begin + height * down, size[0]))
    for i in range(entries):
        count, planes = (high - low) * size[1], target + i * down * across * height * width
        index = ((channel * shape.batch + entry + i) * size[0] + low) * size[1]
        if down * across == 1 and are_rows(tensor, index, count):
            first, last = _inside(size[1], origin[1], 1, width)
            source = position_of(tensor.layout, index) + first + origin[1]
            to = planes + (low - begin) * width + first
            copied = (source, 0, size[1], to, 0, width, 1, high - low, last - first)
            copy_rows(floats, scratch, copied)
            continue
        # Rows of the tensor are converted once into the line, then split by phase.
        values = scratch[line : line + count]
        load(floats, halves, tensor.layout, tensor.number_format, index, values)
        _split_rows(stage, scratch, halo, (begin, origin[1]), (line, planes), (low, high, size[1]))
