"""The gradient of the weight as dot products over positions.

    W[k, (c, tap)] = sum over entries and positions of Y[k, position] * X[c, position under tap]

    Y, block    ->  left (output channels, positions of the block)
    X, block    ->  right: padded copy (blocks, padded), split into phases
    left, right ->  sums, panels (group, output channels / TILE_ROWS, (c, tap), TILE_ROWS)
    sums        ->  the gradient, row by row

The left operand is laid out like the padded copy, with PADDING between its rows, so that every
column (c, tap) is read directly from the copy.

The first unit fills the tables and sets the sums to zero. For every block of every group, one unit
loads its two operands; the units behind it multiply some columns of each chunk of positions. The
last units store one panel of sums each.

An operand that is not finite raises the flag, because it could meet padding. The remaining units
then do nothing, and a stage of outer products computes the gradient.
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
    extent_of,
    load_source,
    result_size,
    rows_of,
)
from opserve_kernels.algorithms.correlation.padded import load_padded
from opserve_kernels.algorithms.correlation.taps import fill_tables, offsets_place
from opserve_kernels.algorithms.dots.layout import DotsStage
from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load, store
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Triple = tuple[int, int, int]


@compiled()
def _columns(stage: DotsStage) -> int:
    """Entries of a row of the gradient."""
    shape = stage.product.geometry
    return shape.input_channels * shape.taps


@compiled()
def _panels(stage: DotsStage) -> int:
    """Panels of sums of a group."""
    return -(-stage.product.geometry.output_channels // TILE_ROWS)


@compiled()
def _left_rows(stage: DotsStage) -> int:
    """Rows of the left operand that the micro-kernels read, as host.whole_rows counts them."""
    shape = stage.product.geometry
    whole, rest = shape.output_channels // TILE_ROWS, shape.output_channels % TILE_ROWS
    rows = TILE_ROWS if rest else 0
    while rows > TILE_ROWS // 4 and rows // 2 >= rest:
        rows //= 2
    return whole * TILE_ROWS + rows


@compiled()
def _begin(stage: DotsStage, scratch: Floats, table: Offsets) -> None:
    # Sums of all groups are zero before the first block adds to them.
    product = stage.product
    fill_tables(product, table)
    count = product.groups * _panels(stage) * _columns(stage) * TILE_ROWS
    fill(scratch, stage.total, count, np.float32(0))
    scratch[product.flags] = np.float32(0)


@compiled("UniTuple(int64, 3)(UniTuple(int64, 3), UniTuple(int64, 3), int64, int64)")
def _end_of(size: Triple, rows: Triple, row: int, axis: int) -> Triple:
    """The positions behind a block that begins with `row` along an axis."""
    return (
        min(size[0], row + rows[0]) if axis == 0 else size[0],
        min(size[1], row + rows[1]) if axis == 1 else size[1],
        min(size[2], row + rows[2]) if axis == WIDTH else size[2],
    )


@compiled()
def _load_rows(  # noqa: PLR0913, PLR0917  # arrays, places and a block
    stage: DotsStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    first: int,
    place: int,
    rows: Triple,
) -> None:
    """Loads rows of a channel of an entry, from index `first` on, without padding between them."""
    product = stage.product
    # Without padding between rows, an entry's rows of a channel are one run in the copy.
    image = product.result_image
    count = rows[0] * rows[1] * rows[2]
    values = scratch[place : place + count]
    load(floats, halves, image.layout, image.number_format, first, values)
    extent = extent_of(product)
    fill(scratch, place + count, extent[0] * extent[1] * extent[2] - count, PADDING)


@compiled()
def _spread_rows(  # noqa: PLR0913, PLR0917  # arrays, places and a block
    stage: DotsStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    first: int,
    place: int,
    row: int,
    rows: Triple,
) -> None:
    """Loads rows from `row` on of a channel and entry (index `first`), with padding between."""
    product = stage.product
    image = product.result_image
    axis = product.block_axis
    load_padded(
        scratch,
        floats,
        halves,
        image.layout,
        image.number_format,
        first,
        axis,
        _end_of(result_size(product), rows, row, axis),
        (1, 1, 1),
        (row if axis == 0 else 0, row if axis == 1 else 0, row if axis == WIDTH else 0),
        extent_of(product),
        product.line,
        place,
        0,
    )


@compiled()
def _copy_left(stage: DotsStage, scratch: Floats, floats: Floats, number: int) -> None:
    """Copies the left operand of a block from a plain tensor, with padding between its rows."""
    product = stage.product
    shape = product.geometry
    image = product.result_image
    (group, entry, entries, row), axis = block_of(product, number), product.block_axis
    first, pitch = group * shape.output_channels, stage.left_pitch
    step, entry_step = image.channel_step, image.entry_step
    exist = min(shape.output_channels, max(0, image.channels - first))
    copy_entries(
        floats,
        scratch,
        (exist, entries),
        (image.layout.offset + first * step + entry * entry_step, step, entry_step),
        (stage.left, pitch, 0),
        _end_of(result_size(product), rows_of(product, row), row, axis),
        (1, 1, 1),
        (row if axis == 0 else 0, row if axis == 1 else 0, row if axis == WIDTH else 0),
        extent_of(product),
    )
    # Rows that the micro-kernel reads beyond the channels: padding, so that their dots are zeros.
    rest = (_left_rows(stage) - exist) * pitch
    fill(scratch, stage.left + exist * pitch, rest, PADDING)


@compiled()
def _convert_left(
    stage: DotsStage, scratch: Floats, floats: Floats, halves: Halves, number: int
) -> None:
    """The same for any dtype and strides; rows beyond its channels are padding too."""
    product = stage.product
    shape = product.geometry
    group, entry, entries, row = block_of(product, number)
    size, axis, rows = result_size(product), product.block_axis, rows_of(product, row)
    extent = extent_of(product)
    positions, length = size[0] * size[1] * size[2], extent[0] * extent[1] * extent[2]
    # A copy without padding between its rows is one run: no rows need to be spread.
    is_whole = (axis >= 1 or extent[1] == rows[1]) and (axis == WIDTH or extent[2] == rows[2])
    before = row * rows[1] * rows[2] if axis == 0 else (row * rows[2] if axis == 1 else row)
    for m in range(_left_rows(stage)):
        channel = group * shape.output_channels + m
        place = stage.left + m * stage.left_pitch
        done = 0
        if m < shape.output_channels and channel < product.result_image.channels:
            for i in range(entries):
                first = (channel * shape.batch + entry + i) * positions
                target = place + i * length
                if is_whole:
                    _load_rows(stage, scratch, floats, halves, first + before, target, rows)
                else:
                    _spread_rows(stage, scratch, floats, halves, first, target, row, rows)
            done = entries * length
        fill(scratch, place + done, stage.left_pitch - done, PADDING)


@compiled()
def _note_finite(stage: DotsStage, scratch: Floats, table: Offsets) -> None:
    """Raises the flag if a value of a block is not finite."""
    product = stage.product
    # Checked once a block, on the copies: rounding may have made values infinite.
    finite = all_finite(table, stage.left, _left_rows(stage) * stage.left_pitch)
    count = product.geometry.input_channels * product.channel_pitch
    if not (finite and all_finite(table, product.source, count)):
        scratch[product.flags] = np.float32(1)


@compiled()
def _add_columns(  # arrays, places and integers
    stage: DotsStage,
    scratch: Floats,
    table: Offsets,
    operands: tuple[int, int, int, int],
    sums: int,
    columns: int,
) -> None:
    """Adds the dots of some columns with all rows; operands are count, left, right, offsets."""
    shape = stage.product.geometry
    count, left, right, offsets = operands
    # Left rows are outermost: TILE_ROWS rows of a chunk stay in the cache while all columns of the
    # unit pass.
    for m in range(0, shape.output_channels, TILE_ROWS):
        rows = min(TILE_ROWS, shape.output_channels - m)
        total = sums + m * _columns(stage)
        start = left + m * stage.left_pitch
        for column in range(0, columns, DOT_COLUMNS):
            few = min(DOT_COLUMNS, columns - column)
            place = total + column * TILE_ROWS
            numbers = (count, start, stage.left_pitch, right, offsets + column, place)
            add_dots(scratch, table, numbers, rows, few)


@compiled()
def _add_unit(stage: DotsStage, scratch: Floats, table: Offsets, number: int, unit: int) -> None:
    """Adds some columns of a chunk of a block."""
    product = stage.product
    group, _, entries, row = block_of(product, number)
    # Positions of a chunk are those of the copy, padding included: the left operand has padding
    # there, so the products are zeros.
    rows, extent = rows_of(product, row), extent_of(product)
    # Positions behind the last pixel of the block are padding: the chunk ends there.
    corner = (rows[0] - 1, rows[1] - 1, rows[2] - 1)
    planes = (entries - 1) * extent[0] + corner[0]
    end_of_rows = (planes * extent[1] + corner[1]) * extent[2] + rows[2]
    first = unit // stage.chunk_units * stage.chunk_pixels
    last = min(first + stage.chunk_pixels, end_of_rows)
    if first >= last:
        return
    # Whole vectors: the values of left behind the chunk's end are padding, so they add zeros.
    count, left = -(-(last - first) // LANES) * LANES, stage.left + first
    begin = unit % stage.chunk_units * stage.unit_columns
    end = min(begin + stage.unit_columns, _columns(stage))
    sums = group * _panels(stage) * _columns(stage) + begin
    offsets = offsets_place(product, table, 0) + begin
    operands = (count, left, product.source + first, offsets)
    _add_columns(stage, scratch, table, operands, stage.total + sums * TILE_ROWS, end - begin)


@compiled()
def _store_panel(
    stage: DotsStage, scratch: Floats, floats: Floats, halves: Halves, number: int
) -> None:
    """Stores a panel of sums as rows of the gradient."""
    product = stage.product
    shape = product.geometry
    group, panel, length = number // _panels(stage), number % _panels(stage), _columns(stage)
    # Sums have TILE_ROWS output channels innermost; the gradient has them outermost.
    separate_rows(scratch, stage.total + number * length * TILE_ROWS, product.line, length, length)
    first = panel * TILE_ROWS
    count = min(TILE_ROWS, shape.output_channels - first) * length
    row = (group * shape.output_channels + first) * length
    if stage.gradient >= 0:
        copy_strided(scratch, product.line, 1, stage.gradient + row, count)
    else:
        values = scratch[product.line : product.line + count]
        store(values, product.weight_format, product.weight_layout, row, floats, halves)


@compiled()
def run_dots(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DotsStage,
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
    """Runs units first .. last-1; the buffers of X, W and Y are given as float32 and as halves."""
    product = stage.product
    block_units = 1 + stage.chunks * stage.chunk_units
    blocks = product.groups * product.blocks * block_units
    for unit in range(first, last):
        number, inside = (unit - 1) // block_units, (unit - 1) % block_units
        if unit == 0:
            # A raised flag ends the slice: all later units would do nothing.
            _begin(stage, scratch, table)
        elif scratch[product.flags] != 0:
            return
        elif unit > blocks:
            panel = unit - 1 - blocks
            _store_panel(stage, scratch, gradient, gradient_halves, panel)
        elif inside == 0:
            load_source(product, scratch, source, source_halves, number)
            if product.result_image.channel_step:
                _copy_left(stage, scratch, left, number)
            else:
                _convert_left(stage, scratch, left, left_halves, number)
            _note_finite(stage, scratch, table)
        else:
            _add_unit(stage, scratch, table, number, inside - 1)
