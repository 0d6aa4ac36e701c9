"""The gradient of the weight as dot products over positions.

    W[k, (c, tap)] = sum over entries and positions of Y[k, position] * X[c, position under tap]

    Y, block    ->  left (output channels, positions of the block)
    X, block    ->  right: padded copy (blocks, padded), split into phases
    left, right ->  sums, panels (group, output channels / TILE_ROWS, (c, tap), TILE_ROWS)
    sums        ->  the gradient, row by row

The left operand is spread out like the padded copy, with PADDING between its rows, so that every
column (c, tap) is read from the copy where it lies.

Units: the tables and zero sums; then for every block of every group its two operands, and after
them some columns of each chunk of positions; at last each panel of sums.

An operand that is not finite raises the flag, for it could meet padding: what is left of the units
does nothing, and a stage of outer products computes the gradient.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.micro_kernels import DOT_COLUMNS, add_dots
from opserve_kernels.algorithms.codegen.transfers import (
    all_finite,
    copy_strided,
    fill,
    separate_rows,
)
from opserve_kernels.algorithms.correlation.blocks import (
    block_of,
    copy_entries,
    load_source,
    result_size,
    rows_of,
    triple,
)
from opserve_kernels.algorithms.correlation.layout import (
    BATCH,
    BLOCK_AXIS,
    BLOCKS,
    CHANNEL_PITCH,
    CHUNK_PIXELS,
    CHUNK_UNITS,
    CHUNKS,
    EXTENT,
    FLAGS,
    GRADIENT,
    GROUPS,
    IMAGE_CHANNELS,
    LEFT,
    LEFT_PITCH,
    LINE,
    OUTPUT_CHANNELS,
    RESULT_CHANNEL_STEP,
    RESULT_CHANNELS,
    RESULT_ENTRY_STEP,
    RESULT_FORMAT,
    RESULT_VIEW,
    SOURCE,
    TAPS,
    TOTAL,
    UNIT_COLUMNS,
    WEIGHT_FORMAT,
    WEIGHT_VIEW,
)
from opserve_kernels.algorithms.correlation.padded import load_padded
from opserve_kernels.algorithms.correlation.taps import fill_tables, offsets_place
from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load, store
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]


@compiled("int64(int64[::1])")
def _columns(stage: Integers) -> int:
    """Entries of a row of the gradient."""
    return int(stage[IMAGE_CHANNELS] * stage[TAPS])


@compiled("int64(int64[::1])")
def _panels(stage: Integers) -> int:
    """Panels of sums of a group."""
    return -(-int(stage[OUTPUT_CHANNELS]) // TILE_ROWS)


@compiled("int64(int64[::1])")
def _left_rows(stage: Integers) -> int:
    """Rows of the left operand that the micro-kernels read: opserve_kernels.algorithms.host."""
    whole, rest = stage[OUTPUT_CHANNELS] // TILE_ROWS, stage[OUTPUT_CHANNELS] % TILE_ROWS
    rows = TILE_ROWS if rest else 0
    while rows > TILE_ROWS // 4 and rows // 2 >= rest:
        rows //= 2
    return int(whole * TILE_ROWS + rows)


@compiled("void(int64[::1], float32[::1], int32[::1])")
def _begin(stage: Integers, scratch: Floats, table: Offsets) -> None:
    fill_tables(stage, table)
    count = stage[GROUPS] * _panels(stage) * _columns(stage) * TILE_ROWS
    fill(scratch, stage[TOTAL], count, np.float32(0))
    scratch[stage[FLAGS]] = np.float32(0)


@compiled("UniTuple(int64, 3)(UniTuple(int64, 3), UniTuple(int64, 3), int64, int64)")
def _end_of(size: Triple, rows: Triple, row: int, axis: int) -> Triple:
    """The positions behind a block that begins with `row` along an axis."""
    return (
        min(size[0], row + rows[0]) if axis == 0 else size[0],
        min(size[1], row + rows[1]) if axis == 1 else size[1],
        min(size[2], row + rows[2]) if axis == WIDTH else size[2],
    )


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, int64, UniTuple(int64, 3))"
)
def _load_rows(  # noqa: PLR0913, PLR0917  # arrays, places and a block
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    first: int,
    place: int,
    rows: Triple,
) -> None:
    """Rows of a channel of an entry, from index `first` on, without anything between them."""
    count = rows[0] * rows[1] * rows[2]
    values = scratch[place : place + count]
    load(floats, halves, stage[RESULT_VIEW:], stage[RESULT_FORMAT], first, values)
    extent = triple(stage, EXTENT)
    fill(scratch, place + count, extent[0] * extent[1] * extent[2] - count, PADDING)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, int64, int64, "
    "UniTuple(int64, 3))"
)
def _spread_rows(  # noqa: PLR0913, PLR0917  # arrays, places and a block
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    first: int,
    place: int,
    row: int,
    rows: Triple,
) -> None:
    """Rows from `row` on of a channel of an entry, index `first`, with padding between them."""
    axis = stage[BLOCK_AXIS]
    load_padded(
        scratch,
        floats,
        halves,
        stage[RESULT_VIEW:],
        stage[RESULT_FORMAT],
        first,
        axis,
        _end_of(result_size(stage), rows, row, axis),
        (1, 1, 1),
        (row if axis == 0 else 0, row if axis == 1 else 0, row if axis == WIDTH else 0),
        triple(stage, EXTENT),
        stage[LINE],
        place,
        0,
    )


@compiled("void(int64[::1], float32[::1], float32[::1], int64)")
def _copy_left(stage: Integers, scratch: Floats, floats: Floats, number: int) -> None:
    """The left operand of a block as it lies in its tensor, with padding between its rows."""
    (group, entry, entries, row), axis = block_of(stage, number), stage[BLOCK_AXIS]
    first, pitch = group * stage[OUTPUT_CHANNELS], stage[LEFT_PITCH]
    step, entry_step = stage[RESULT_CHANNEL_STEP], stage[RESULT_ENTRY_STEP]
    exist = min(stage[OUTPUT_CHANNELS], max(0, stage[RESULT_CHANNELS] - first))
    copy_entries(
        floats,
        scratch,
        (exist, entries),
        (stage[RESULT_VIEW + 1] + first * step + entry * entry_step, step, entry_step),
        (stage[LEFT], pitch, 0),
        _end_of(result_size(stage), rows_of(stage, row), row, axis),
        (1, 1, 1),
        (row if axis == 0 else 0, row if axis == 1 else 0, row if axis == WIDTH else 0),
        triple(stage, EXTENT),
    )
    rest = (_left_rows(stage) - exist) * pitch
    fill(scratch, stage[LEFT] + exist * pitch, rest, PADDING)


@compiled("void(int64[::1], float32[::1], float32[::1], uint16[::1], int64)")
def _convert_left(
    stage: Integers, scratch: Floats, floats: Floats, halves: Halves, number: int
) -> None:
    """The same, of any dtype and strides; rows beyond its channels are padding too."""
    group, entry, entries, row = block_of(stage, number)
    size, axis, rows = result_size(stage), stage[BLOCK_AXIS], rows_of(stage, row)
    extent = triple(stage, EXTENT)
    positions, length = size[0] * size[1] * size[2], extent[0] * extent[1] * extent[2]
    is_whole = (axis >= 1 or extent[1] == rows[1]) and (axis == WIDTH or extent[2] == rows[2])
    before = row * rows[1] * rows[2] if axis == 0 else (row * rows[2] if axis == 1 else row)
    for m in range(_left_rows(stage)):
        channel = group * stage[OUTPUT_CHANNELS] + m
        place = stage[LEFT] + m * stage[LEFT_PITCH]
        done = 0
        if m < stage[OUTPUT_CHANNELS] and channel < stage[RESULT_CHANNELS]:
            for i in range(entries):
                first = (channel * stage[BATCH] + entry + i) * positions
                target = place + i * length
                if is_whole:
                    _load_rows(stage, scratch, floats, halves, first + before, target, rows)
                else:
                    _spread_rows(stage, scratch, floats, halves, first, target, row, rows)
            done = entries * length
        fill(scratch, place + done, stage[LEFT_PITCH] - done, PADDING)


@compiled("void(int64[::1], float32[::1], int32[::1])")
def _note_finite(stage: Integers, scratch: Floats, table: Offsets) -> None:
    """Raises the flag if a value of a block is not finite."""
    finite = all_finite(table, stage[LEFT], _left_rows(stage) * stage[LEFT_PITCH])
    count = stage[IMAGE_CHANNELS] * stage[CHANNEL_PITCH]
    if not (finite and all_finite(table, stage[SOURCE], count)):
        scratch[stage[FLAGS]] = np.float32(1)


@compiled("void(int64[::1], float32[::1], int32[::1], UniTuple(int64, 4), int64, int64)")
def _add_columns(  # arrays, places and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    operands: tuple[int, int, int, int],
    sums: int,
    columns: int,
) -> None:
    """Adds the dots of some columns with all rows; operands are count, left, right, offsets."""
    count, left, right, offsets = operands
    for m in range(0, stage[OUTPUT_CHANNELS], TILE_ROWS):
        rows = min(TILE_ROWS, stage[OUTPUT_CHANNELS] - m)
        total = sums + m * _columns(stage)
        start = left + m * stage[LEFT_PITCH]
        for column in range(0, columns, DOT_COLUMNS):
            few = min(DOT_COLUMNS, columns - column)
            place = total + column * TILE_ROWS
            numbers = (count, start, stage[LEFT_PITCH], right, offsets + column, place)
            add_dots(scratch, table, numbers, rows, few)


@compiled("void(int64[::1], float32[::1], int32[::1], int64, int64)")
def _add_unit(stage: Integers, scratch: Floats, table: Offsets, number: int, unit: int) -> None:
    """Some columns of a chunk of a block."""
    group, _, entries, row = block_of(stage, number)
    rows, extent = rows_of(stage, row), triple(stage, EXTENT)
    corner = (rows[0] - 1, rows[1] - 1, rows[2] - 1)
    planes = (entries - 1) * extent[0] + corner[0]
    end_of_rows = (planes * extent[1] + corner[1]) * extent[2] + rows[2]
    first = unit // stage[CHUNK_UNITS] * stage[CHUNK_PIXELS]
    last = min(first + stage[CHUNK_PIXELS], end_of_rows)
    if first >= last:
        return
    count, left = -(-(last - first) // LANES) * LANES, stage[LEFT] + first
    begin = unit % stage[CHUNK_UNITS] * stage[UNIT_COLUMNS]
    end = min(begin + stage[UNIT_COLUMNS], _columns(stage))
    sums = group * _panels(stage) * _columns(stage) + begin
    offsets = offsets_place(stage, table, 0) + begin
    operands = (count, left, stage[SOURCE] + first, offsets)
    _add_columns(stage, scratch, table, operands, stage[TOTAL] + sums * TILE_ROWS, end - begin)


@compiled("void(int64[::1], float32[::1], float32[::1], uint16[::1], int64)")
def _store_panel(
    stage: Integers, scratch: Floats, floats: Floats, halves: Halves, number: int
) -> None:
    """A panel of sums as rows of the gradient."""
    group, panel, length = number // _panels(stage), number % _panels(stage), _columns(stage)
    separate_rows(scratch, stage[TOTAL] + number * length * TILE_ROWS, stage[LINE], length, length)
    first = panel * TILE_ROWS
    count = min(TILE_ROWS, stage[OUTPUT_CHANNELS] - first) * length
    row = (group * stage[OUTPUT_CHANNELS] + first) * length
    if stage[GRADIENT] >= 0:
        copy_strided(scratch, stage[LINE], 1, stage[GRADIENT] + row, count)
    else:
        values = scratch[stage[LINE] : stage[LINE] + count]
        store(values, stage[WEIGHT_FORMAT], stage[WEIGHT_VIEW:], row, floats, halves)


@compiled(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], float32[::1], "
    "uint16[::1], float32[::1], uint16[::1], int64, int64)"
)
def run_dots(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    source_halves: Halves,
    gradient: Floats,
    gradient_halves: Halves,
    left: Floats,
    left_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; the buffers of X, W and Y come as float32 and as halves."""
    block_units = 1 + stage[CHUNKS] * stage[CHUNK_UNITS]
    blocks = stage[GROUPS] * stage[BLOCKS] * block_units
    for unit in range(first, last):
        number, inside = (unit - 1) // block_units, (unit - 1) % block_units
        if unit == 0:
            _begin(stage, scratch, table)
        elif scratch[stage[FLAGS]] != 0:
            return
        elif unit > blocks:
            panel = unit - 1 - blocks
            _store_panel(stage, scratch, gradient, gradient_halves, panel)
        elif inside == 0:
            load_source(stage, scratch, source, source_halves, number)
            if stage[RESULT_CHANNEL_STEP]:
                _copy_left(stage, scratch, left, number)
            else:
                _convert_left(stage, scratch, left, left_halves, number)
            _note_finite(stage, scratch, table)
        else:
            _add_unit(stage, scratch, table, number, inside - 1)
