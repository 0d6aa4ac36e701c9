"""Panels of pixels: the values under the taps at TILE_COLUMNS neighbouring positions of the result.

Positions of the result are counted without padding: row after row, plane after plane, entry after
entry of the batch. A tile of them is cut into segments, runs of one row. For each tap of each
channel a segment is a run of the padded copy, at the tap's offset.

    padded copy     . a b c d .        tap's offset + segment     panel row of that tap
                    . e f g h .   -->  b c d | e f g h     -->    b c d e f g h
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.copies import copy_lanes, copy_vectors
from opserve_kernels.algorithms.codegen.tiles import panel_row_tile
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_VECTORS
from opserve_kernels.algorithms.packed.layout import LAST_COLUMNS
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]

_copy_row = panel_row_tile(TILE_VECTORS, width=LANES)
_copy_vector = copy_vectors(1, width=LANES)
_copy_lanes = copy_lanes(LANES)


@compiled("int64(UniTuple(int64, 3), UniTuple(int64, 3), int64)")
def position_in(extent: Triple, rows: Triple, pixel: int) -> int:
    """Place of a pixel of a block (entries, *rows) in a copy whose rows are `extent`."""
    # Pixels count without padding; the copy has it between rows, planes and entries.
    w, line = pixel % rows[2], pixel // rows[2]
    h, plane = line % rows[1], line // rows[1]
    d, entry = plane % rows[0], plane // rows[0]
    return ((entry * extent[0] + d) * extent[1] + h) * extent[2] + w


@compiled("Tuple((UniTuple(int64, 3), UniTuple(int64, 3)))(UniTuple(int64, 3), UniTuple(int64, 3))")
def joined(extent: Triple, rows: Triple) -> tuple[Triple, Triple]:
    """Merges rows, or planes, that have nothing between them into longer rows."""
    # Longer rows make longer segments: fewer copies that end inside a vector.
    if extent[2] == rows[2]:
        extent, rows = (extent[0], 1, extent[1] * extent[2]), (rows[0], 1, rows[1] * rows[2])
    if extent[1] == rows[1] and extent[2] == rows[2]:
        extent, rows = (1, 1, extent[0] * extent[2]), (1, 1, rows[0] * rows[2])
    return extent, rows


@compiled("int64(int64)")
def tile_columns(positions: int) -> int:
    """Columns of the next tile of a row of positions."""
    # The last four vectors are two tiles of two: a tile of one loads too much for its products.
    if TILE_COLUMNS < positions <= LAST_COLUMNS:
        return LAST_COLUMNS // 2
    return min(TILE_COLUMNS, positions)


@compiled("void(float32[::1], float32[::1], int32[::1], int64, int64, int64, int64, int64)")
def _copy_whole_rows(  # noqa: PLR0913, PLR0917  # arrays and integers
    memory: Floats,
    scratch: Floats,
    table: Offsets,
    source: int,
    offsets: int,
    target: int,
    depth: int,
    tiles: int,
) -> None:
    """Copies whole tiles of one segment into panels one after the other."""
    # Each row of a panel is the same segment under another tap or channel: a run as long as all
    # tiles, from memory that may be far away.
    for j in range(depth):
        at, to = source + table[offsets + j], target + j * TILE_COLUMNS
        for _ in range(tiles):
            _copy_row(memory, scratch, (at, to))
            at += TILE_COLUMNS
            to += depth * TILE_COLUMNS


@compiled("void(float32[::1], float32[::1], int32[::1], int64, int64, int64, int64, int64)")
def _copy_segment(  # noqa: PLR0913, PLR0917  # arrays and integers
    memory: Floats,
    scratch: Floats,
    table: Offsets,
    source: int,
    offsets: int,
    target: int,
    depth: int,
    count: int,
) -> None:
    """Copies a run of at most TILE_COLUMNS values for each of `depth` offsets."""
    # Whole vectors, then the rest by mask: the segment behind it begins in the same vector.
    last = (count - 1) // LANES * LANES
    rest = count - last
    for j in range(depth):
        at, to = source + table[offsets + j], target + j * TILE_COLUMNS
        for lane in range(0, last, LANES):
            _copy_vector(memory, scratch, (at + lane, to + lane))
        _copy_lanes(memory, scratch, (at + last, to + last, rest))


@compiled(
    "void(float32[::1], float32[::1], int32[::1], int64, int64, int64, int64, "
    "UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 2))"
)
def fill_panel(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    memory: Floats,
    scratch: Floats,
    table: Offsets,
    source: int,
    offsets: int,
    panel: int,
    depth: int,
    extent: Triple,
    rows: Triple,
    pixels: tuple[int, int],
) -> None:
    """Fills a panel (depth, TILE_COLUMNS); columns beyond the last pixel stay as they are.

    Args:
        memory: Array of the padded copy, or of the source that is read in place.
        scratch: The workspace.
        table: The same as int32.
        source: Start of the padded copy.
        offsets: Start of the offsets of the panel's rows.
        panel: Start of the panel.
        depth: Rows of the panel.
        extent: Sizes of a phase of the padded copy.
        rows: Rows of the block of the result.
        pixels: First pixel of the tile, and one past the last.
    """
    pixel, last = pixels
    while pixel < last:
        count = min(rows[2] - pixel % rows[2], last - pixel)
        start = source + position_in(extent, rows, pixel)
        # The usual tile lies in one row: whole rows of the panel are copied without a mask.
        if count == TILE_COLUMNS:
            _copy_whole_rows(memory, scratch, table, start, offsets, panel, depth, 1)
        else:
            to = panel + pixel - pixels[0]
            _copy_segment(memory, scratch, table, start, offsets, to, depth, count)
        pixel += count


@compiled(
    "void(float32[::1], float32[::1], int32[::1], int64, int64, int64, int64, "
    "UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 2))"
)
def fill_panels(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    memory: Floats,
    scratch: Floats,
    table: Offsets,
    source: int,
    offsets: int,
    panel: int,
    depth: int,
    extent: Triple,
    rows: Triple,
    pixels: tuple[int, int],
) -> None:
    """Fills the panels of several tiles, one after the other; arguments as for fill_panel."""
    pixel, last = pixels
    # Whole tiles of the first row together, but those of the last four vectors.
    tiles = min(rows[2] - pixel % rows[2], last - pixel - LANES - 1) // TILE_COLUMNS
    if tiles > 1:
        start = source + position_in(extent, rows, pixel)
        _copy_whole_rows(memory, scratch, table, start, offsets, panel, depth, tiles)
        pixel, panel = pixel + tiles * TILE_COLUMNS, panel + tiles * depth * TILE_COLUMNS
    while pixel < last:
        tile = (pixel, pixel + tile_columns(last - pixel))
        fill_panel(memory, scratch, table, source, offsets, panel, depth, extent, rows, tile)
        pixel, panel = tile[1], panel + depth * TILE_COLUMNS
