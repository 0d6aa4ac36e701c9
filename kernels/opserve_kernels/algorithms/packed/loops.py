"""The packed and flat algorithms: a correlation as products of panels, without a matrix of columns.

    weight         ->  panels of channels (weights), once for the call
    source, block  ->  padded copy (blocks, padded), split into phases
    copy           ->  panels of pixels (panels), DEPTH_BLOCK taps and channels at a time
    panels         ->  totals (phases, channels, positions of a group of lines)
    totals of all phases of a stride  ->  the result's view, through lines if converted

With FLAT there are no panels of pixels: the micro-kernel reads the padded copy directly. It also
computes the positions between the rows, which are dropped. That pays for few channels.

A source that needs no padding, no phases and no conversion is not copied: panels are filled from
its tensor. A result without phases is one line: its positions are counted over rows and entries.

Units: the tables; the weight; then for every block of every group the padded copy, and behind it
some steps at a time of each group of lines. The last steps of a group also store it.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.rows import interleave_phases
from opserve_kernels.algorithms.codegen.transfers import add_to_run, fill
from opserve_kernels.algorithms.correlation.blocks import (
    block_of,
    extent_of,
    load_source,
    pair_source,
    result_size,
    rows_of,
    source_size,
)
from opserve_kernels.algorithms.correlation.layout import NO_BIAS
from opserve_kernels.algorithms.correlation.taps import (
    fill_tables,
    offsets_place,
    result_channels,
    result_phases,
    result_stride,
    source_channels,
    summed_channels,
    taps_place,
)
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.packed.layout import DEPTH_BLOCK, RUN_COLUMNS, PackedStage
from opserve_kernels.algorithms.packed.panels import (
    fill_panel,
    fill_panels,
    joined,
    position_in,
    tile_columns,
)
from opserve_kernels.algorithms.packed.products import (
    depth_of,
    left_place,
    multiply_in_place_tiles,
    multiply_tile,
)
from opserve_kernels.algorithms.packed.weights import pack_weights
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.strided import store

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Pair = tuple[int, int]
Triple = tuple[int, int, int]
Six = tuple[int, int, int, int, int, int]


@compiled()
def _step_of(stage: PackedStage, table: Offsets, step: int) -> tuple[int, int]:
    """Phase and first product of a step; a phase without products also has one step."""
    # Phases have different numbers of taps, hence of steps: they are counted until the step is
    # found.
    for phase in range(result_phases(stage.product)):
        steps = max(1, -(-depth_of(stage, table, phase) // DEPTH_BLOCK))
        if step < steps:
            return phase, step * DEPTH_BLOCK
        step -= steps
    return -1, 0


@compiled()
def _met_products(  # arrays, places and pairs
    stage: PackedStage,
    table: Offsets,
    products: Pair,
    row: int,
    rows: Triple,
    positions: Pair,
) -> int:
    """Number of a step's products that some of the positions need: none or all.

    Products are the first one and their number; the block of the positions begins with a row.
    """
    product, (k, count) = stage.product, products
    first, last = positions[0] // rows[2], (positions[1] - 1) // rows[2]
    if not product.by_taps or stage.flat or first // rows[1] != last // rows[1]:
        return count
    # A step has one tap, which may be in padding above or below these rows of an entry.
    tap = k // source_channels(product)
    shift = table[taps_place(product) + product.geometry.taps + tap] // product.extent[2]
    shift += product.origin[1] + (row if product.block_axis == 1 else 0)
    below = first % rows[1] + shift >= source_size(product)[1]
    return 0 if below or last % rows[1] + shift < 0 else count


@compiled()
def _source_start(stage: PackedStage, group: int) -> int:
    """Place of a group's first channel, in the padded copy or in the source's tensor."""
    if not stage.source_in_place:
        return int(stage.product.source)
    channel = group * source_channels(stage.product)
    return int(stage.product.source + channel * stage.product.channel_pitch)


@compiled()
def _add_step(  # noqa: PLR0913, PLR0917  # arrays, places and pairs
    stage: PackedStage,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    weight: Floats,
    block: Pair,
    step: Pair,
    rows: Triple,
    positions: Pair,
) -> None:
    """Adds a step to the totals of positions first .. last-1; a phase's first step sets them.

    Positions are counted in the block's rows, with FLAT in those of the padded copy; a block is a
    group and a first row.
    """
    product, (group, row) = stage.product, block
    (phase, k), (first, last) = step, positions
    depth, total = depth_of(stage, table, phase), stage.total + phase * stage.phase_total
    # No tap meets this phase: its results are zeros.
    if depth == 0:
        fill(scratch, total, stage.phase_total, np.float32(0))
        return
    count, offsets = min(DEPTH_BLOCK, depth - k), offsets_place(product, table, phase) + k
    left = left_place(stage, table, group, phase, k)
    extent, joint = joined(extent_of(product), rows)
    # Panels of pairs fill half of their places.
    pitch = depth // summed_channels(product) * source_channels(product) * TILE_ROWS
    start, memory = _source_start(stage, group), source if stage.source_in_place else scratch
    # A tile of positions at a time: its panel has at most DEPTH_BLOCK rows.
    position = first
    while position < last:
        # FLAT has no tile of two vectors.
        end, right = min(position + TILE_COLUMNS, last), start + position
        if not stage.flat:
            end, right = position + tile_columns(last - position), stage.panel
        tile, vectors = (position, end), -(-(end - position) // LANES)
        some = _met_products(stage, table, (k, count), row, rows, tile)
        # The first step sets zeros where its tap is in padding.
        if some or k == 0:
            if not stage.flat:
                fill_panel(memory, scratch, table, start, offsets, right, some, extent, joint, tile)
            numbers = (some, left, right, offsets, total + position - first, int(k > 0))
            multiply_tile(stage, weight, scratch, table, numbers, vectors, pitch)
        position = end


@compiled()
def _store_products(  # noqa: PLR0913, PLR0917  # arrays, places and pairs
    stage: PackedStage,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    weight: Floats,
    floats: Floats,
    block: tuple[int, int],
    rows: Triple,
    positions: tuple[int, int],
) -> None:
    """Stores the sums of positions first .. last-1 in the result, without totals.

    Args:
        stage: The stage: of one step, with whole vectors of positions and whole panels of channels.
        scratch: The workspace.
        table: The same as int32.
        source: Array of the source.
        weight: Array of the weight.
        floats: The result's buffer.
        block: Group of channels, and first entry of the batch.
        rows: Rows of an entry.
        positions: Positions of the block.
    """
    product, entry_size = stage.product, rows[0] * rows[1] * rows[2]
    image, depth, (group, first_entry) = product.result_image, depth_of(stage, table, 0), block
    offsets, first_channel = offsets_place(product, table, 0), group * result_channels(product)
    bias = NO_BIAS if stage.bias == NO_BIAS else stage.bias + first_channel
    extent, rows = joined(extent_of(product), rows)
    start, memory = _source_start(stage, group), source if stage.source_in_place else scratch
    left = left_place(stage, table, group, 0, 0)
    pitch, left_step = (stage.weight_pitch, 1) if stage.weight_pitch else (1, TILE_ROWS)
    position, last = positions
    while position < last:
        entry, inside = position // entry_size, position % entry_size
        count = min(entry_size - inside, last - position, RUN_COLUMNS)
        target = image.layout.offset + first_channel * image.channel_step + inside
        target += (first_entry + entry) * image.entry_step
        values, right, row, tile = scratch, stage.panel, TILE_COLUMNS, depth * TILE_COLUMNS
        if stage.reads_rows:
            values, row, tile = memory, product.channel_pitch, 0
            right = start + position_in(extent, rows, position)
        else:
            run = (position, position + count)
            fill_panels(memory, scratch, table, start, offsets, right, depth, extent, rows, run)
        step = image.channel_step
        one = (depth, left, pitch, left_step, right, row, target, step, 0, bias)
        multiply_in_place_tiles(stage, weight, values, floats, scratch, one, count, tile)
        position += count


@compiled()
def _add_bias(stage: PackedStage, scratch: Floats, group: int, count: int) -> None:
    """Adds the bias of each channel to its complete totals, of this many positions."""
    channels = result_channels(stage.product)
    for phase in range(result_phases(stage.product)):
        for m in range(channels):
            total = stage.total + phase * stage.phase_total + m * stage.total_pitch
            add_to_run(scratch, total, count, scratch[stage.bias + group * channels + m])


@compiled()
def _interleave_lines(  # noqa: PLR0913, PLR0917  # arrays, places and pairs
    stage: PackedStage,
    scratch: Floats,
    target: Floats,
    channels: tuple[int, int],
    depth: int,
    lines: Six,
    places: Triple,
) -> None:
    """Interleaves lines of some channels from the totals of the phases that cross them.

    Args:
        stage: The stage.
        scratch: The workspace.
        target: Array that receives the lines.
        channels: First channel of the group, and number of channels.
        depth: The phase along the depth.
        lines: Start of the first line in a total, number of lines, distance of lines, positions of
            a line, and the numbers of lines and positions that the result has there.
        places: Place of the first line, and distances of channels and of lines.
    """
    product = stage.product
    start, count, pitch, width, high, wide = lines
    place, channel_step, line_step = places
    height, across = result_stride(product, 1), result_stride(product, 2)
    # One phase without gaps between lines: all lines are one run.
    if height * across == 1 and (count == 1 or pitch == width == line_step):
        high, wide = 1, count * width
    # Each phase along the height has every `height`-th line; its phases along the width are
    # interleaved.
    for h in range(min(height, high)):
        total = stage.total + (depth * height + h) * across * stage.phase_total + start
        total += channels[0] * stage.total_pitch
        pitches = (stage.total_pitch, pitch)
        to = (place + h * line_step, channel_step, height * line_step)
        counts = (channels[1], (high - h - 1) // height + 1, wide)
        interleave_phases(
            scratch, target, (total, *pitches, *to, *counts), across, stage.phase_total
        )


@compiled()
def _store_channel(  # noqa: PLR0913, PLR0917  # arrays, places and integers
    stage: PackedStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    m: int,
    depth: int,
    index: int,
    lines: Six,
    line_step: int,
) -> None:
    """Stores lines of a channel from element `index` on, rounded; arguments as for the above."""
    product = stage.product
    image = product.result_image
    start, count, pitch, width, high, wide = lines
    place = stage.total + m * stage.total_pitch + start
    # Lines that phases share, or with a gap between them, are first put together in the workspace.
    if result_phases(product) > 1 or (count > 1 and pitch > width):
        place = product.line
        _interleave_lines(stage, scratch, scratch, (m, 1), depth, lines, (place, 0, wide))
    rows, length = (1, high * wide) if wide == line_step else (high, wide)
    for row in range(rows):
        values = scratch[place + row * length :][:length]
        first = index + row * line_step
        store(values, image.number_format, image.layout, first, floats, halves)


@compiled()
def _store_lines(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: PackedStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    group: int,
    lines: Six,
    size: Triple,
    corner: tuple[int, int, int, int],
) -> None:
    """Stores lines of one plane of the result, from `corner` on: entry, depth, line and column."""
    product = stage.product
    image = product.result_image
    entry, d, h, w = corner
    first = group * result_channels(product)
    channels = min(result_channels(product), image.channels - first)
    step = image.channel_step
    for depth in range(min(result_stride(product, 0), size[0] - d)):
        position = ((d + depth) * size[1] + h) * size[2] + w
        # A plain result takes all channels in one call; others are converted channel by channel.
        if step:
            place = image.layout.offset + first * step + entry * image.entry_step
            places = (place + position, step, size[2])
            _interleave_lines(stage, scratch, floats, (0, channels), depth, lines, places)
            continue
        for m in range(channels):
            index = ((first + m) * product.geometry.batch + entry) * size[0] * size[1] * size[
                2
            ] + position
            _store_channel(stage, scratch, floats, halves, m, depth, index, lines, size[2])


@compiled()
def _store_totals(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: PackedStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    block: Triple,
    rows: Triple,
    lines: tuple[int, int],
    columns: tuple[int, int],
) -> None:
    """Stores the totals of a group.

    Args:
        stage: The stage.
        scratch: The workspace.
        floats: The result's buffer as float32 values.
        halves: The same as 16-bit patterns.
        block: Group of channels, first entry of the batch, first row.
        rows: Rows of the block.
        lines: First line and one past the last, counted over planes and entries.
        columns: First column and one past the last, of each line.
    """
    product = stage.product
    group, first_entry, row = block
    size, axis, flat = result_size(product), product.block_axis, stage.flat
    grid = extent_of(product) if flat else rows
    stride = (result_stride(product, 0), result_stride(product, 1), result_stride(product, 2))
    last_column = min(columns[1], rows[2])
    line = lines[0]
    # A group may begin and end inside planes: each round takes the rest of one plane. With FLAT,
    # lines and columns between the rows are skipped here.
    while line < lines[1]:
        h, plane = line % grid[1], line // grid[1]
        following = min(line + grid[1] - h, lines[1])
        d, entry = plane % grid[0], plane // grid[0]
        last_h = min(h + following - line, rows[1])
        if d < rows[0] and h < last_h and columns[0] < last_column:
            corner_d = (d + (row if axis == 0 else 0)) * stride[0]
            corner_h = (h + (row if axis == 1 else 0)) * stride[1]
            corner_w = (columns[0] + (row if axis == WIDTH else 0)) * stride[2]
            high = min((last_h - h) * stride[1], size[1] - corner_h)
            wide = min((last_column - columns[0]) * stride[2], size[2] - corner_w)
            start = (line - lines[0]) * (columns[1] - columns[0])
            numbers = (
                *(start, last_h - h, columns[1] - columns[0]),
                *(last_column - columns[0], high, wide),
            )
            corner = (first_entry + entry, corner_d, corner_h, corner_w)
            _store_lines(stage, scratch, floats, halves, group, numbers, size, corner)
        line = following


@compiled()
def _is_one_line(stage: PackedStage) -> bool:
    """Whether positions of a block are counted over rows and entries: PACKED without phases."""
    return not stage.flat and result_phases(stage.product) == 1


@compiled()
def _store_line(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: PackedStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    block: Triple,
    rows: Triple,
    positions: tuple[int, int],
) -> None:
    """Stores the totals of positions first .. last-1 of a block that is one line."""
    product = stage.product
    group, first_entry, row = block
    size, axis, entry_size = result_size(product), product.block_axis, rows[0] * rows[1] * rows[2]
    whole = (1, 1, size[0] * size[1] * size[2])
    begin = row * (size[1] * size[2] if axis == 0 else (size[2] if axis == 1 else 1))
    position, last = positions
    while position < last:
        entry, inside = position // entry_size, position % entry_size
        count = min(entry_size - inside, last - position)
        line = (position - positions[0], 1, count, count, 1, count)
        corner = (first_entry + entry, 0, 0, begin + inside)
        _store_lines(stage, scratch, floats, halves, group, line, whole, corner)
        position += count


@compiled()
def _group_of(stage: PackedStage, entries: int, rows: Triple, part: int) -> tuple[Pair, Pair, Pair]:
    """Lines, columns and positions of a group, each first and one past the last."""
    # FLAT counts lines of the padded copy, PACKED those of the result; without phases all of it is
    # one line.
    planes = entries
    if _is_one_line(stage):
        rows, planes = (1, 1, entries * rows[0] * rows[1] * rows[2]), 1
    grid = extent_of(stage.product) if stage.flat else rows
    line = part // stage.line_parts * stage.group_lines
    all_lines = ((planes - 1) * grid[0] + rows[0] - 1) * grid[1] + rows[1]
    last_line = min(line + stage.group_lines, all_lines)
    column = part % stage.line_parts * stage.group_width
    last_column = min(column + stage.group_width, grid[2])
    first = line * grid[2] + column
    last = (last_line - 1) * grid[2] + min(last_column, rows[2])
    return (line, last_line), (column, last_column), (first, last)


@compiled()
def _run_steps(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: PackedStage,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    weight: Floats,
    floats: Floats,
    halves: Halves,
    number: int,
    unit: int,
) -> None:
    """Runs some steps of a group of lines of a block."""
    product = stage.product
    group, entry, entries, row = block_of(product, number)
    rows = rows_of(product, row)
    lines, columns, positions = _group_of(stage, entries, rows, unit // stage.step_units)
    if positions[0] >= positions[1]:
        return
    if stage.into_result:
        whole = (group, entry)
        _store_products(stage, scratch, table, source, weight, floats, whole, rows, positions)
        return
    begin = unit % stage.step_units * stage.unit_steps
    for index in range(begin, begin + stage.unit_steps):
        # The last unit of a group may have fewer steps than the others: _step_of returns phase -1
        # then.
        phase, k = _step_of(stage, table, index)
        if phase >= 0:
            step, start = (phase, k), (group, row)
            _add_step(stage, scratch, table, source, weight, start, step, rows, positions)
    if unit % stage.step_units == stage.step_units - 1:
        block = (group, entry, row)
        if stage.bias != NO_BIAS:
            _add_bias(stage, scratch, group, positions[1] - positions[0])
        if _is_one_line(stage):
            _store_line(stage, scratch, floats, halves, block, rows, positions)
        else:
            _store_totals(stage, scratch, floats, halves, block, rows, lines, columns)


@compiled()
def run_packed(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: PackedStage,
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
    """Runs units first .. last-1; buffers of the tensors are given as float32 and as halves."""
    product = stage.product
    # Units in order: tables, weights, then for each block its copy and its steps.
    weight_units = product.groups * -(-product.geometry.output_channels // TILE_ROWS)
    block_units = 1 + stage.groups_of_lines * stage.line_parts * stage.step_units
    for unit in range(first, last):
        block = unit - 1 - weight_units
        if unit == 0:
            fill_tables(product, table)
            scratch[product.flags] = np.float32(0)
        elif product.pairs and scratch[product.flags] != 0:
            return  # the stage behind this one computes the product
        elif block < 0:
            pack_weights(stage, scratch, table, weight, weight_halves, unit - 1)
        elif block % block_units == 0:
            if not stage.source_in_place:
                load_source(product, scratch, source, source_halves, block // block_units)
            if product.pairs:
                pair_source(product, scratch)
        else:
            number, inside = block // block_units, block % block_units - 1
            _run_steps(stage, scratch, table, source, weight, result, result_halves, number, inside)
