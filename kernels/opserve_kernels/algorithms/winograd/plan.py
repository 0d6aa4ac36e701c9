"""Plans of Winograd's algorithm: calls that fit, units and workspace."""

from math import prod

from opserve_kernels.algorithms.correlation.layout import SCATTER
from opserve_kernels.algorithms.correlation.plan import Correlation, channels_of
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.winograd.layout import (
    KERNELS,
    LINE_DEPTH,
    MOST_TERMS,
    PANEL_VALUES,
    PITCH_GAP,
    PointPlanes,
    TileGrid,
    WinogradStage,
    WinogradTensor,
)
from opserve_kernels.algorithms.winograd.tiling import TileBlocks, Tiling
from opserve_kernels.convolution import Convolution, Triple
from opserve_kernels.gradients import Operand
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

_LEAST_TILES = TILE_COLUMNS  # tiles of a block, if it has so many
_LEAST_VALUES = 1 << 18  # values of a block's tiles at every point: 1 MiB
_MOST_VALUES = 5 << 20  # the same where there are many kernels: 20 MiB
_TOTAL_VALUES = 1 << 18  # values of a chunk's total: 1 MiB
_UNIT_PRODUCTS = 80_000_000  # multiply-adds of a unit, more than a millisecond
_UNIT_TILES = 25_000  # tiles that a unit transforms, less than a millisecond


def fits(convolution: Convolution) -> bool:
    """Whether a convolution has transforms, and rows of tiles that are not too long."""
    # MOST_TERMS bounds every sum that the transforms' range analysis covers, over channels or
    # pixels.
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
        product: A product of a convolution that fits.
        flag: Place in the workspace of a value that is 0 if the operands suit transforms.
        workspace: Provides the parts that the stage needs.
    """
    stage = _product_stage(product, flag, workspace)
    weights = stage.chunks if stage.grid.blocks > 1 else 0
    loads = -(-product.source_channels // stage.loaded)
    return Stage(
        kind=kind,
        units=stage.groups * (weights + stage.grid.blocks * (loads + stage.chunks)),
        parameters=(*product.places, *encode(stage)),
    )


def plan_winograd_weight(kind: int, product: Correlation, flag: int, workspace: Workspace) -> Stage:
    """The stage of a weight's gradient, whose product is GATHER with X as source, Y as result.

    Arguments are as for plan_winograd.
    """
    stage = _weight_stage(product, flag, workspace)
    sides = product.result_channels, product.source_channels
    loads = sum(-(-channels // stage.loaded) for channels in sides)
    return Stage(
        kind=kind,
        units=stage.groups * stage.grid.blocks * (loads + stage.chunks),
        parameters=(*product.places, *encode(stage)),
    )


def _product_stage(product: Correlation, flag: int, workspace: Workspace) -> WinogradStage:
    convolution = product.convolution
    depth, width = product.source_channels, product.result_channels
    tiling = Tiling.of(convolution, product.result_size)
    blocks = TileBlocks.of(tiling, _most_tiles(convolution, tiling.points, depth))
    # Tiles are the columns of the product: whole panels, whose rest repeats the last tile.
    tiles = _whole(blocks.tiles, TILE_COLUMNS)
    chunk = _chunk(width, (tiling.points * tiles, tiling.points * depth * tiles), step=LANES)
    held, left = depth, _whole(width, LANES)
    # With one block, chunks transform their weight themselves, as deep as a panel of the right side
    # is. More blocks share the weight, which is transformed whole.
    if blocks.count == 1:
        held, left = min(depth, PANEL_VALUES // TILE_COLUMNS), chunk
    return WinogradStage(
        geometry=convolution.geometry,
        groups=convolution.groups,
        direction=product.direction,
        left_tensor=_tensor(product.weight),
        right_tensor=_tensor(product.source),
        result_tensor=_tensor(product.result),
        grid=_grid(tiling, blocks, tiles),
        loaded=max(1, min(depth, _UNIT_TILES // tiles)),
        left_depth=held,
        chunk_channels=chunk,
        chunks=-(-width // chunk),
        flag=flag,
        table=workspace.reserve(2 * tiles + LANES),
        line=workspace.reserve(_line(product, tiling, blocks, _kernels(product, chunk))),
        copies=workspace.reserve(blocks.planes * _plane(tiling, blocks, 1)),
        left=_points(tiling, left * held, workspace),
        right=_points(tiling, depth * tiles, workspace),
        total=_points(tiling, _whole(chunk, TILE_ROWS) * tiles, workspace),
        planes=workspace.reserve(blocks.planes * _plane(tiling, blocks, 0)),
    )


def _weight_stage(product: Correlation, flag: int, workspace: Workspace) -> WinogradStage:
    convolution = product.convolution
    depth, width = product.result_channels, product.source_channels
    tiling = Tiling.of(convolution, product.result_size)
    blocks = TileBlocks.of(tiling, _most_tiles(convolution, tiling.points, depth + width))
    # Tiles are the depth here, so they need no rounding; the image's channels are the columns.
    tiles, columns = blocks.tiles, _whole(width, TILE_COLUMNS)
    per_channel = (tiling.points * columns, tiling.points * columns * tiles)
    chunk = _chunk(depth, per_channel, step=TILE_ROWS)
    rows = _whole(chunk if blocks.count == 1 else depth, TILE_ROWS)
    return WinogradStage(
        geometry=convolution.geometry,
        groups=convolution.groups,
        direction=product.direction,
        left_tensor=_tensor(product.result),
        right_tensor=_tensor(product.source),
        result_tensor=_tensor(product.weight),
        grid=_grid(tiling, blocks, tiles),
        loaded=max(1, _UNIT_TILES // (tiles * LANES)) * LANES,
        left_depth=0,
        chunk_channels=chunk,
        chunks=-(-depth // chunk),
        flag=flag,
        table=workspace.reserve(2 * tiles + LANES),
        line=workspace.reserve(_line(product, tiling, blocks, width + LANES)),
        copies=workspace.reserve(LANES * blocks.planes * _plane(tiling, blocks, 1)),
        left=_points(tiling, _whole(depth, LANES) * tiles, workspace),
        right=_points(tiling, columns * tiles, workspace),
        total=_points(tiling, rows * columns, workspace),
        planes=0,
    )


def _tensor(operand: Operand) -> WinogradTensor:
    return WinogradTensor(
        channels=channels_of(operand), number_format=operand.number_format, layout=operand.view()
    )


def _grid(tiling: Tiling, blocks: TileBlocks, tiles: int) -> TileGrid:
    return TileGrid(
        points=tiling.points,
        results=tiling.results,
        tiles_down=tiling.down,
        tiles_across=tiling.across,
        block_batch=blocks.batch,
        block_rows=blocks.rows,
        row_blocks=blocks.row_blocks,
        blocks=blocks.count,
        tiles=tiles,
    )


def _points(tiling: Tiling, values: int, workspace: Workspace) -> PointPlanes:
    """Reserves so many values at every point, with the gaps between them."""
    # No gap behind the last point.
    pitch = values + PITCH_GAP
    return PointPlanes(place=workspace.reserve(tiling.points * pitch - PITCH_GAP), pitch=pitch)


def _row_products(convolution: Convolution, channels: int) -> int:
    """Multiply-adds of the least unit of a product with so many channels: of a row of tiles."""
    # Rows of tiles are the least blocks; a longer row would make a unit too long to interrupt.
    sizes = convolution.input_size, convolution.output_size
    tilings = [Tiling.of(convolution, size) for size in sizes]
    tiles = max(tiling.phases * tiling.across for tiling in tilings)
    return tilings[0].points * LANES * channels * tiles


def _most_tiles(convolution: Convolution, points: int, channels: int) -> int:
    """Tiles of a block, if this many channels are kept at every point.

    Every block passes all kernels once, so blocks are larger where there are more kernels.
    """
    # At least 1 MiB of tiles, twice the size of the kernels if that is more, 20 MiB at most.
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
    """Channels of a unit, a multiple of the step, so that units are of nearly equal size.

    Args:
        channels: Rows of the result.
        per_channel: Values of a channel's total, and its multiply-adds.
        step: Channels that are computed together.
    """
    # Chunks are evened out: the last one is not much smaller than the others.
    values, products = per_channel
    most = min(_UNIT_PRODUCTS // products, _TOTAL_VALUES // values)
    chunks = -(-channels // max(step, most // step * step))
    return _whole(-(-channels // chunks), step)


def _plane(tiling: Tiling, blocks: TileBlocks, halo: int) -> int:
    """Values of a plane of a block; with halo 1, including those that its kernels need."""
    tiles = zip((blocks.rows, blocks.across), tiling.results, tiling.kernel, strict=True)
    return prod(count * results + halo * (taps - 1) for count, results, taps in tiles)


def _rows(size: Triple, tiling: Tiling, blocks: TileBlocks, halo: int) -> int:
    """Values of the rows of an image that a block's planes hold."""
    rows = blocks.rows * tiling.results[0] + halo * (tiling.kernel[0] - 1)
    return min(size[1], rows * tiling.dilation[0]) * size[2]


def _line(product: Correlation, tiling: Tiling, blocks: TileBlocks, kernels: int) -> int:
    """Values that are loaded or stored at a time: of the images, or of so many kernels."""
    return max(
        _rows(product.source_size, tiling, blocks, 1),
        _rows(product.result_size, tiling, blocks, 0),
        kernels * product.convolution.taps,
    )
