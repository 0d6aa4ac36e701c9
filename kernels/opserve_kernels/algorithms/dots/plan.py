"""Plans of the gradient of the weight as dot products: chunks, units and workspace."""

from math import prod

from opserve_kernels.algorithms.correlation.plan import (
    Correlation,
    ResultBlocks,
    describe,
    source_line,
    steps_of,
)
from opserve_kernels.algorithms.dots.layout import DotsStage
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS, whole_rows
from opserve_kernels.convolution import SPATIAL_RANK
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

CHUNK_PIXELS = 1024
"""Positions that are summed in registers at a time."""

_DOT_COLUMNS = 3  # opserve_kernels.algorithms.codegen.micro_kernels.DOT_COLUMNS
_UNIT_PRODUCTS = 50_000_000  # multiply-adds of a unit, about a millisecond
_PITCH_STEP = 4 * LANES  # an odd multiple of it, so that rows do not share a set of the cache


def plan_dots(
    kind: int, product: Correlation, gradient: int, flag: int, workspace: Workspace
) -> Stage:
    """The stage of a gradient of the weight.

    Args:
        kind: The stage's number.
        product: GATHER, with X as source, the gradient as weight and Y as result.
        gradient: Place in the workspace of groups, output channels, input channels and taps; -1 for
            the gradient's tensor.
        flag: Place in the workspace of a value that is 0 afterwards if every value was finite.
        workspace: Provides the parts that the stage needs.
    """
    stage = _describe(product, gradient, flag, workspace)
    groups = stage.product.groups
    block_units = 1 + stage.chunks * stage.chunk_units
    panels = groups * -(-product.result_channels // TILE_ROWS)
    return Stage(
        kind=kind,
        units=1 + groups * stage.product.blocks * block_units + panels,
        parameters=(*product.places, *encode(stage)),
    )


def _describe(product: Correlation, gradient: int, flag: int, workspace: Workspace) -> DotsStage:
    # Units of nearly equal work: columns are divided, since each reads all rows of left.
    convolution, blocks = product.convolution, blocks_of(product)
    pixels = blocks.batch * prod(blocks.extent)
    # Chunks of nearly equal length, in whole vectors. Sums leave the registers once a chunk.
    chunks = max(1, round(pixels / CHUNK_PIXELS))
    chunk = _round_up(-(-pixels // chunks), LANES)
    chunks = -(-pixels // chunk)
    # An odd number of steps: the rows that the micro-kernel reads together are in different sets.
    pitch = (_round_up(chunks * chunk, _PITCH_STEP) // _PITCH_STEP | 1) * _PITCH_STEP
    rows, columns = _round_up(product.result_channels, TILE_ROWS), convolution.column_rows
    unit_columns = max(1, _UNIT_PRODUCTS // (rows * chunk * _DOT_COLUMNS)) * _DOT_COLUMNS
    copy = convolution.input_channels * product.source_phases * pixels
    table = workspace.reserve(2 + 2 * convolution.taps + columns)
    return DotsStage(
        left=workspace.reserve(whole_rows(product.result_channels) * pitch),
        product=describe(
            product,
            blocks,
            flags=flag,
            table=table,
            line=workspace.reserve(_line(product, blocks)),
            source=workspace.reserve(copy + TILE_COLUMNS),
        ),
        total=workspace.reserve(convolution.groups * rows * columns),
        chunk_pixels=chunk,
        chunks=chunks,
        unit_columns=unit_columns,
        chunk_units=-(-columns // unit_columns),
        left_pitch=pitch,
        gradient=gradient,
    )


def blocks_of(product: Correlation) -> ResultBlocks:
    """Blocks for chunks of positions, whose rows share padding."""
    return ResultBlocks.of(product, least_pixels=CHUNK_PIXELS).with_shared_padding(product)


def _line(product: Correlation, blocks: ResultBlocks) -> int:
    """Values of the line: of a panel of sums, of the source, or of the left operand."""
    # The left operand needs the line only if rows are spread out and the tensor is not plain.
    inner = range(blocks.axis + 1, SPATIAL_RANK)
    is_plain = steps_of(product.result, product.result_size)[0] > 0
    is_spread = any(blocks.extent[axis] != blocks.rows[axis] for axis in inner)
    return max(
        TILE_ROWS * product.convolution.column_rows,
        source_line(product, blocks),
        prod(blocks.rows) if is_spread and not is_plain else 0,
    )


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step
