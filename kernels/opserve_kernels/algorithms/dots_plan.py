"""Plans of the gradient of the weight as dot products: chunks, turns, units and workspace."""

from math import prod

from opserve_kernels.algorithms.correlation import (
    Blocks,
    Correlation,
    encode,
    source_rows,
    takes_source_whole,
)
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.product import FLAT
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

_CHUNK_PIXELS = 1024  # positions that are summed in registers
_TURN_ELEMENTS = 1 << 15  # of the columns that are gathered at a time, 128 KiB
_DOT_COLUMNS = 3  # opserve_kernels.algorithms.micro_kernels.DOT_COLUMNS
_UNIT_PRODUCTS = 50_000_000  # multiply-adds of a unit, about a millisecond
_PITCH_STEP = 4 * LANES  # rows an odd number of them apart do not share a set of the cache


def plan_dots(
    kind: int, product: Correlation, algorithm: int, gradient: int, workspace: Workspace
) -> Stage:
    """The stage of a gradient of the weight.

    Args:
        kind: The stage's number.
        product: GATHER, with X as source, the gradient as weight and Y as result.
        algorithm: PACKED or FLAT.
        gradient: Place in the workspace of groups, output channels, input channels and taps; -1
            puts them into the gradient's tensor.
        workspace: Gets what is needed.
    """
    blocks = Blocks.of(product, least_pixels=_CHUNK_PIXELS)
    grid = blocks.extent if algorithm == FLAT else blocks.rows
    pixels = blocks.batch * prod(grid)
    chunks = max(1, round(pixels / _CHUNK_PIXELS))
    chunk = _round_up(-(-pixels // chunks), LANES)
    chunks = -(-pixels // chunk)
    pitch = (_round_up(chunks * chunk, _PITCH_STEP) // _PITCH_STEP | 1) * _PITCH_STEP
    convolution, channels = product.convolution, product.result_channels
    rows = _round_up(channels, TILE_ROWS)
    columns = min(convolution.column_rows, max(1, _TURN_ELEMENTS // chunk // _DOT_COLUMNS) * 3)
    turns = -(-convolution.column_rows // columns)
    unit_turns = min(turns, max(1, _UNIT_PRODUCTS // (columns * rows * chunk)))
    numbers = (
        *(algorithm, columns, chunk, chunks, 0),
        *(pitch, gradient, unit_turns, -(-turns // unit_turns)),
    )
    gathers = algorithm != FLAT
    copy = convolution.input_channels * product.source_phases * blocks.batch * prod(blocks.extent)
    tables = 2 + 2 * convolution.taps + convolution.column_rows
    places = (
        workspace.reserve(1),
        workspace.reserve(tables + (columns if gathers else 0)),
        workspace.reserve(rows * pitch),
        workspace.reserve(_line(product, blocks, algorithm)),
        workspace.reserve(copy + TILE_COLUMNS),
        workspace.reserve(columns * chunk if gathers else 0),
        workspace.reserve(convolution.groups * rows * convolution.column_rows),
    )
    panels = convolution.groups * rows // TILE_ROWS
    block_units = 1 + chunks * -(-turns // unit_turns)
    return Stage(
        kind=kind,
        units=1 + convolution.groups * blocks.count * block_units + panels,
        parameters=encode(product, blocks, numbers, places),
    )


def _line(product: Correlation, blocks: Blocks, algorithm: int) -> int:
    """Values that are at hand at a time: of a panel of sums, the source or the left operand."""
    return max(
        TILE_ROWS * product.convolution.column_rows,
        0 if takes_source_whole(product, blocks) else source_rows(product, blocks),
        prod(blocks.rows) if algorithm == FLAT else 0,
    )


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step
