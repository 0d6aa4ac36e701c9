"""The packed and flat algorithms: a correlation as products of panels, without a matrix of columns.

    weight         ->  panels of channels (weight_panels), once for the call
    source, block  ->  padded copy (blocks, padded), split into phases
    copy           ->  panels of pixels (panels), DEPTH_BLOCK taps and channels at a time
    panels         ->  totals (totals) of a group of lines  ->  the result's view

A source that needs no padding, no phases and no conversion is not copied: panels are filled from
where it lies. A result without phases is one line: its positions are counted over rows and entries.

Units: the tables; the weight; then for every block of every group the padded copy, and after it
some steps at a time of each group of lines; the last steps of a group also store it.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.blocks import block_of, load_source, rows_of, triple
from opserve_kernels.algorithms.host import TILE_ROWS
from opserve_kernels.algorithms.product import (
    ALGORITHM,
    EXTENT,
    FLAGS,
    FLAT,
    GROUP_LINES,
    GROUP_WIDTH,
    GROUPS,
    GROUPS_OF_LINES,
    LINE_PARTS,
    OUTPUT_CHANNELS,
    SOURCE_IN_PLACE,
    STEP_UNITS,
    UNIT_STEPS,
)
from opserve_kernels.algorithms.taps import fill_tables
from opserve_kernels.algorithms.totals import (
    add_step,
    is_one_line,
    step_of,
    store_line,
    store_totals,
)
from opserve_kernels.algorithms.weight_panels import pack_weights
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]
Pair = tuple[int, int]


@compiled("UniTuple(UniTuple(int64, 2), 3)(int64[::1], int64, UniTuple(int64, 3), int64)")
def _group_of(stage: Integers, entries: int, rows: Triple, part: int) -> tuple[Pair, Pair, Pair]:
    """Lines, columns and positions of a group, each the first and the one behind the last."""
    planes = entries
    if is_one_line(stage):
        rows, planes = (1, 1, entries * rows[0] * rows[1] * rows[2]), 1
    grid = triple(stage, EXTENT) if stage[ALGORITHM] == FLAT else rows
    line = part // stage[LINE_PARTS] * stage[GROUP_LINES]
    all_lines = ((planes - 1) * grid[0] + rows[0] - 1) * grid[1] + rows[1]
    last_line = min(line + stage[GROUP_LINES], all_lines)
    column = part % stage[LINE_PARTS] * stage[GROUP_WIDTH]
    last_column = min(column + stage[GROUP_WIDTH], grid[2])
    first = line * grid[2] + column
    last = (last_line - 1) * grid[2] + min(last_column, rows[2])
    return (line, last_line), (column, last_column), (first, last)


@compiled(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], float32[::1], uint16[::1], "
    "int64, int64)"
)
def _run_steps(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    floats: Floats,
    halves: Halves,
    number: int,
    unit: int,
) -> None:
    """Some steps of a group of lines of a block."""
    group, entry, entries, row = block_of(stage, number)
    rows = rows_of(stage, row)
    lines, columns, positions = _group_of(stage, entries, rows, unit // stage[STEP_UNITS])
    if positions[0] >= positions[1]:
        return
    begin = unit % stage[STEP_UNITS] * stage[UNIT_STEPS]
    for step in range(begin, begin + stage[UNIT_STEPS]):
        phase, k = step_of(stage, table, step)
        if phase >= 0:
            add_step(stage, scratch, table, source, group, (phase, k), rows, positions)
    if unit % stage[STEP_UNITS] == stage[STEP_UNITS] - 1:
        block = (group, entry, row)
        if is_one_line(stage):
            store_line(stage, scratch, floats, halves, block, rows, positions)
        else:
            store_totals(stage, scratch, floats, halves, block, rows, lines, columns)


@compiled(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], float32[::1], "
    "uint16[::1], float32[::1], uint16[::1], int64, int64)"
)
def run_packed(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    source_halves: Halves,
    weight: Floats,
    weight_halves: Halves,
    result: Floats,
    result_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; the buffers of the tensors come as float32 and as halves."""
    weight_units = stage[GROUPS] * -(-stage[OUTPUT_CHANNELS] // TILE_ROWS)
    block_units = 1 + stage[GROUPS_OF_LINES] * stage[LINE_PARTS] * stage[STEP_UNITS]
    for unit in range(first, last):
        block = unit - 1 - weight_units
        if unit == 0:
            fill_tables(stage, table)
            scratch[stage[FLAGS]] = np.float32(0)
        elif block < 0:
            pack_weights(stage, scratch, table, weight, weight_halves, unit - 1)
        elif block % block_units == 0:
            if not stage[SOURCE_IN_PLACE]:
                load_source(stage, scratch, source, source_halves, block // block_units)
        else:
            number, inside = block // block_units, block % block_units - 1
            _run_steps(stage, scratch, table, source, result, result_halves, number, inside)
