"""The depthwise algorithm: every channel alone, a block of planes as one run.

opserve_kernels.algorithms.depthwise.layout has the formulas. The first unit fills the padding
and the tables of the taps that meet each phase of the result, with the offsets at which they read
the copy. Every other unit runs some blocks of one group, or of several.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.transfers import add_to_run
from opserve_kernels.algorithms.depthwise import plain as plain_depthwise
from opserve_kernels.algorithms.depthwise.copies import (
    extent_of,
    load_output,
    load_source,
    load_values,
    phases_along,
    result_stride,
    rows_of,
    store_planes,
    store_values,
)
from opserve_kernels.algorithms.depthwise.layout import (
    COMPARE,
    WEIGH_IMAGE,
    WEIGH_OUTPUT,
    DepthwiseStage,
)
from opserve_kernels.algorithms.depthwise.planes import (
    bias_place,
    compare_planes,
    run_groups,
    weigh_planes,
)
from opserve_kernels.algorithms.depthwise.tiles import compare_tile, weigh_tile
from opserve_kernels.algorithms.host import LANES, VARIANT
from opserve_kernels.loops import compiled
from opserve_kernels.sums import PADDING, are_finite

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Triple = tuple[int, int, int]
Six = tuple[int, int, int, int, int, int]

_WIDE, _NARROW = 8, 2  # vectors that are weighed at a time
_MANY_TAPS, _FEW_TAPS = 9, 3  # that are compared at a time
_weigh_wide = weigh_tile(_WIDE, width=LANES)
_weigh_half = weigh_tile(_WIDE // 2, width=LANES)
_weigh_narrow = weigh_tile(_NARROW, width=LANES)
_compare_many = compare_tile(_MANY_TAPS, width=LANES)
_compare_few = compare_tile(_FEW_TAPS, width=LANES)
_compare_one = compare_tile(1, width=LANES)


@compiled()
def _meet(stage: DepthwiseStage, axis: int, phase: int, tap: int) -> Triple:
    """Along an axis: whether a tap meets a phase of the result, source phase, and shift."""
    shape = stage.geometry
    stride = shape.stride[axis]
    distance = tap * shape.dilation[axis] - shape.padding[axis]
    base = stage.blocks.base[axis]
    if stage.kind == WEIGH_OUTPUT:
        distance = phase - distance
        return int(distance % stride == 0), 0, int(distance // stride - base)
    return 1, int(distance % stride), int(distance // stride - base)


@compiled()
def _offset(stage: DepthwiseStage, phase: int, tap: int) -> tuple[int, int]:
    """Whether a tap meets a phase of the result, and where it reads the copy from a sum."""
    shape = stage.geometry
    phases = phases_along(result_stride(stage), phase)
    # From the innermost axis out: each axis adds its shift times the extent of the axes inside it.
    rest, inner, offset, source_phase, phase_step = tap, 1, 0, 0, 1
    for axis in range(2, -1, -1):
        meets, found, shift = _meet(stage, axis, phases[axis], rest % shape.kernel_size[axis])
        if not meets:
            return 0, 0
        offset += shift * inner
        source_phase += found * phase_step
        rest //= shape.kernel_size[axis]
        inner *= stage.blocks.extent[axis]
        phase_step *= shape.stride[axis]
    return 1, offset + source_phase * stage.phase_pitch


@compiled()
def _taps_of(stage: DepthwiseStage, table: Offsets, phase: int) -> tuple[int, int]:
    """First of a phase's taps in the table, and one past the last."""
    return int(table[stage.table + phase]), int(table[stage.table + phase + 1])


@compiled()
def _copies_of(stage: DepthwiseStage) -> int:
    """Channels of the source."""
    return stage.geometry.output_channels if stage.kind == WEIGH_OUTPUT else 1


@compiled()
def _fill_table(stage: DepthwiseStage, table: Offsets) -> None:
    """Fills the table: phase starts, their taps, and offsets (phase, source channel, tap)."""
    # Offsets are listed in the order in which the innermost loop reads them.
    starts, copies = stage.table, _copies_of(stage)
    taps = starts + stage.result_phases + 1
    offsets, found = taps + stage.geometry.taps, 0
    for phase in range(stage.result_phases):
        table[starts + phase] = found
        for tap in range(stage.geometry.taps):
            meets, _ = _offset(stage, phase, tap)
            if meets:
                table[taps + found] = tap
                found += 1
        table[starts + phase + 1] = found
        first, last = _taps_of(stage, table, phase)
        for channel in range(copies):
            for at in range(first, last):
                _, offset = _offset(stage, phase, int(table[taps + at]))
                table[offsets] = channel * stage.channel_pitch + offset
                offsets += 1


# As many sums as possible stay in registers, because each load of a weight serves them all: 8
# vectors of sums, then 4, then 2. The last ones may lie behind the run, in the slack of the plan.
@compiled()
def _generated_weigh(memory: Floats, _table: Offsets, numbers: Six) -> None:
    depth, weights, offsets, source, target, count = numbers
    i = 0
    while i < count:
        vectors = -(-(count - i) // LANES)
        rest = (depth, weights, offsets, source + i, target + i)
        if vectors > _WIDE // 2:
            _weigh_wide(memory, rest)
            i += _WIDE * LANES
        elif vectors > _NARROW:
            _weigh_half(memory, rest)
            i += _WIDE // 2 * LANES
        else:
            _weigh_narrow(memory, rest)
            i += _NARROW * LANES


@compiled()
def _generated_compare(memory: Floats, _table: Offsets, numbers: Six) -> None:
    taps, left, offsets, source, totals, count = numbers
    # Whole vectors: the values of left behind the run are padding, so they add zeros.
    count = -(-count // LANES) * LANES
    step = _MANY_TAPS if taps >= _MANY_TAPS else (_FEW_TAPS if taps >= _FEW_TAPS else 1)
    for tap in range(0, taps, step):
        # The last group of taps overlaps the group before it. Totals are set, not added up, so that
        # a tap that is computed twice has the same value.
        first = min(tap, taps - step)
        rest = (count, left, source, offsets + first, totals + first)
        if step == _MANY_TAPS:
            _compare_many(memory, rest)
        elif step == _FEW_TAPS:
            _compare_few(memory, rest)
        else:
            _compare_one(memory, rest)


weigh = plain_depthwise.weigh if VARIANT.plain else _generated_weigh
compare = plain_depthwise.compare if VARIANT.plain else _generated_compare
weigh_skip_padding = plain_depthwise.weigh_skip_padding
compare_skip_padding = plain_depthwise.compare_skip_padding


@compiled()
def _load_weights(
    stage: DepthwiseStage,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    group: int,
) -> int:
    """Loads the weights of a group as given, then copies them in the order of the offsets.

    Returns:
        Whether all are finite.
    """
    shape = stage.geometry
    # Weights are stored twice: as given for the in-place kernels, and in the order of the offsets.
    count, copies = shape.output_channels * shape.taps, _copies_of(stage)
    given, place = stage.weights, stage.weights + count
    first = group * count
    load_values(stage.other_tensor, scratch, floats, halves, first, given, count)
    taps = stage.table + stage.result_phases + 1
    for result in range(shape.output_channels // copies):
        for phase in range(stage.result_phases):
            first, last = _taps_of(stage, table, phase)
            for channel in range(copies):
                row = given + (result + channel) * shape.taps
                for at in range(first, last):
                    scratch[place] = scratch[row + table[taps + at]]
                    place += 1
    # In place, rows of the source are added to rows of the target. With the taps of each axis
    # reversed that is the forward convolution.
    if stage.in_place and stage.kind == WEIGH_IMAGE:
        for tap in range(count):
            scratch[given + tap] = scratch[given + 2 * count - 1 - tap]
    return are_finite(scratch[given : given + count])


@compiled()
def _run_length(stage: DepthwiseStage, entries: int, rows: Triple) -> int:
    """Number of values from the first to the last sum of a block's planes."""
    if min(rows) == 0:
        return 0
    extent = extent_of(stage)
    last = ((entries * extent[0] - extent[0] + rows[0] - 1) * extent[1] + rows[1] - 1) * extent[2]
    return last + rows[2]


@compiled()
def _block_of(stage: DepthwiseStage, number: int) -> tuple[int, int, int, int]:
    """Group, first entry, entries and first row of a block."""
    blocks = stage.blocks
    group, block = number // blocks.per_group, number % blocks.per_group
    if blocks.axis >= 0:
        rows = blocks.row_blocks
        return group, block // rows, 1, block % rows * blocks.rows
    entry = block * blocks.entries
    return group, entry, min(blocks.entries, stage.geometry.batch - entry), 0


@compiled()
def _weigh_phase(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DepthwiseStage,
    scratch: Floats,
    table: Offsets,
    result: int,
    phase: int,
    entries: int,
    row: int,
    finite: int,
    bias: int,
) -> None:
    """Computes the sums of a phase of one channel of the result, with the bias at this place."""
    shape = stage.geometry
    first, last = _taps_of(stage, table, phase)
    copies = _copies_of(stage)
    offsets = stage.table + stage.result_phases + 1 + shape.taps + first * copies
    weights = stage.weights + (shape.output_channels + result) * shape.taps + first * copies
    total = stage.total + phase % result_stride(stage)[2] * stage.total_pitch
    count = _run_length(stage, entries, rows_of(stage, phase, row))
    numbers = ((last - first) * copies, weights, offsets, stage.source, total, count)
    if finite:
        weigh(scratch, table, numbers)
    else:
        weigh_skip_padding(scratch, table, numbers)
    if stage.bias_step:
        add_to_run(scratch, total, count, scratch[bias])


@compiled()
def _weigh_block(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DepthwiseStage,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    number: int,
    finite: int,
) -> None:
    """Computes a block of grad_image or grad_output from its loaded source."""
    # Results of one source block: every output channel of the group and every phase of the stride.
    group, entry, entries, row = _block_of(stage, number)
    side = result_stride(stage)[2]
    results = stage.geometry.output_channels // _copies_of(stage)
    # The phases of one row are computed together, so that whole rows are stored.
    for result in range(results):
        planes = (group * results + result, entry, entries)
        bias = bias_place(stage, planes[0])
        for phase in range(0, stage.result_phases, side):
            for beside in range(phase, phase + side):
                _weigh_phase(stage, scratch, table, result, beside, entries, row, finite, bias)
            store_planes(stage, scratch, floats, halves, planes, phase, row)


@compiled()
def _add_totals(stage: DepthwiseStage, scratch: Floats, k: int) -> None:
    """Adds the totals of a block to those of an output channel of the group."""
    # Blocks are added one by one: totals that are not finite are computed again before they count.
    taps, place = stage.geometry.taps, stage.weights + k * stage.geometry.taps
    for tap in range(taps):
        scratch[place + tap] += scratch[stage.total + tap]


@compiled()
def _load_block(
    stage: DepthwiseStage, scratch: Floats, floats: Floats, halves: Halves, number: int
) -> None:
    """Loads the planes of a block's source."""
    group, entry, entries, row = _block_of(stage, number)
    copies = _copies_of(stage)
    for channel in range(copies):
        # Channels of a group are copied one behind the other: a sum reads all of them.
        planes = (group * copies + channel, entry, entries)
        target = stage.source + channel * stage.channel_pitch
        load_source(stage, scratch, floats, halves, planes, row, target)


@compiled()
def _compare_block(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DepthwiseStage,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    source_halves: Halves,
    other: Floats,
    other_halves: Halves,
    number: int,
) -> None:
    """Adds a block to the sums of grad_weight.

    In place, the first block of a plane adds the whole plane if its totals are finite. The value
    behind the totals, for the plane's other blocks, is then not 0.
    """
    shape = stage.geometry
    group, entry, entries, row = _block_of(stage, number)
    taps, left, totals = shape.taps, stage.other, stage.total
    if stage.in_place:
        planes, done = (group, entry, entries), totals + stage.total_pitch - 1
        if row == 0:
            compare_planes(
                stage, scratch, source, source_halves, other, other_halves, planes, totals
            )
            scratch[done] = np.float32(are_finite(scratch[totals : totals + taps]))
            if scratch[done]:
                _add_totals(stage, scratch, 0)
        if scratch[done]:
            return
    _load_block(stage, scratch, source, source_halves, number)
    offsets = stage.table + stage.result_phases + 1 + taps
    count = _run_length(stage, entries, rows_of(stage, 0, row))
    for k in range(shape.output_channels):
        planes = (group * shape.output_channels + k, entry, entries)
        load_output(stage, scratch, other, other_halves, planes, row, left)
        scratch[left + count : left + count + LANES] = PADDING
        numbers = (taps, left, offsets, stage.source, totals, count)
        compare(scratch, table, numbers)
        # Padding times an infinity is NaN. So only totals that are not finite are computed again,
        # without padding.
        if not are_finite(scratch[totals : totals + taps]):
            compare_skip_padding(scratch, table, numbers)
        _add_totals(stage, scratch, k)


@compiled()
def _store_weights(
    stage: DepthwiseStage, scratch: Floats, floats: Floats, halves: Halves, group: int
) -> None:
    """Stores the sums of a group of grad_weight."""
    count, place = stage.geometry.output_channels * stage.geometry.taps, stage.weights
    store_values(stage.result_tensor, scratch, floats, halves, group * count, place, count)


@compiled()
def _run_blocks(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DepthwiseStage,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    source_halves: Halves,
    other: Floats,
    other_halves: Halves,
    result: Floats,
    result_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs blocks first .. last-1."""
    blocks, shape = stage.blocks, stage.geometry
    weights = shape.output_channels * shape.taps
    finite = 1
    for number in range(first, last):
        group, block = number // blocks.per_group, number % blocks.per_group
        if stage.kind == COMPARE:
            if block == 0:
                scratch[stage.weights :][:weights] = np.float32(0)
            _compare_block(
                stage, scratch, table, source, source_halves, other, other_halves, number
            )
            if block == blocks.per_group - 1:
                _store_weights(stage, scratch, result, result_halves, group)
            continue
        # A slice of units may begin inside a group: its weights are loaded again then.
        if block == 0 or number == first:
            finite = _load_weights(stage, scratch, table, other, other_halves, group)
        if finite and stage.in_place:
            _, entry, entries, row = _block_of(stage, number)
            planes, place = (group, entry, entries), stage.weights
            if row == 0:
                weigh_planes(
                    stage, scratch, source, source_halves, result, result_halves, planes, place
                )
            continue
        _load_block(stage, scratch, source, source_halves, number)
        _weigh_block(stage, scratch, table, result, result_halves, number, finite)


@compiled()
def run_depthwise(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DepthwiseStage,
    scratch: Floats,
    table: Offsets,
    source: Floats,
    source_halves: Halves,
    other: Floats,
    other_halves: Halves,
    result: Floats,
    result_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; `table` is the workspace as int32.

    The buffers of the tensors are given as float32 and as halves. `stage` are the stage's
    parameters behind the three places.
    """
    blocks = stage.blocks
    if first == 0:
        _fill_table(stage, table)
        scratch[stage.line : stage.end] = PADDING
    # Six views of three buffers; loops take those of their tensors' dtypes.
    images = (source, source_halves, other, other_halves, result, result_halves)
    for unit in range(max(1, first), last):
        begin = (unit - 1) * blocks.per_unit
        end = min(begin + blocks.per_unit, stage.groups * blocks.per_group)
        # Groups of one block share loads and stores of their weights. If a weight is not finite,
        # run_groups returns 0 and the blocks are computed with padded copies.
        if blocks.per_group > 1 or not (
            stage.in_place and run_groups(stage, scratch, *images, begin, end)
        ):
            _run_blocks(stage, scratch, table, *images, begin, end)
