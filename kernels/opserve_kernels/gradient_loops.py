"""The gradients of a convolution in float32, stage by stage.

Products are loops of opserve_kernels.algorithms. Copies and sums are here:
    sums        = sum of an image over batch and positions
    result      = sums of a product + the bias of their channel

The loops of `reference` are in opserve_kernels.reference_loops.
"""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.run_sums import add_run
from opserve_kernels.algorithms.columns.layout import ColumnsStage
from opserve_kernels.algorithms.columns.loops import run_columns
from opserve_kernels.algorithms.columns.plan import GATHER_OUTPUT, GATHER_WEIGHT, SCATTER_IMAGE
from opserve_kernels.algorithms.depthwise.layout import DepthwiseStage
from opserve_kernels.algorithms.depthwise.loops import run_depthwise
from opserve_kernels.algorithms.direct.plan import (
    ADD_OUTER,
    CORRELATE,
    DEPTHWISE,
    MULTIPLY_DOTS,
    RANGES,
    TRANSFORM,
    TRANSFORM_WEIGHT,
)
from opserve_kernels.algorithms.dots.layout import DotsStage
from opserve_kernels.algorithms.dots.loops import run_dots
from opserve_kernels.algorithms.host import SUM_LANES
from opserve_kernels.algorithms.outer.layout import OuterStage
from opserve_kernels.algorithms.outer.loops import run_outer
from opserve_kernels.algorithms.packed.layout import PackedStage
from opserve_kernels.algorithms.packed.loops import run_packed
from opserve_kernels.algorithms.ranges.layout import RangesStage
from opserve_kernels.algorithms.ranges.loops import run_ranges
from opserve_kernels.algorithms.winograd.gradient import run_winograd_weight
from opserve_kernels.algorithms.winograd.loops import run_winograd
from opserve_kernels.biased_stages import ADD_BIAS, WORKSPACE, BiasStage
from opserve_kernels.copy_stages import (
    FILL,
    KEEP_DIAGONAL,
    LOAD,
    STORE,
    CopyStage,
    DiagonalStage,
    FillStage,
)
from opserve_kernels.gradient_plan import IN_TENSOR, SUM_CHANNELS, SumStage
from opserve_kernels.loops import compiled, entry, reading
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.stages import HEADER, INTERLEAVE, stages_between
from opserve_kernels.strided import as_floats, as_halves, load, position_of, store
from opserve_kernels.sums import add_lanes
from opserve_kernels.views import LAST_AXIS

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]
Buffers = tuple[Bytes, ...]

_OPERANDS = 3  # places at the start of a product's stage: source, weight, result
_as_fill = reading(FillStage)
_as_copy = reading(CopyStage)
_as_bias = reading(BiasStage)
_as_sum = reading(SumStage)
_as_diagonal = reading(DiagonalStage)
_as_columns = reading(ColumnsStage)
_as_packed = reading(PackedStage)
_as_dots = reading(DotsStage)
_as_outer = reading(OuterStage)
_as_depthwise = reading(DepthwiseStage)
_as_ranges = reading(RangesStage)
_NOTHING = np.empty(0, np.uint8)


@compiled()
def _fill(stage: FillStage, scratch: Floats, first: int, last: int) -> None:
    start, chunk = stage.start, stage.chunk
    scratch[start + first * chunk : start + min(last * chunk, stage.length)] = np.float32(0)


@compiled()
def _load(stage: CopyStage, buffer: Bytes, scratch: Floats, first: int, last: int) -> None:
    """Copies an operand into the workspace, rounded as the cube does; -0 becomes 0."""
    begin, end = first * stage.chunk, min(last * stage.chunk, stage.length)
    target = scratch[stage.start + begin : stage.start + end]
    floats, halves = as_floats(buffer), as_halves(buffer)
    load(floats, halves, stage.layout, stage.number_format, begin, target)


@compiled()
def _store(stage: CopyStage, buffer: Bytes, scratch: Floats, first: int, last: int) -> None:
    """Copies a result out of the workspace, rounded as the cube does and then to its dtype."""
    begin, end = first * stage.chunk, min(last * stage.chunk, stage.length)
    source = scratch[stage.start + begin : stage.start + end]
    floats, halves = as_floats(buffer), as_halves(buffer)
    store(source, stage.number_format, stage.layout, begin, floats, halves)


@compiled()
def _add_bias(stage: BiasStage, buffer: Bytes, scratch: Floats, first: int, last: int) -> None:
    """Adds the bias of each channel to its sums, and stores them."""
    stored, pixels = stage.stored, stage.pixels
    element, end = first * stored.chunk, min(last * stored.chunk, stored.length)
    # Runs of one channel: the innermost loop adds one value to contiguous ones.
    while element < end:
        channel = element // pixels
        behind = min((channel + 1) * pixels, end)
        bias, sums = scratch[stage.values + channel], scratch[stored.start :][element:behind]
        for i in range(sums.size):
            sums[i] += bias
        element = behind
    _store(stored, buffer, scratch, first, last)


@compiled()
def _sum_block(
    stage: SumStage, floats: Floats, halves: Halves, scratch: Floats, first: int, count: int
) -> None:
    """Adds elements to the lanes: contiguous float32 directly, all others once loaded."""
    layout, block, lanes = stage.image_layout, stage.block, stage.lanes
    width, rows = layout.sizes[LAST_AXIS], layout.sizes[LAST_AXIS - 1]
    step = layout.steps[LAST_AXIS - 1]
    # Elements of other dtypes or steps are converted into the workspace first.
    if block != IN_TENSOR:
        load(floats, halves, layout, FLOAT, first, scratch[block : block + count])
        add_run(scratch, scratch, (block, count, lanes))
        return
    # Lines of the image that are runs of float32 are summed in the tensor. The start of a line is
    # one step after that of the line before, so only a new plane needs its indices divided.
    done = 0
    while done < count:
        index = first + done
        column, row = index % width, index // width % rows
        start = position_of(layout, index - column)
        while row < rows and done < count:
            run = min(width - column, count - done)
            add_run(floats, scratch, (start + column, run, lanes))
            done, row, start, column = done + run, row + 1, start + step, 0


@compiled()
def _sum_channels(
    stage: SumStage, buffer: Bytes, result: Bytes, scratch: Floats, first: int, last: int
) -> None:
    """Adds chunks of a channel's pixels to its total; after the last chunk, stores all totals."""
    floats, halves = as_floats(buffer), as_halves(buffer)
    totals, lanes = scratch[stage.totals :][: stage.channels], scratch[stage.lanes :][:SUM_LANES]
    chunks, block_size = stage.chunks, stage.block_size
    # Slices begin at any unit, so totals are in the workspace and the first unit clears them.
    if first == 0:
        totals[:] = np.float32(0)
    for unit in range(first, last):
        channel = unit // chunks
        begin = unit % chunks * stage.chunk
        end = min(begin + stage.chunk, stage.pixels)
        # Blocks are summed in SUM_LANES lanes, lanes pairwise, blocks one after the other: this
        # order depends on neither the vector width nor the slices.
        for pixel in range(begin, end, block_size):
            lanes[:] = np.float32(0)
            element = channel * stage.pixels + pixel
            _sum_block(stage, floats, halves, scratch, element, min(block_size, end - pixel))
            totals[channel] += add_lanes(lanes)
    if last == totals.size * chunks:
        floats, halves = as_floats(result), as_halves(result)
        store(totals, stage.number_format, stage.result_layout, 0, floats, halves)


@compiled()
def _keep_diagonal(stage: DiagonalStage, scratch: Floats, first: int, last: int) -> None:
    """Sets entries to zero whose output and input channel belong to different groups."""
    k_size, row_size = stage.output_channels, stage.input_channels * stage.taps
    group_size = stage.group_inputs * stage.taps
    for unit in range(first, last):
        # Only the diagonal block of this output channel's group is kept; a superblock that the
        # groups do not fill has rows of no group.
        member = unit % k_size // stage.group_outputs
        exists = member < stage.extend and unit // k_size * stage.extend + member < stage.groups
        row = scratch[stage.start + unit * row_size :][:row_size]
        if exists:
            row[: member * group_size] = np.float32(0)
            row[(member + 1) * group_size :] = np.float32(0)
        else:
            row[:] = np.float32(0)


@compiled("void(int64, int64[::1], UniTuple(uint8[::1], 7), float32[::1], int64, int64)")
def _run_product(  # arrays and integers
    kind: int, places: Integers, buffers: Buffers, scratch: Floats, first: int, last: int
) -> None:
    # Each buffer is viewed as float32 and as 16-bit values once, here; loops index the view of
    # their dtype.
    x_place, w_place, y_place = int(places[0]), int(places[1]), int(places[2])
    source, weight, result = buffers[x_place], buffers[w_place], buffers[y_place]
    stage, table = places[_OPERANDS:], scratch.view(np.int32)
    x, w, y = as_floats(source), as_floats(weight), as_floats(result)
    x_half, w_half, y_half = as_halves(source), as_halves(weight), as_halves(result)
    if kind == CORRELATE:
        packed = _as_packed(stage)
        run_packed(packed, scratch, table, x, x_half, w, w_half, y, y_half, first, last)
    elif kind == MULTIPLY_DOTS:
        dots = _as_dots(stage)
        run_dots(dots, scratch, table, x, x_half, w, w_half, y, y_half, first, last)
    elif kind == ADD_OUTER:
        outer = _as_outer(stage)
        run_outer(outer, scratch, x, x_half, w, w_half, y, y_half, first, last)
    elif kind == RANGES:
        ranges = _as_ranges(stage)
        run_ranges(ranges, scratch, x, x_half, w, w_half, first, last)
    else:
        depthwise = _as_depthwise(stage)
        run_depthwise(depthwise, scratch, table, x, x_half, w, w_half, y, y_half, first, last)


@compiled("void(int64, int64[::1], UniTuple(uint8[::1], 7), float32[::1], int64, int64)")
def _run_copy(  # arrays and integers
    kind: int, stage: Integers, buffers: Buffers, scratch: Floats, first: int, last: int
) -> None:
    if kind == ADD_BIAS:
        biased = _as_bias(stage)
        _add_bias(biased, buffers[biased.stored.tensor], scratch, first, last)
    elif kind == LOAD:
        loaded = _as_copy(stage)
        _load(loaded, buffers[loaded.tensor], scratch, first, last)
    else:
        stored = _as_copy(stage)
        _store(stored, buffers[stored.tensor], scratch, first, last)


# All stages that are compiled whole are in one function: a slice of units that crosses stages is
# then one call from Python.
@compiled("boolean(int64, int64[::1], UniTuple(uint8[::1], 7), float32[::1], int64, int64)")
def _run_stage(  # a case for each kind
    kind: int, stage: Integers, buffers: Buffers, scratch: Floats, first: int, last: int
) -> bool:
    """Units first .. last-1 of a stage; False for a stage that Python runs."""
    if kind in (CORRELATE, MULTIPLY_DOTS, ADD_OUTER, DEPTHWISE, RANGES):
        _run_product(kind, stage, buffers, scratch, first, last)
    elif kind == FILL:
        _fill(_as_fill(stage), scratch, first, last)
    elif kind in (LOAD, STORE, ADD_BIAS):
        _run_copy(kind, stage, buffers, scratch, first, last)
    elif kind == SUM_CHANNELS:
        sums = _as_sum(stage)
        _sum_channels(sums, buffers[sums.image], buffers[sums.result], scratch, first, last)
    elif kind == KEEP_DIAGONAL:
        _keep_diagonal(_as_diagonal(stage), scratch, first, last)
    elif kind in (SCATTER_IMAGE, GATHER_OUTPUT, GATHER_WEIGHT):
        run_columns(kind, _as_columns(stage), scratch, first, last)
    else:
        return False
    return True


@compiled("void(int64[::1], UniTuple(uint8[::1], 7), float32[::1], int64, int64)")
def _run_interleaved(
    parameters: Integers, buffers: Buffers, scratch: Floats, first_unit: int, last_unit: int
) -> None:
    """Runs units first_unit .. last_unit-1 of interleaved stages."""
    # Turn t of `turns` ends behind unit units * (t + 1) / turns of each stage, rounded up, as
    # stages.interleaved documents. `start` counts the units of all turns and stages before.
    turns, start = parameters[0], 0
    for turn in range(turns):
        position = 1
        while position < parameters.size:
            kind, units = parameters[position], parameters[position + 1]
            count = parameters[position + 2]
            stage = parameters[position + HEADER : position + HEADER + count]
            begin = (units * turn + turns - 1) // turns
            # Slices may begin and end inside a turn: only the units within the bounds run.
            end = (units * (turn + 1) + turns - 1) // turns
            first = max(begin, begin + first_unit - start)
            last = min(end, begin + last_unit - start)
            if first < last:
                _run_stage(kind, stage, buffers, scratch, first, last)
            position += HEADER + count
            start += end - begin


@entry("int64(int64[::1], UniTuple(uint8[::1], 7), float32[::1], int64, int64)")
def _run_stages(
    parameters: Integers, buffers: Buffers, scratch: Floats, first_unit: int, last_unit: int
) -> int:
    """Runs units first_unit .. last_unit-1, up to the first stage that Python runs.

    A slice of a small call is a single call of compiled code. The result is one past the last unit
    that ran, or that a condition left out.
    """
    position, start, done = 0, 0, first_unit
    while done < last_unit:
        kind, units = parameters[position], parameters[position + 1]
        count, condition = parameters[position + 2], parameters[position + 3]
        stage = parameters[position + HEADER : position + HEADER + count]
        first, last = done - start, min(last_unit - start, units)
        if first < last:
            # Units of a stage whose condition is 0 count as done without running.
            runs = condition < 0 or scratch[condition] != 0
            # Interleaved stages have no conditions of their own.
            if kind == INTERLEAVE:
                _run_interleaved(stage, buffers, scratch, first, last)
            elif runs and not _run_stage(kind, stage, buffers, scratch, first, last):
                break
            done = start + last
        position += HEADER + count
        start += units
    return done


_IN_PYTHON: dict[int, Callable[..., None]] = {
    TRANSFORM: run_winograd,
    TRANSFORM_WEIGHT: run_winograd_weight,
}


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Runs work units first_unit .. last_unit-1; intermediate values are in the workspace.

    Args:
        parameters: The plan's parameters.
        tensors: The buffers of the schema's tensors, in order; empty without a tensor.
        workspace: A buffer of the plan's size.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    # The compiled function takes a tuple of one length: empty buffers stand for missing tensors.
    scratch = workspace.view(np.float32)
    buffers = (*tensors, *[_NOTHING] * (WORKSPACE - len(tensors)), workspace)
    done = _run_stages(parameters, buffers, scratch, first_unit, last_unit)
    # Python runs stages with more code than one compiled function should have (Winograd), then
    # continues behind them in compiled code.
    while done < last_unit:
        kind, stage, first, last = next(stages_between(parameters, done, last_unit))
        operands = [buffers[int(place)] for place in stage[:_OPERANDS]]
        views = chain(*((as_floats(buffer), as_halves(buffer)) for buffer in operands))
        table = scratch.view(np.int32)
        _IN_PYTHON[kind](stage[_OPERANDS:], scratch, table, *views, first, last)
        done = _run_stages(parameters, buffers, scratch, done + last - first, last_unit)
