"""Phase two of aclnnIm2col: each row of out is the image as one tap of a channel sees it.

out[n, (c * kH + a) * kW + b, i * J + j] = self[n, c, i * stride + a * dilation - padding,
                                                     j * stride + b * dilation - padding]
    and 0 where that is outside the image

Elements are loaded and stored without arithmetic, which keeps every bit. For another dtype of out,
a unit's elements are copied to the workspace first, and converted from there. `reference` has
reference_kernel.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.row_tiles import (
    copy_rows_tile,
    split_rows_tile,
    step_rows_tile,
    take_rows_tile,
)
from opserve_kernels.algorithms.host import LANES, VARIANT
from opserve_kernels.loops import compiled, entry, reading
from opserve_kernels.number_formats import BF16, FLOAT, FLOAT16
from opserve_kernels.operators.im2col.plan import OUT, SELF, GatherStage
from opserve_kernels.precision import from_bfloat, from_half
from opserve_kernels.stages import stages_between
from opserve_kernels.strided import store

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]
Patterns = NDArray[Any]
Row = tuple[int, int, int, int, int, int]
"""Place of the image's plane, its row and column under the tap at the first position of a block,
first position of the range, its length, and its place in the target."""
Grid = tuple[int, int, int, int, int, int, int, int]
"""Rows and columns of the image, strides of blocks, positions across, distances of rows and columns
of the image, and of elements of the target."""
Part = tuple[int, int, int, int]
"""A row of out, first position of a range, its length, and its place in the workspace."""

_PAIR = 2
# Lines begin anywhere, and vectors of 64 bytes would cross a cache line at almost every place.
_WIDTH = 1 if VARIANT.plain else min(LANES, 8)
_copy = copy_rows_tile(_WIDTH, exact=True)
_split = split_rows_tile(_WIDTH, exact=True)
_take = take_rows_tile(_WIDTH)
_step = step_rows_tile(exact=True)
_as_gather = reading(GatherStage)
_BLOCK = 1 << 12  # pixels of a block of lines: half of the first-level cache


def _row_moved(source: Patterns, target: Patterns, row: Row, grid: Grid) -> None:
    """Copies a range of the positions of one row of out: whole lines together, parts alone."""
    plane, top, left, first, count, place = row
    high, wide, down, across, places, line_step, pixel_step, pitch = grid
    # Positions begin .. end-1 of a line are inside the image, the others in the padding.
    begin = min(places, max(0, -(left // across)))
    end = max(begin, min(places, (wide - 1 - left) // across + 1))
    i, j = first // places, first % places
    while count > 0:
        line = min(places - j, count)
        lines = count // places if line == places else 1
        h = top + i * down
        # So are the lines above .. below-1.
        above = min(lines, max(0, -(h // down)))
        below = max(above, min(lines, (high - 1 - h) // down + 1))
        from_ = min(max(begin - j, 0), line)
        to = min(max(end - j, from_), line)
        # Zeros everywhere cost less than zeros around each line.
        if (above, below, from_, to) != (0, lines, 0, line):
            if pitch == 1:
                target[place : place + lines * line] = 0
            else:
                for k in range(lines * line):
                    target[place + k * pitch] = 0
        pixel = plane + (h + above * down) * line_step + (left + (j + from_) * across) * pixel_step
        to_place = place + (above * line + from_) * pitch
        sizes = (1, below - above, to - from_)
        numbers = (pixel, 0, down * line_step, to_place, 0, line * pitch, *sizes)
        step = across * pixel_step
        if step == 1 and pitch == 1:
            _copy(source, target, numbers)
        elif step == _PAIR and pitch == 1:
            _split(source, target, numbers)
        elif pitch == 1:
            _take(source, target, (*numbers, step))
        else:
            _step(source, target, (*numbers, step, pitch))
        place += lines * line * pitch
        count -= lines * line
        i, j = i + lines, 0


_NUMBERS = "UniTuple(int64, 6), UniTuple(int64, 8)"
_move_halves: Callable[[Halves, Halves, Row, Grid], None] = compiled(
    f"void(uint16[::1], uint16[::1], {_NUMBERS})"
)(_row_moved)
_move_floats: Callable[[Floats, Floats, Row, Grid], None] = compiled(
    f"void(float32[::1], float32[::1], {_NUMBERS})"
)(_row_moved)


@compiled()
def _move(  # both widths of both buffers, and the range
    stage: GatherStage,
    floats: Floats,
    halves: Halves,
    target_floats: Floats,
    target_halves: Halves,
    part: Part,
) -> None:
    """Copies a range of one row of out to out itself, or to the workspace."""
    row, position, count, place = part
    shape, steps, pitch = stage.shape, stage.result_steps, 1
    taps = shape.kernel[0] * shape.kernel[1]
    entry_, inner = row // (stage.channels * taps), row % (stage.channels * taps)
    channel, tap = inner // taps, inner % taps
    top = tap // shape.kernel[1] * shape.dilation[0] - shape.padding[0]
    left = tap % shape.kernel[1] * shape.dilation[1] - shape.padding[1]
    plane = stage.source_offset + entry_ * stage.source_steps[0] + channel * stage.source_steps[1]
    if stage.copies:
        pitch = steps[2]
        place = stage.result_offset + entry_ * steps[0] + inner * steps[1] + position * pitch
    numbers = (plane, top, left, position, count, place)
    grid = (
        *(shape.size[0], shape.size[1], shape.stride[0], shape.stride[1], shape.positions[1]),
        *(stage.source_steps[2], stage.source_steps[3], pitch),
    )
    if stage.element_type == FLOAT:
        _move_floats(floats, target_floats, numbers, grid)
    else:
        _move_halves(halves, target_halves, numbers, grid)


@compiled()
def _gather(  # both widths of both buffers, and the range
    stage: GatherStage,
    floats: Floats,
    halves: Halves,
    target_floats: Floats,
    target_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Copies elements first .. last-1 of out."""
    shape, element = stage.shape, first
    length = shape.positions[0] * shape.positions[1]
    while element < last:
        row, position = element // length, element % length
        count, rows = min(length - position, last - element), 1
        block = count
        # Rows of one row of taps read the same lines of the image. They are written in turn, a
        # block of lines at a time, which stays in the cache.
        if count == length:
            rows = min((last - element) // length, shape.kernel[1] - row % shape.kernel[1])
            block = max(1, _BLOCK // shape.size[1]) * shape.positions[1]
        for begin in range(0, count, block):
            size = min(block, count - begin)
            for i in range(rows):
                place = element - first + i * length + begin
                part = (row + i, position + begin, size, place)
                _move(stage, floats, halves, target_floats, target_halves, part)
        element += count * rows


@compiled("void(int64, uint16[::1], float32[::1])")
def _widen(dtype: int, halves: Halves, target: Floats) -> None:
    """Converts 16-bit elements exactly; -0 stays -0."""
    if dtype == FLOAT16:
        for i in range(target.size):
            target[i] = from_half(halves[i])
    elif dtype == BF16:
        for i in range(target.size):
            target[i] = from_bfloat(halves[i])


@entry("void(int64[::1], uint8[::1], uint8[::1], uint8[::1], int64, int64)")
def _run_gather(
    numbers: Integers, source: Bytes, target: Bytes, workspace: Bytes, first: int, last: int
) -> None:
    """Copies the ranges of the work units first .. last-1."""
    stage = _as_gather(numbers)
    floats, halves = source[: source.size // 4 * 4], source[: source.size // 2 * 2]
    out_floats, out_halves = target[: target.size // 4 * 4], target[: target.size // 2 * 2]
    for unit in range(first, last):
        begin = stage.first + unit * stage.chunk
        end = min(begin + stage.chunk, stage.last)
        if stage.copies:
            _gather(
                stage,
                floats.view(np.float32),
                halves.view(np.uint16),
                out_floats.view(np.float32),
                out_halves.view(np.uint16),
                begin,
                end,
            )
            continue
        patterns = workspace[4 * stage.patterns :]
        _gather(
            stage,
            floats.view(np.float32),
            halves.view(np.uint16),
            patterns.view(np.float32),
            patterns.view(np.uint16),
            begin,
            end,
        )
        values = workspace.view(np.float32)[stage.values : stage.values + end - begin]
        _widen(stage.element_type, patterns.view(np.uint16), values)  # FLOAT is in its place
        store(
            values,
            stage.number_format,
            stage.result_layout,
            begin,
            out_floats.view(np.float32),
            out_halves.view(np.uint16),
        )


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Writes the elements of out of the work units first_unit .. last_unit-1.

    Args:
        parameters: The plan's parameters.
        tensors: The buffers of self and out.
        workspace: A buffer of the plan's size.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    # All stages have one kind: shares differ only in their records.
    source, target = tensors[SELF], tensors[OUT]
    for _, stage, first, last in stages_between(parameters, first_unit, last_unit):
        _run_gather(stage, source, target, workspace, first, last)
