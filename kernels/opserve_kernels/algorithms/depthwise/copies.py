"""Planes of a depthwise stage, between their tensors and the workspace."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.rows import deal_rows, take_rows
from opserve_kernels.algorithms.depthwise.layout import (
    BASE,
    BATCH,
    BLOCK_ROWS,
    CUT_AXIS,
    EXTENT,
    IMAGE_SIZE,
    KIND,
    LINE,
    OTHER_FORMAT,
    OTHER_PLAIN,
    OTHER_VIEW,
    OUTPUT_SIZE,
    PHASE_PITCH,
    RESULT_FORMAT,
    RESULT_PLAIN,
    RESULT_VIEW,
    SOURCE_FORMAT,
    SOURCE_PLAIN,
    SOURCE_VIEW,
    STRIDE,
    TOTAL,
    TOTAL_PITCH,
    WEIGH_OUTPUT,
)
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load, store
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]


@compiled("void(float32[::1], float32[::1], uint16[::1], int64[::1], int64, int64, int64, int64)")
def load_values(  # noqa: PLR0913, PLR0917  # arrays and integers
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    view: Integers,
    number_format: int,
    first: int,
    place: int,
    count: int,
) -> None:
    """scratch[place + i] = element first + i of a view, rounded; a -0 becomes 0."""
    load(floats, halves, view, number_format, first, scratch[place : place + count])


@compiled("void(float32[::1], float32[::1], uint16[::1], int64[::1], int64, int64, int64, int64)")
def store_values(  # noqa: PLR0913, PLR0917  # arrays and integers
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    view: Integers,
    number_format: int,
    first: int,
    place: int,
    count: int,
) -> None:
    """Element first + i of a view = scratch[place + i], which is rounded in place."""
    store(scratch[place : place + count], number_format, view, first, floats, halves)


@compiled("UniTuple(int64, 3)(int64[::1], int64)")
def triple(stage: Integers, place: int) -> Triple:
    """Three parameters."""
    return int(stage[place]), int(stage[place + 1]), int(stage[place + 2])


@compiled("UniTuple(int64, 3)(UniTuple(int64, 3), int64)")
def phases_along(stride: Triple, phase: int) -> Triple:
    """A phase along each axis."""
    if phase == 0:
        return 0, 0, 0
    return phase // stride[2] // stride[1], phase // stride[2] % stride[1], phase % stride[2]


@compiled("UniTuple(int64, 3)(UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3))")
def positions_of(size: Triple, stride: Triple, phases: Triple) -> Triple:
    """Positions that a phase has along each axis."""
    if stride == (1, 1, 1):
        return size
    return (
        max(0, (size[0] - phases[0] - 1) // stride[0] + 1),
        max(0, (size[1] - phases[1] - 1) // stride[1] + 1),
        max(0, (size[2] - phases[2] - 1) // stride[2] + 1),
    )


@compiled("UniTuple(int64, 2)(int64[::1], UniTuple(int64, 3), int64, int64, int64)")
def _rows_read(
    stage: Integers, size: Triple, stride: int, first: int, count: int
) -> tuple[int, int]:
    """The part of a plane that a block reads, in values: all, or rows of the outermost axis."""
    axis = stage[CUT_AXIS]
    whole = size[0] * size[1] * size[2]
    if axis < 0 or (axis > 0 and size[0] > 1) or (axis > 1 and size[1] > 1):
        return 0, whole
    inner = whole // (size[0] if axis == 0 else (size[1] if axis == 1 else size[2]))
    low = max(0, first * stride) * inner
    return min(low, whole), max(min(low, whole), min((first + count) * stride * inner, whole))


@compiled(
    "void(float32[::1], float32[::1], UniTuple(int64, 3), UniTuple(int64, 3), "
    "UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3), "
    "UniTuple(int64, 3), int64)"
)
def _spread(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    read: Floats,
    scratch: Floats,
    planes: Triple,
    size: Triple,
    stride: Triple,
    phases: Triple,
    first: Triple,
    last: Triple,
    extent: Triple,
    target: int,
) -> None:
    """Positions first .. last-1 of a phase of planes; target is where position 0 would be."""
    start, step, entries = planes
    row = (first[1] * stride[1] + phases[1]) * size[2] + first[2] * stride[2] + phases[2]
    from_ = start + (first[0] * stride[0] + phases[0]) * size[1] * size[2] + row
    to = target + (first[0] * extent[1] + first[1]) * extent[2] + first[2]
    deep, deep_to = stride[0] * size[1] * size[2], extent[1] * extent[2]
    high, high_to = stride[1] * size[2], extent[2]
    counts = (last[1] - first[1], last[2] - first[2])
    if last[0] - first[0] == 1:
        whole = (from_, step, high, to, extent[0] * deep_to, high_to, entries, *counts)
        take_rows(read, scratch, whole, stride[2])
        return
    for i in range(entries):
        place = to + i * extent[0] * deep_to
        depth = last[0] - first[0]
        one = (from_ + i * step, deep, high, place, deep_to, high_to, depth, *counts)
        take_rows(read, scratch, one, stride[2])


@compiled("UniTuple(int64, 3)(UniTuple(int64, 3), int64, int64)")
def _but(values: Triple, axis: int, value: int) -> Triple:
    """The values, but another along one axis."""
    return (
        value if axis == 0 else values[0],
        value if axis == 1 else values[1],
        value if axis == WIDTH else values[2],
    )


@compiled(
    "void(int64[::1], float32[::1], float32[::1], UniTuple(int64, 3), UniTuple(int64, 3), "
    "UniTuple(int64, 3), UniTuple(int64, 2), int64)"
)
def _spread_phases(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    stage: Integers,
    read: Floats,
    scratch: Floats,
    planes: Triple,
    size: Triple,
    stride: Triple,
    rows: tuple[int, int],
    target: int,
) -> None:
    """Planes (where position 0 would be, pitch, how many), of cut ones rows (first, count)."""
    extent, axis = triple(stage, EXTENT), stage[CUT_AXIS]
    elements = extent[0] * extent[1] * extent[2]
    pitch = extent[1] * extent[2] if axis == 0 else (extent[2] if axis == 1 else 1)
    for phase in range(stride[0] * stride[1] * stride[2]):
        phases = phases_along(stride, phase)
        first, last = (0, 0, 0), positions_of(size, stride, phases)
        place = target + phase * stage[PHASE_PITCH]
        if axis >= 0:
            found = last[0] if axis == 0 else (last[1] if axis == 1 else last[2])
            begin, end = max(0, rows[0]), min(found, rows[0] + rows[1])
            if end - begin < rows[1]:
                scratch[place : place + elements] = PADDING
            first, last = _but(first, axis, begin), _but(last, axis, max(begin, end))
            place -= rows[0] * pitch
        _spread(read, scratch, planes, size, stride, phases, first, last, extent, place)


@compiled("UniTuple(int64, 3)(int64[::1], int64, UniTuple(int64, 3))")
def planes_of(stage: Integers, plain: int, planes: Triple) -> Triple:
    """Where plain planes (channel, first entry, entries) start, their pitch, how many they are."""
    channel, entry, count = planes
    start = stage[plain + 1] + channel * stage[plain + 2] + entry * stage[plain + 3]
    return int(start), int(stage[plain + 3]), count


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 3), "
    "UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 2), int64)"
)
def _load_planes(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    operand: Triple,
    planes: Triple,
    size: Triple,
    stride: Triple,
    rows: tuple[int, int],
    target: int,
) -> None:
    """Planes of an operand: places of its view and of what is plain, number format."""
    view, positions = stage[operand[0] :], size[0] * size[1] * size[2]
    if stage[operand[2]]:
        found = planes_of(stage, operand[2], planes)
        _spread_phases(stage, floats, scratch, found, size, stride, rows, target)
        return
    axis, line, extent = max(0, stage[CUT_AXIS]), stage[LINE], triple(stage, EXTENT)
    step = stride[0] if axis == 0 else (stride[1] if axis == 1 else stride[2])
    low, high = _rows_read(stage, size, step, *rows)
    for i in range(planes[2]):
        first = (planes[0] * stage[BATCH] + planes[1] + i) * positions + low
        load_values(scratch, floats, halves, view, operand[1], first, line, high - low)
        place = target + i * extent[0] * extent[1] * extent[2]
        _spread_phases(stage, scratch, scratch, (line - low, 0, 1), size, stride, rows, place)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 3), int64, int64)"
)
def load_source(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    planes: Triple,
    row: int,
    target: int,
) -> None:
    """Planes of the source, split into phases; of a cut one, those rows that `row` and on need."""
    operand = (SOURCE_VIEW, stage[SOURCE_FORMAT], SOURCE_PLAIN)
    axis, first, count = stage[CUT_AXIS], 0, 0
    if axis >= 0:
        first, count = row + int(stage[BASE + axis]), int(stage[EXTENT + axis])
    rows = (first, count)
    if stage[KIND] == WEIGH_OUTPUT:
        size, stride = triple(stage, OUTPUT_SIZE), (1, 1, 1)
    else:
        size, stride = triple(stage, IMAGE_SIZE), triple(stage, STRIDE)
    _load_planes(stage, scratch, floats, halves, operand, planes, size, stride, rows, target)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 3), int64, int64)"
)
def load_output(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    planes: Triple,
    row: int,
    target: int,
) -> None:
    """Planes of Y for COMPARE, of a cut one BLOCK_ROWS rows, with the copy's pitches."""
    operand = (OTHER_VIEW, stage[OTHER_FORMAT], OTHER_PLAIN)
    size, stride, rows = triple(stage, OUTPUT_SIZE), (1, 1, 1), (row, stage[BLOCK_ROWS])
    _load_planes(stage, scratch, floats, halves, operand, planes, size, stride, rows, target)


@compiled("UniTuple(int64, 3)(int64[::1])")
def result_stride(stage: Integers) -> Triple:
    """Phases of the result along each axis."""
    return triple(stage, STRIDE) if stage[KIND] == WEIGH_OUTPUT else (1, 1, 1)


@compiled("UniTuple(int64, 3)(int64[::1])")
def result_size(stage: Integers) -> Triple:
    """Positions of the result, or, for COMPARE, those that are summed over."""
    return triple(stage, IMAGE_SIZE if stage[KIND] == WEIGH_OUTPUT else OUTPUT_SIZE)


@compiled("UniTuple(int64, 3)(int64[::1], int64, int64)")
def rows_of(stage: Integers, phase: int, row: int) -> Triple:
    """Positions of a phase of the result in a block along each axis."""
    stride, axis = result_stride(stage), stage[CUT_AXIS]
    found = positions_of(result_size(stage), stride, phases_along(stride, phase))
    if axis < 0:
        return found
    rows = found[0] if axis == 0 else (found[1] if axis == 1 else found[2])
    return _but(found, axis, max(0, min(rows - row, stage[BLOCK_ROWS])))


@compiled("UniTuple(int64, 2)(int64[::1], int64)")
def _columns_of(stage: Integers, row: int) -> tuple[int, int]:
    """First column and columns of the result in a block."""
    width, stride = result_size(stage)[2], result_stride(stage)[2]
    if stage[CUT_AXIS] != WIDTH:
        return 0, width
    first = row * stride
    return first, min(width - first, stage[BLOCK_ROWS] * stride)


@compiled("void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, int64, int64, int64)")
def _store_rows(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    source: int,
    index: int,
    rows: int,
    width: int,
) -> None:
    """Rows of the result from their phases, by way of the line, to the elements from index on."""
    line, view, extent = stage[LINE], stage[RESULT_VIEW:], triple(stage, EXTENT)
    numbers = (source, 0, extent[2], line, 0, width, 1, rows, width)
    deal_rows(scratch, scratch, numbers, result_stride(stage)[2], stage[TOTAL_PITCH])
    store_values(scratch, floats, halves, view, stage[RESULT_FORMAT], index, line, rows * width)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 3), int64, int64)"
)
def store_planes(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    planes: Triple,
    phase: int,
    row: int,
) -> None:
    """Stores the sums of a phase and of those beside it in a row of the result.

    Args:
        stage: The stage.
        scratch: The workspace.
        floats: The result's buffer as float32 values.
        halves: The same as 16-bit patterns.
        planes: Of the result: channel, first entry and entries.
        phase: The first phase of a row.
        row: First row of a cut block.
    """
    size, stride, extent = result_size(stage), result_stride(stage), triple(stage, EXTENT)
    phases, rows, axis = phases_along(stride, phase), rows_of(stage, phase, row), stage[CUT_AXIS]
    positions, plane = size[0] * size[1] * size[2], extent[1] * extent[2]
    deep = (row if axis == 0 else 0) * stride[0] + phases[0]
    high = (row if axis == 1 else 0) * stride[1] + phases[1]
    column, width = _columns_of(stage, row)
    inside, pitch = (deep * size[1] + high) * size[2] + column, stride[1] * size[2]
    depth_pitch, total = stride[0] * size[1] * size[2], stage[TOTAL]
    start, step, entries = planes_of(stage, RESULT_PLAIN, planes)
    if stage[RESULT_PLAIN] and rows[0] == 1:
        place = (start + inside, step, pitch, entries, rows[1], width)
        whole = (total, extent[0] * plane, extent[2], *place)
        deal_rows(scratch, floats, whole, stride[2], stage[TOTAL_PITCH])
        return
    for i in range(entries):
        source = total + i * extent[0] * plane
        if stage[RESULT_PLAIN]:
            place = (start + i * step + inside, depth_pitch, pitch, rows[0], rows[1], width)
            one = (source, plane, extent[2], *place)
            deal_rows(scratch, floats, one, stride[2], stage[TOTAL_PITCH])
            continue
        index = (planes[0] * stage[BATCH] + planes[1] + i) * positions + inside
        together = rows[1] if pitch == width else 1
        for d in range(rows[0]):
            for h in range(0, rows[1], together):
                at, to = source + d * plane + h * extent[2], index + d * depth_pitch + h * pitch
                _store_rows(stage, scratch, floats, halves, at, to, together, width)
