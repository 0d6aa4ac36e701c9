"""The record of a Winograd product: the plan fills it, the loops read it.

Positions are split into the phases of the dilation, p = u * dilation + phase: every phase is a
plane of its own with contiguous taps. Planes are cut into tiles of 4 results along an axis of 3
taps, and of 2 along one of 5 taps, so that 6 values are needed. An axis of one tap is not
transformed. A block is some entries of the batch, or rows of tiles of one entry; its tiles are
counted entry by entry, phase by phase, row by row.

    image from output, output from image (product)
        total[xi] (result's channels, tiles) = weight[xi] (channels, depth) @ source[xi]
    weight from output and image (weight product)
        total[xi] (output's channels, image's channels) = output[xi] (channels, tiles) @ image[xi]

Left sides are panels of TILE_ROWS channels, right sides of TILE_COLUMNS tiles or channels. The
planes of two points xi are PITCH_GAP further apart than needed: distances that are powers of two
would map all points to the same sets of the cache.
"""

from typing import NamedTuple

from opserve_kernels.convolution import Geometry
from opserve_kernels.views import View

TILE_RESULTS = {1: 1, 3: 4, 5: 2}
"""Results of a tile along an axis, by its taps."""

KERNELS = frozenset({(3, 3), (5, 5), (1, 3)})
"""Heights and widths of kernels with transforms."""

POINTS_OF_AXIS = 6
LIMIT = 2.0**48  # opserve_kernels.algorithms.winograd.transforms derives it, for MOST_TERMS terms
MOST_TERMS = 1 << 19
# Measured with AVX2: the image gradient of 64 channels and 3x3 kernels takes 6.1 ms with the gap
# and 8.0 ms without.
PITCH_GAP = 80
PANEL_VALUES = 6144  # values of the right side that stay in the first-level cache: 24 KiB
LINE_DEPTH = 64  # source channels that are read at a time, if the weight's rows are the result's


class WinogradTensor(NamedTuple):
    """A tensor of a product.

    Attributes:
        channels: Channels of the tensor; of a weight, groups.
        number_format: Format that its elements are rounded to.
        layout: View of the tensor.
    """

    channels: int
    number_format: int
    layout: View


class TileGrid(NamedTuple):
    """Tiles of planes, and blocks of them.

    Attributes:
        points: Points of a tile.
        results: Results of a tile, along both axes.
        tiles_down: Rows of tiles of a plane.
        tiles_across: Tiles of a row.
        block_batch: Entries of the batch in a block.
        block_rows: Rows of tiles in a block.
        row_blocks: Blocks of an entry.
        blocks: Blocks of a group.
        tiles: Tiles of a block; in a product a multiple of TILE_COLUMNS.
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
        place: Place in the workspace.
        pitch: Distance of two points xi.
    """

    place: int
    pitch: int


class WinogradStage(NamedTuple):
    """A product with the weight, or the gradient of a weight.

    In a weight product, the left side is the output, the right side is the image, and the result is
    the weight.

    Attributes:
        geometry: Geometry of the convolution.
        groups: Groups of channels.
        direction: SCATTER or GATHER of opserve_kernels.algorithms.correlation.layout, of a product.
        left_tensor: Tensor of the left side.
        right_tensor: Tensor of the right side.
        result_tensor: Tensor of the result.
        grid: Tiles and blocks.
        loaded: Channels that a unit loads.
        left_depth: Channels of the source in the left side of a product at a time.
        chunk_channels: Channels of a chunk, which a unit multiplies.
        chunks: Number of chunks.
        flag: Place of a value that is not 0 if a direct algorithm computes the result.
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
