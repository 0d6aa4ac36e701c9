"""Plans of Winograd's algorithm: where it fits, its units and workspace."""

from math import prod

from opserve_kernels.algorithms.correlation.layout import SCATTER
from opserve_kernels.algorithms.correlation.plan import Correlation
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.winograd.layout import (
    KERNELS,
    LINE_DEPTH,
    MOST_TERMS,
    PANEL_VALUES,
    PITCH_GAP,
)
from opserve_kernels.algorithms.winograd.tiling import TileBlocks, Tiling
from opserve_kernels.convolution import Convolution, Triple
from opserve_kernels.gradients import Operand
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

_LEAST_TILES = TILE_COLUMNS  # of a block, where it has so many
_LEAST_VALUES = 1 << 18  # of a block's tiles at every point: 1 MiB
_MOST_VALUES = 5 << 20  # the same where there are many kernels: 20 MiB
_TOTAL_VALUES = 1 << 18  # of a chunk's total: 1 MiB
_UNIT_PRODUCTS = 80_000_000  # multiply-adds of a unit, more than a millisecond
_UNIT_TILES = 25_000  # tiles that a unit transforms, less than a millisecond


def fits(convolution: Convolution) -> bool:
    """Whether there are transforms for a convolution, and rows of tiles are not too long."""
    pixels = max(convolution.input_pixels, convolution.output_pixels)
    channels = max(convolution.input_channels, convolution.output_channels)
    return (
        convolution.kernel_size[0] == 1
        and convolution.kernel_size[1:] in KERNELS
        and convolution.stride == (1, 1, 1)
        and convolution.input_size[0] == convolution.output_size[0] == 1
        and convolution.padding[0] == 0
        and 0 < pixels <= MOST_TERMS
        and channels <= MOST_TERMS
        and _row_products(convolution, channels) <= _UNIT_PRODUCTS
    )


def plan_winograd(kind: int, product: Correlation, flag: int, workspace: Workspace) -> Stage:
    """The stage of a product with the weight.

    Args:
        kind: The stage's number.
        product: Of a convolution that fits.
        flag: Place in the workspace of a value that is 0 if the operands suit transforms.
        workspace: Gets what is needed.
    """
    convolution = product.convolution
    depth, width = product.source_channels, product.result_channels
    tiling = Tiling.of(convolution, product.result_size)
    blocks = TileBlocks.of(tiling, _most_tiles(convolution, tiling.points, depth))
    tiles = _whole(blocks.tiles, TILE_COLUMNS)
    per_channel = (tiling.points * tiles, tiling.points * depth * tiles)
    chunk = _chunk(width, per_channel, step=LANES)
    chunks = -(-width // chunk)
    held, left = depth, _whole(width, LANES)
    if blocks.count == 1:
        held, left = min(depth, PANEL_VALUES // TILE_COLUMNS), chunk
    loaded = max(1, min(depth, _UNIT_TILES // tiles))
    pitches = (left * held, depth * tiles, _whole(chunk, TILE_ROWS) * tiles)
    numbers = (
        *(convolution.groups, product.direction),
        *(product.weight.number_format, product.source.number_format),
        product.result.number_format,
        *(0, _channels(product.source), _channels(product.result)),
        *(tiling.points, *tiling.results, tiling.down, tiling.across),
        *(blocks.batch, blocks.rows, blocks.row_blocks),
        *(blocks.count, tiles, loaded, held, chunk, chunks),
        *(pitch + PITCH_GAP for pitch in pitches),
        flag,
        workspace.reserve(2 * tiles + LANES),
        workspace.reserve(_line(product, tiling, blocks, _kernels(product, chunk))),
        workspace.reserve(blocks.planes * _plane(tiling, blocks, 1)),
        *(workspace.reserve(_planes(tiling, pitch)) for pitch in pitches),
        workspace.reserve(blocks.planes * _plane(tiling, blocks, 0)),
    )
    views = (*product.weight.view(), *product.source.view(), *product.result.view())
    weights = chunks if blocks.count > 1 else 0
    units = weights + blocks.count * (-(-depth // loaded) + chunks)
    places = (product.source.place, product.weight.place, product.result.place)
    return Stage(
        kind=kind,
        units=convolution.groups * units,
        parameters=(*places, *convolution.encode(), *numbers, *views),
    )


def plan_winograd_weight(kind: int, product: Correlation, flag: int, workspace: Workspace) -> Stage:
    """The stage of a weight's gradient, whose product is GATHER with X as source, Y as result.

    Arguments are as for plan_winograd.
    """
    convolution = product.convolution
    depth, width = product.result_channels, product.source_channels
    tiling = Tiling.of(convolution, product.result_size)
    blocks = TileBlocks.of(tiling, _most_tiles(convolution, tiling.points, depth + width))
    tiles, columns = blocks.tiles, _whole(width, TILE_COLUMNS)
    per_channel = (tiling.points * columns, tiling.points * columns * tiles)
    chunk = _chunk(depth, per_channel, step=TILE_ROWS)
    chunks = -(-depth // chunk)
    loaded = max(1, _UNIT_TILES // (tiles * LANES)) * LANES
    rows = _whole(chunk if blocks.count == 1 else depth, TILE_ROWS)
    pitches = (_whole(depth, LANES) * tiles, columns * tiles, rows * columns)
    numbers = (
        *(convolution.groups, product.direction),
        *(product.result.number_format, product.source.number_format),
        product.weight.number_format,
        *(_channels(product.result), _channels(product.source), 0),
        *(tiling.points, *tiling.results, tiling.down, tiling.across),
        *(blocks.batch, blocks.rows, blocks.row_blocks),
        *(blocks.count, tiles, loaded, 0, chunk, chunks),
        *(pitch + PITCH_GAP for pitch in pitches),
        flag,
        workspace.reserve(2 * tiles + LANES),
        workspace.reserve(_line(product, tiling, blocks, width + LANES)),
        workspace.reserve(LANES * blocks.planes * _plane(tiling, blocks, 1)),
        *(workspace.reserve(_planes(tiling, pitch)) for pitch in pitches),
        0,
    )
    views = (*product.result.view(), *product.source.view(), *product.weight.view())
    loads = -(-depth // loaded) + -(-width // loaded)
    places = (product.source.place, product.weight.place, product.result.place)
    return Stage(
        kind=kind,
        units=convolution.groups * blocks.count * (loads + chunks),
        parameters=(*places, *convolution.encode(), *numbers, *views),
    )


def _row_products(convolution: Convolution, channels: int) -> int:
    """Multiply-adds of the least unit of a product with so many channels: of a row of tiles."""
    sizes = convolution.input_size, convolution.output_size
    tilings = [Tiling.of(convolution, size) for size in sizes]
    tiles = max(tiling.phases * tiling.across for tiling in tilings)
    return tilings[0].points * LANES * channels * tiles


def _most_tiles(convolution: Convolution, points: int, channels: int) -> int:
    """Tiles of a block, of which so many channels are kept at every point.

    The more kernels there are, the more it costs to go through them for every block.
    """
    kernels = points * convolution.input_channels * convolution.output_channels
    values = min(max(_LEAST_VALUES, 2 * kernels), _MOST_VALUES)
    return max(_LEAST_TILES, values // (points * channels))


def _kernels(product: Correlation, chunk: int) -> int:
    """Kernels that are loaded at a time."""
    return chunk + LANES if product.direction == SCATTER else (LANES + 1) * LINE_DEPTH


def _whole(count: int, step: int) -> int:
    """The next multiple."""
    return -(-count // step) * step


def _chunk(channels: int, per_channel: tuple[int, int], *, step: int) -> int:
    """Channels of a unit, a multiple of the step, so that all units are about as large.

    Args:
        channels: Of the result's rows.
        per_channel: Values of the total of one, and its multiply-adds.
        step: Channels that are computed together.
    """
    values, products = per_channel
    most = min(_UNIT_PRODUCTS // products, _TOTAL_VALUES // values)
    chunks = -(-channels // max(step, most // step * step))
    return _whole(-(-channels // chunks), step)


def _planes(tiling: Tiling, pitch: int) -> int:
    """Values of a side or a total at all points, with the gaps between them."""
    return tiling.points * (pitch + PITCH_GAP) - PITCH_GAP


def _plane(tiling: Tiling, blocks: TileBlocks, halo: int) -> int:
    """Values of a plane of a block, with what its kernels need beyond it if halo is 1."""
    tiles = zip((blocks.rows, blocks.across), tiling.results, tiling.kernel, strict=True)
    return prod(count * results + halo * (taps - 1) for count, results, taps in tiles)


def _rows(size: Triple, tiling: Tiling, blocks: TileBlocks, halo: int) -> int:
    """Values of those rows of an image that a block's planes hold."""
    rows = blocks.rows * tiling.results[0] + halo * (tiling.kernel[0] - 1)
    return min(size[1], rows * tiling.dilation[0]) * size[2]


def _line(product: Correlation, tiling: Tiling, blocks: TileBlocks, kernels: int) -> int:
    """Values that are loaded or stored at a time: of the images, or so many kernels."""
    return max(
        _rows(product.source_size, tiling, blocks, 1),
        _rows(product.result_size, tiling, blocks, 0),
        kernels * product.convolution.taps,
    )


def _channels(operand: Operand) -> int:
    return prod(size for size, _ in operand.parts[0])
