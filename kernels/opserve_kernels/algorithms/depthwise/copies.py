"""Copies of a depthwise stage's planes between their tensors and the workspace."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.rows import copy_rows_from, interleave_phases
from opserve_kernels.algorithms.depthwise.layout import (
    WEIGH_OUTPUT,
    DepthwiseStage,
    DepthwiseTensor,
    PlainImage,
)
from opserve_kernels.convolution import WIDTH, Triple
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load, store
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]


@compiled()
def load_values(  # noqa: PLR0913, PLR0917  # arrays and integers
    tensor: DepthwiseTensor,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    first: int,
    place: int,
    length: int,
) -> None:
    """scratch[place + i] = element first + i of a tensor, rounded; a -0 becomes 0."""
    values = scratch[place : place + length]
    load(floats, halves, tensor.layout, tensor.number_format, first, values)


@compiled()
def store_values(  # noqa: PLR0913, PLR0917  # arrays and integers
    tensor: DepthwiseTensor,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    first: int,
    place: int,
    length: int,
) -> None:
    """Element first + i of a tensor = scratch[place + i], which is rounded in the workspace."""
    values = scratch[place : place + length]
    store(values, tensor.number_format, tensor.layout, first, floats, halves)


@compiled()
def extent_of(stage: DepthwiseStage) -> Triple:
    """Sizes of a plane of the copy."""
    extent = stage.blocks.extent
    return extent[0], extent[1], extent[2]


@compiled()
def result_stride(stage: DepthwiseStage) -> Triple:
    """Phases of the result along each axis."""
    stride = stage.geometry.stride
    return (stride[0], stride[1], stride[2]) if stage.kind == WEIGH_OUTPUT else (1, 1, 1)


@compiled()
def _source_stride(stage: DepthwiseStage) -> Triple:
    stride = stage.geometry.stride
    return (1, 1, 1) if stage.kind == WEIGH_OUTPUT else (stride[0], stride[1], stride[2])


@compiled()
def result_size(stage: DepthwiseStage) -> Triple:
    """Positions of the result; for COMPARE, positions that are summed over."""
    shape = stage.geometry
    size = shape.input_size if stage.kind == WEIGH_OUTPUT else shape.output_size
    return size[0], size[1], size[2]


@compiled()
def source_size(stage: DepthwiseStage) -> Triple:
    """Positions of the source."""
    shape = stage.geometry
    size = shape.output_size if stage.kind == WEIGH_OUTPUT else shape.input_size
    return size[0], size[1], size[2]


@compiled()
def phases_along(stride: Triple, phase: int) -> Triple:
    """A phase along each axis."""
    # The usual call has one phase; it takes no division.
    if phase == 0:
        return 0, 0, 0
    return phase // stride[2] // stride[1], phase // stride[2] % stride[1], phase % stride[2]


@compiled()
def positions_of(size: Triple, stride: Triple, phases: Triple) -> Triple:
    """Positions that a phase has along each axis."""
    if stride == (1, 1, 1):
        return size
    return (
        max(0, (size[0] - phases[0] - 1) // stride[0] + 1),
        max(0, (size[1] - phases[1] - 1) // stride[1] + 1),
        max(0, (size[2] - phases[2] - 1) // stride[2] + 1),
    )


@compiled()
def _rows_read(
    stage: DepthwiseStage, size: Triple, stride: int, first: int, count: int
) -> tuple[int, int]:
    """Bounds of a plane's values that a block reads: all, or rows of the outermost axis."""
    axis = stage.blocks.axis
    whole = size[0] * size[1] * size[2]
    # Rows of an inner axis are not contiguous, so the plane is read whole.
    if axis < 0 or (axis > 0 and size[0] > 1) or (axis > 1 and size[1] > 1):
        return 0, whole
    inner = whole // (size[0] if axis == 0 else (size[1] if axis == 1 else size[2]))
    low = max(0, first * stride) * inner
    return min(low, whole), max(min(low, whole), min((first + count) * stride * inner, whole))


@compiled()
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
    """Copies positions first .. last-1 of a phase of planes; target is the place of position 0."""
    start, step, entries = planes
    row = (first[1] * stride[1] + phases[1]) * size[2] + first[2] * stride[2] + phases[2]
    from_ = start + (first[0] * stride[0] + phases[0]) * size[1] * size[2] + row
    to = target + (first[0] * extent[1] + first[1]) * extent[2] + first[2]
    deep, deep_to = stride[0] * size[1] * size[2], extent[1] * extent[2]
    high, high_to = stride[1] * size[2], extent[2]
    counts = (last[1] - first[1], last[2] - first[2])
    # One depth: a single call copies the rows of all planes.
    if last[0] - first[0] == 1:
        whole = (from_, step, high, to, extent[0] * deep_to, high_to, entries, *counts)
        copy_rows_from(read, scratch, whole, stride[2])
        return
    for i in range(entries):
        place = to + i * extent[0] * deep_to
        depth = last[0] - first[0]
        one = (from_ + i * step, deep, high, place, deep_to, high_to, depth, *counts)
        copy_rows_from(read, scratch, one, stride[2])


@compiled()
def _replaced(values: Triple, axis: int, value: int) -> Triple:
    """The values with one of them replaced, along an axis."""
    return (
        value if axis == 0 else values[0],
        value if axis == 1 else values[1],
        value if axis == WIDTH else values[2],
    )


@compiled()
def _spread_phases(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    stage: DepthwiseStage,
    read: Floats,
    scratch: Floats,
    planes: Triple,
    size: Triple,
    stride: Triple,
    rows: tuple[int, int],
    target: int,
) -> None:
    """Copies planes (place of position 0, pitch, how many); of cut planes, rows (first, count)."""
    extent, axis = extent_of(stage), stage.blocks.axis
    elements = extent[0] * extent[1] * extent[2]
    pitch = extent[1] * extent[2] if axis == 0 else (extent[2] if axis == 1 else 1)
    for phase in range(stride[0] * stride[1] * stride[2]):
        phases = phases_along(stride, phase)
        first, last = (0, 0, 0), positions_of(size, stride, phases)
        place = target + phase * stage.phase_pitch
        if axis >= 0:
            found = last[0] if axis == 0 else (last[1] if axis == 1 else last[2])
            begin, end = max(0, rows[0]), min(found, rows[0] + rows[1])
            # The copy of the block before is still there. Where this block has fewer rows, at an
            # edge of the image, padding must replace its values; elsewhere the new values do.
            if end - begin < rows[1]:
                scratch[place : place + elements] = PADDING
            first, last = _replaced(first, axis, begin), _replaced(last, axis, max(begin, end))
            place -= rows[0] * pitch
        _spread(read, scratch, planes, size, stride, phases, first, last, extent, place)


@compiled()
def planes_of(plain: PlainImage, planes: Triple) -> Triple:
    """Start, pitch and number of plain planes (channel, first entry, entries)."""
    channel, entry, some = planes
    start = plain.start + channel * plain.channel_step + entry * plain.entry_step
    return start, plain.entry_step, some


@compiled()
def _load_planes(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    stage: DepthwiseStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    tensor: DepthwiseTensor,
    planes: Triple,
    size: Triple,
    stride: Triple,
    rows: tuple[int, int],
    target: int,
) -> None:
    """Loads planes of an operand: plain ones in one copy, others through the line."""
    positions = size[0] * size[1] * size[2]
    if tensor.plain.is_plain:
        found = planes_of(tensor.plain, planes)
        _spread_phases(stage, floats, scratch, found, size, stride, rows, target)
        return
    axis, line, extent = max(0, stage.blocks.axis), stage.line, extent_of(stage)
    step = stride[0] if axis == 0 else (stride[1] if axis == 1 else stride[2])
    low, high = _rows_read(stage, size, step, *rows)
    for i in range(planes[2]):
        first = (planes[0] * stage.geometry.batch + planes[1] + i) * positions + low
        load_values(tensor, scratch, floats, halves, first, line, high - low)
        place = target + i * extent[0] * extent[1] * extent[2]
        _spread_phases(stage, scratch, scratch, (line - low, 0, 1), size, stride, rows, place)


@compiled()
def load_source(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: DepthwiseStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    planes: Triple,
    row: int,
    target: int,
) -> None:
    """Loads planes of the source by phases; of a cut plane, the rows for sums from `row`."""
    blocks = stage.blocks
    # A cut block reads from the row under its lowest shift, as many rows as the copy has.
    axis, first, count = blocks.axis, 0, 0
    if axis >= 0:
        first, count = row + blocks.base[axis], blocks.extent[axis]
    rows = (first, count)
    tensor, size, stride = stage.source_tensor, source_size(stage), _source_stride(stage)
    _load_planes(stage, scratch, floats, halves, tensor, planes, size, stride, rows, target)


@compiled()
def load_output(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: DepthwiseStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    planes: Triple,
    row: int,
    target: int,
) -> None:
    """Loads planes of Y for COMPARE with the copy's pitches; of a cut plane, the block's rows."""
    tensor, size, rows = stage.other_tensor, result_size(stage), (row, stage.blocks.rows)
    _load_planes(stage, scratch, floats, halves, tensor, planes, size, (1, 1, 1), rows, target)


@compiled()
def rows_of(stage: DepthwiseStage, phase: int, row: int) -> Triple:
    """Positions of a phase of the result in a block, along each axis."""
    stride, axis = result_stride(stage), stage.blocks.axis
    found = positions_of(result_size(stage), stride, phases_along(stride, phase))
    if axis < 0:
        return found
    rows = found[0] if axis == 0 else (found[1] if axis == 1 else found[2])
    return _replaced(found, axis, max(0, min(rows - row, stage.blocks.rows)))


@compiled()
def _columns_of(stage: DepthwiseStage, row: int) -> tuple[int, int]:
    """First column and columns of the result in a block."""
    # Only a cut along the width leaves columns out.
    width, stride = result_size(stage)[2], result_stride(stage)[2]
    if stage.blocks.axis != WIDTH:
        return 0, width
    first = row * stride
    return first, min(width - first, stage.blocks.rows * stride)


@compiled()
def _store_rows(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: DepthwiseStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    source: int,
    index: int,
    rows: int,
    width: int,
) -> None:
    """Stores rows of the result from their phases, through the line, from element `index` on."""
    line, tensor, extent = stage.line, stage.result_tensor, extent_of(stage)
    numbers = (source, 0, extent[2], line, 0, width, 1, rows, width)
    interleave_phases(scratch, scratch, numbers, result_stride(stage)[2], stage.total_pitch)
    store_values(tensor, scratch, floats, halves, index, line, rows * width)


@compiled()
def store_planes(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: DepthwiseStage,
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
        planes: Channel, first entry and entries of the result.
        phase: The first phase of a row.
        row: First row of a cut block.
    """
    size, stride, extent = result_size(stage), result_stride(stage), extent_of(stage)
    phases, rows, axis = phases_along(stride, phase), rows_of(stage, phase, row), stage.blocks.axis
    positions, plane = size[0] * size[1] * size[2], extent[1] * extent[2]
    deep = (row if axis == 0 else 0) * stride[0] + phases[0]
    high = (row if axis == 1 else 0) * stride[1] + phases[1]
    column, width = _columns_of(stage, row)
    inside, pitch = (deep * size[1] + high) * size[2] + column, stride[1] * size[2]
    depth_pitch, total = stride[0] * size[1] * size[2], stage.total
    # Plain planes of one depth need one call; otherwise one call a plane, or one a run of rows.
    start, step, entries = planes_of(stage.result_tensor.plain, planes)
    if stage.result_tensor.plain.is_plain and rows[0] == 1:
        place = (start + inside, step, pitch, entries, rows[1], width)
        whole = (total, extent[0] * plane, extent[2], *place)
        interleave_phases(scratch, floats, whole, stride[2], stage.total_pitch)
        return
    for i in range(entries):
        # Sums of an entry begin an extent after those of the entry before, padding included.
        source = total + i * extent[0] * plane
        if stage.result_tensor.plain.is_plain:
            place = (start + i * step + inside, depth_pitch, pitch, rows[0], rows[1], width)
            one = (source, plane, extent[2], *place)
            interleave_phases(scratch, floats, one, stride[2], stage.total_pitch)
            continue
        # Rows without phases between them and without a cut are contiguous: one store takes all.
        index = (planes[0] * stage.geometry.batch + planes[1] + i) * positions + inside
        together = rows[1] if pitch == width else 1
        for d in range(rows[0]):
            for h in range(0, rows[1], together):
                at, to = source + d * plane + h * extent[2], index + d * depth_pitch + h * pitch
                _store_rows(stage, scratch, floats, halves, at, to, together, width)
