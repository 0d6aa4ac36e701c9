"""The record of a Winograd product: the plan fills it, the loops read it.

Positions are split into the phases of the dilation, p = u * dilation + phase: every phase is a
plane of its own whose taps lie side by side. Planes are cut into tiles, along an axis of 3 taps of
4 results and of 5 taps of 2, so that 6 values are needed; an axis of one tap is left as it is. A
block is some entries of the batch, or rows of tiles of one entry; its tiles are counted entry by
entry, phase by phase, row by row.

    image from output, output from image (product)
        total[xi] (result's channels, tiles) = weight[xi] (channels, depth) @ source[xi]
    weight from output and image (weight product)
        total[xi] (output's channels, image's channels) = output[xi] (channels, tiles) @ image[xi]

Left sides are panels of TILE_ROWS channels, right sides of TILE_COLUMNS tiles or channels. Planes
of a point xi are PITCH_GAP more than needed apart: powers of two would fall into the same lines of
the cache.
"""

from typing import NamedTuple

from opserve_kernels.convolution import Geometry
from opserve_kernels.views import View

TILE_RESULTS = {1: 1, 3: 4, 5: 2}
"""Results of a tile along an axis with so many taps."""

KERNELS = frozenset({(3, 3), (5, 5), (1, 3)})
"""Height and width of what there are transforms for."""

POINTS_OF_AXIS = 6
LIMIT = 2.0**48  # opserve_kernels.algorithms.winograd.transforms derives it, of so many terms
MOST_TERMS = 1 << 19
PITCH_GAP = 80
PANEL_VALUES = 6144  # of the right side that stay in the first-level cache: 24 KiB
LINE_DEPTH = 64  # channels of the source whose taps are read at a time, if rows are the result's


class WinogradTensor(NamedTuple):
    """A tensor of a product.

    Attributes:
        channels: That there are; of a weight, groups.
        number_format: What its elements are rounded to.
        layout: Its view.
    """

    channels: int
    number_format: int
    layout: View


class TileGrid(NamedTuple):
    """Tiles of planes, and blocks of them.

    Attributes:
        points: Of a tile.
        results: Of a tile, along both axes.
        tiles_down: Rows of tiles of a plane.
        tiles_across: Tiles of a row.
        block_batch: Entries of the batch in a block.
        block_rows: Rows of tiles in a block.
        row_blocks: Blocks of an entry.
        blocks: Of a group.
        tiles: Of a block; in a product a multiple of TILE_COLUMNS.
    """

    points: int
    results: tuple[int, int]
    tiles_down: int
    tiles_across: int
    block_batch: int
    block_rows: int
    row_blocks: int
    blocks: int
    tiles: int


class PointPlanes(NamedTuple):
    """A side or a total at all points.

    Attributes:
        place: In the workspace.
        pitch: From a point xi to the next.
    """

    place: int
    pitch: int


class WinogradStage(NamedTuple):
    """A product with the weight, or the gradient of a weight.

    In a weight product the left side is the output, the right side the image and the result the
    weight.

    Attributes:
        geometry: Of the convolution.
        groups: Of channels.
        direction: SCATTER or GATHER of opserve_kernels.algorithms.correlation.layout, of a product.
        left_tensor: What the left side is made of.
        right_tensor: What the right side is made of.
        result_tensor: Where the result goes.
        grid: Tiles and blocks.
        loaded: Channels that a unit loads.
        left_depth: Channels of the source that the left side of a product holds at a time.
        chunk_channels: Channels of a chunk, which a unit multiplies.
        chunks: That there are.
        flag: Place of a value that is not 0 where a direct algorithm computes.
        table: Place of the offsets of tiles and of lanes.
        line: Place of a line of values.
        copies: Place of padded copies.
        left: The left side.
        right: The right side.
        total: The total.
        planes: Place of the result's planes.
    """

    geometry: Geometry
    groups: int
    direction: int
    left_tensor: WinogradTensor
    right_tensor: WinogradTensor
    result_tensor: WinogradTensor
    grid: TileGrid
    loaded: int
    left_depth: int
    chunk_channels: int
    chunks: int
    flag: int
    table: int
    line: int
    copies: int
    left: PointPlanes
    right: PointPlanes
    total: PointPlanes
    planes: int
