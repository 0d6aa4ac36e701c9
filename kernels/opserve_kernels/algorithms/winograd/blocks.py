"""Blocks of tiles: where they are, and their padded copies."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.transfers import copy_strided, fill
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.algorithms.winograd.layout import (
    BATCH,
    BLOCK_BATCH,
    BLOCK_ROWS,
    DILATION,
    KERNEL,
    LINE,
    RESULTS_ACROSS,
    RESULTS_DOWN,
    ROW_BLOCKS,
    TILES,
    TILES_ACROSS,
    TILES_DOWN,
)
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Pair = tuple[int, int]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]


@compiled("UniTuple(int64, 4)(int64[::1], int64)")
def block_of(stage: Integers, number: int) -> Quad:
    """First entry of the batch, entries, first row of tiles and rows of a block."""
    row = number % stage[ROW_BLOCKS] * stage[BLOCK_ROWS]
    entry = number // stage[ROW_BLOCKS] * stage[BLOCK_BATCH]
    entries = min(stage[BLOCK_BATCH], stage[BATCH] - entry)
    return entry, entries, row, min(stage[BLOCK_ROWS], stage[TILES_DOWN] - row)


@compiled("int64(int64[::1])")
def phases_of(stage: Integers) -> int:
    """Planes of a channel of an entry."""
    return int(stage[DILATION + 1] * stage[DILATION + 2])


@compiled("int64(int64[::1], UniTuple(int64, 4))")
def planes_of(stage: Integers, block: Quad) -> int:
    """Planes of a channel in a block."""
    return int(block[1] * phases_of(stage))


@compiled("int64(int64[::1], UniTuple(int64, 4))")
def tiles_of(stage: Integers, block: Quad) -> int:
    """Tiles of a block."""
    return int(planes_of(stage, block) * block[3] * stage[TILES_ACROSS])


@compiled("UniTuple(int64, 2)(int64[::1], int64)")
def plane_of(stage: Integers, halo: int) -> tuple[int, int]:
    """Rows and columns of a block's plane, with what its kernels need beyond it if halo is 1."""
    height = stage[RESULTS_DOWN] * stage[BLOCK_ROWS] + halo * (stage[KERNEL + 1] - 1)
    return height, stage[RESULTS_ACROSS] * stage[TILES_ACROSS] + halo * (stage[KERNEL + 2] - 1)


@compiled("void(int64[::1], int32[::1], int64, UniTuple(int64, 4), int64)")
def fill_tile_offsets(stage: Integers, table: Offsets, place: int, block: Quad, halo: int) -> None:
    """Where the tiles start in planes one behind the other; the last stands for all that lack."""
    height, width = plane_of(stage, halo)
    tiles, across = tiles_of(stage, block), stage[TILES_ACROSS]
    for tile in range(stage[TILES]):
        line, x = min(tile, tiles - 1) // across, min(tile, tiles - 1) % across
        plane, y = line // block[3] * height * width, line % block[3] * stage[RESULTS_DOWN]
        table[place + tile] = plane + y * width + x * stage[RESULTS_ACROSS]


@compiled("void(int32[::1], int64, int64)")
def fill_lane_offsets(table: Offsets, place: int, pitch: int) -> None:
    """Lanes a pitch apart."""
    for lane in range(LANES):
        table[place + lane] = lane * pitch


@compiled("void(int64[::1], float32[::1], int64, int64, int64)")
def clear_planes(stage: Integers, scratch: Floats, halo: int, target: int, copies: int) -> None:
    """Makes all planes of so many channels padding, what load_planes leaves as it is."""
    height, width = plane_of(stage, halo)
    count = stage[BLOCK_BATCH] * phases_of(stage) * height * width
    fill(scratch, target, copies * count, PADDING)


@compiled("UniTuple(int64, 2)(int64, int64, int64, int64)")
def _inside(size: int, begin: int, step: int, extent: int) -> tuple[int, int]:
    """The z = first .. last-1 below extent for which an image has the position z * step + begin."""
    first = max(0, -(begin // step))
    return first, max(first, min((size - 1 - begin) // step + 1, extent))


@compiled(
    "void(int64[::1], float32[::1], int64, UniTuple(int64, 2), UniTuple(int64, 2), "
    "UniTuple(int64, 3))"
)
def _split_rows(
    stage: Integers, scratch: Floats, halo: int, origin: Pair, places: Pair, rows: Triple
) -> None:
    """Rows of an image to the planes of their phases, where they lie inside.

    Args:
        stage: Parameters.
        scratch: The workspace.
        halo: Whether planes have one.
        origin: The position that the first tile begins with.
        places: Of the first row, and of the planes.
        rows: The first row, the one behind the last, and how long they are.
    """
    (line, planes), (low, high, size) = places, rows
    (height, width), across = plane_of(stage, halo), stage[DILATION + 2]
    for y in range(low, high):
        phase = (y - origin[0]) % stage[DILATION + 1] * across
        z = (y - origin[0]) // stage[DILATION + 1]
        for x in range(across):
            first, last = _inside(size, origin[1] + x, across, width)
            source = line + (y - low) * size + first * across + origin[1] + x
            to = planes + ((phase + x) * height + z) * width + first
            copy_strided(scratch, source, across, to, last - first)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 4), "
    "UniTuple(int64, 2), UniTuple(int64, 4))"
)
def load_planes(  # noqa: PLR0913, PLR0917  # arrays, places and tuples
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    tensor: Quad,
    origin: tuple[int, int],
    place: Quad,
) -> None:
    """Puts a channel of a block into planes of padding.

    Args:
        stage: Parameters.
        scratch: The workspace.
        floats: The tensor's buffer as float32 values.
        halves: The same as 16-bit patterns.
        tensor: Places of its view and its size in the stage, its number format and channels.
        origin: The position that the first tile begins with.
        place: The channel (padding alone if the tensor does not have it), the block, whether
            planes have a halo, and where they start.
    """
    channel, number, halo, target = place
    entry, entries, row, _ = block_of(stage, number)
    view_at, size_at, number_format, channels = tensor
    size, (height, width) = (stage[size_at + 1], stage[size_at + 2]), plane_of(stage, halo)
    down, across = stage[DILATION + 1], stage[DILATION + 2]
    if channel >= channels:
        fill(scratch, target, entries * down * across * height * width, PADDING)
        return
    begin, line = origin[0] + row * stage[RESULTS_DOWN] * down, stage[LINE]
    low = min(max(begin, 0), size[0])
    high = max(low, min(begin + height * down, size[0]))
    for i in range(entries):
        count, planes = (high - low) * size[1], target + i * down * across * height * width
        index = ((channel * stage[BATCH] + entry + i) * size[0] + low) * size[1]
        values = scratch[line : line + count]
        load(floats, halves, stage[view_at:], number_format, index, values)
        _split_rows(stage, scratch, halo, (begin, origin[1]), (line, planes), (low, high, size[1]))
