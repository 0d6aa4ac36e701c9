"""The gradients of a convolution in float64, for `reference`: direct loops from the definition.

With o an output position, t a tap and i = o * stride + t * dilation - padding where that lies in
the image; n is a batch entry, and a weight's channels k, c are those of their group:
    grad_image[c, n, i]  = sum over k and t of weight[k, c, t] * output[k, n, o]
    grad_output[k, n, o] = sum over c and t of weight[k, c, t] * image[c, n, i]
    grad_weight[k, c, t] = sum over n and o of output[k, n, o] * image[c, n, i]
    sums[c]              = sum over n and i of image[c, n, i]
A result with a bias begins with the value of its channel in place of 0. This module shares with the
float32 loops how operands are stated, viewed and rounded, but no sum.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.convolution import DEPTH, HEIGHT, WIDTH, Geometry
from opserve_kernels.copy_stages import CopyStage, FillStage
from opserve_kernels.loops import compiled, entry, reading
from opserve_kernels.reference_plan import (
    REFERENCE_BIAS,
    REFERENCE_DIAGONAL,
    REFERENCE_FILL,
    REFERENCE_IMAGE,
    REFERENCE_LOAD,
    REFERENCE_OUTPUT,
    REFERENCE_STORE,
    REFERENCE_SUM,
    REFERENCE_WEIGHT,
    ReferenceBias,
    ReferenceDiagonal,
    ReferenceProduct,
    ReferenceSums,
)
from opserve_kernels.reference_strided import (
    ELEMENTS,
    Doubles,
    Elements,
    Integers,
    elements_of,
    load,
    store,
)
from opserve_kernels.stages import stages_between

Bytes = NDArray[np.uint8]
_Indices = tuple[int, int, int, int]

_as_fill = reading(FillStage)
_as_copy = reading(CopyStage)
_as_bias = reading(ReferenceBias)
_as_sums = reading(ReferenceSums)
_as_diagonal = reading(ReferenceDiagonal)
_as_product = reading(ReferenceProduct)


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Runs the work units first_unit .. last_unit-1 of a plan of opserve_kernels.reference_plan.

    Args:
        parameters: The plan's parameters; a copying stage begins with the place of its tensor.
        tensors: The buffers of the schema's tensors, in order; empty without a tensor.
        workspace: A buffer of the plan's size.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    scratch = workspace.view(np.float64)
    for kind, stage, first, last in stages_between(parameters, first_unit, last_unit):
        if kind in _COPIES:
            _COPIES[kind](stage, elements_of(tensors[int(stage[0])]), scratch, first, last)
        else:
            _WITHIN[kind](stage, scratch, first, last)


@entry("void(int64[::1], float64[::1], int64, int64)")
def _fill(numbers: Integers, scratch: Doubles, first: int, last: int) -> None:
    stage = _as_fill(numbers)
    start, chunk = stage.start, stage.chunk
    scratch[start + first * chunk : start + min(last * chunk, stage.length)] = 0.0


@entry("void(int64[::1], float64[::1], int64, int64)")
def _begin_with_bias(numbers: Integers, scratch: Doubles, first: int, last: int) -> None:
    stage = _as_bias(numbers)
    start, chunk = stage.filled.start, stage.filled.chunk
    for element in range(first * chunk, min(last * chunk, stage.filled.length)):
        scratch[start + element] = scratch[stage.values + element // stage.pixels]


@entry(f"void(int64[::1], {ELEMENTS}, float64[::1], int64, int64)")
def _load(numbers: Integers, elements: Elements, scratch: Doubles, first: int, last: int) -> None:
    stage = _as_copy(numbers)
    begin, end = first * stage.chunk, min(last * stage.chunk, stage.length)
    target = scratch[stage.start + begin : stage.start + end]
    load(elements, stage.layout, stage.number_format, begin, target)


@entry(f"void(int64[::1], {ELEMENTS}, float64[::1], int64, int64)")
def _store(numbers: Integers, elements: Elements, scratch: Doubles, first: int, last: int) -> None:
    stage = _as_copy(numbers)
    begin, end = first * stage.chunk, min(last * stage.chunk, stage.length)
    source = scratch[stage.start + begin : stage.start + end]
    store(source, stage.number_format, stage.layout, begin, elements)


@entry(f"void(int64[::1], {ELEMENTS}, float64[::1], int64, int64)")
def _sum(numbers: Integers, elements: Elements, scratch: Doubles, first: int, last: int) -> None:
    """Adds some of a channel's pixels to its total."""
    stage = _as_sums(numbers)
    for unit in range(first, last):
        channel, begin = unit // stage.chunks, unit % stage.chunks * stage.chunk
        loaded = scratch[stage.values :][: min(stage.chunk, stage.pixels - begin)]
        element = channel * stage.pixels + begin
        load(elements, stage.layout, stage.number_format, element, loaded)
        for value in loaded:
            scratch[stage.total + channel] += value


@compiled()
def _share_of(stage: ReferenceProduct, unit: int) -> tuple[int, int, int, int]:
    """First row of a work unit, one past its last, and the same for steps."""
    # A unit is some rows with all their steps, or, where one row has too many, some steps of a row.
    row = unit // stage.chunks * stage.unit_rows
    step = unit % stage.chunks * stage.unit_steps
    return (
        row,
        min(row + stage.unit_rows, stage.rows),
        step,
        min(step + stage.unit_steps, stage.steps),
    )


@compiled()
def _indices(flat: int, second: int, third: int, fourth: int) -> _Indices:
    """The four indices of a flat index, row-major; the last three have these sizes."""
    rest = flat // fourth
    return rest // third // second, rest // third % second, rest % third, flat % fourth


@compiled()
def _after(indices: _Indices, sizes: tuple[int, int, int]) -> _Indices:
    """The next indices, row-major; counting up is several times as fast as dividing."""
    first, second, third, fourth = indices
    fourth += 1
    if fourth == sizes[2]:
        fourth = 0
        third += 1
        if third == sizes[1]:
            third = 0
            second += 1
            if second == sizes[0]:
                second = 0
                first += 1
    return first, second, third, fourth


@compiled()
def _input_line(geometry: Geometry, axis: int, position: int, tap: int) -> int:
    """Position of a tap along an axis of the image, at an output position; -1 if outside."""
    line = position * geometry.stride[axis] + tap * geometry.dilation[axis] - geometry.padding[axis]
    return int(line) if 0 <= line < geometry.input_size[axis] else -1


@compiled()
def _output_line(geometry: Geometry, axis: int, position: int, tap: int) -> int:
    """The output position whose tap is at a position of the image; -1 if there is none."""
    stride = geometry.stride[axis]
    offset = position + geometry.padding[axis] - tap * geometry.dilation[axis]
    # Positions between two steps of the stride belong to no output position under this tap.
    line = offset if stride == 1 else offset // stride
    exists = offset >= 0 and line * stride == offset
    return int(line) if exists and line < geometry.output_size[axis] else -1


@compiled()
def _columns(geometry: Geometry, tap: int) -> tuple[int, int, int]:
    """Output columns first .. last-1 whose tap is inside a line, and its position at column 0."""
    stride, last = geometry.stride[WIDTH], geometry.output_size[WIDTH]
    start = tap * geometry.dilation[WIDTH] - geometry.padding[WIDTH]
    first = 0 if start >= 0 else -(start // stride)
    if start + (last - 1) * stride >= geometry.input_size[WIDTH]:
        last = max(0, (geometry.input_size[WIDTH] - 1 - start) // stride + 1)
    return min(first, last), last, start


@compiled()
def _image_start(geometry: Geometry, channel: int, n: int, d: int, h: int) -> int:
    """Start of a line of the image; channels count over all groups, as in the next two."""
    plane = (channel * geometry.batch + n) * geometry.input_size[DEPTH] + d
    return (plane * geometry.input_size[HEIGHT] + h) * geometry.input_size[WIDTH]


@compiled()
def _output_start(geometry: Geometry, channel: int, n: int, d: int, h: int) -> int:
    plane = (channel * geometry.batch + n) * geometry.output_size[DEPTH] + d
    return (plane * geometry.output_size[HEIGHT] + h) * geometry.output_size[WIDTH]


@compiled()
def _taps_start(geometry: Geometry, k: int, c: int, d: int, h: int) -> int:
    """Start of a line of taps; k counts over all groups, c within one."""
    plane = (k * geometry.input_channels + c) * geometry.kernel_size[DEPTH] + d
    return (plane * geometry.kernel_size[HEIGHT] + h) * geometry.kernel_size[WIDTH]


@compiled()
def _add_to_image(g: Geometry, scratch: Doubles, image: int, taps: int, output: int) -> None:
    """Adds the products of a line of taps and a line of the output to a line of the image.

    Each line begins at a place of the workspace.
    """
    # Tap by tap, so that the innermost loop adds contiguous columns to contiguous columns and needs
    # no bounds: `_columns` leaves padding out.
    stride = g.stride[WIDTH]
    for tap in range(g.kernel_size[WIDTH]):
        first, last, start = _columns(g, tap)
        factor, source = scratch[taps + tap], scratch[output + first : output + last]
        line = scratch[image + start + first * stride :]
        if stride == 1:
            for column in range(source.size):
                line[column] += factor * source[column]
        else:
            for column in range(source.size):
                line[column * stride] += factor * source[column]


@compiled()
def _add_to_output(g: Geometry, scratch: Doubles, output: int, taps: int, image: int) -> None:
    """Adds the products of a line of taps and a line of the image to a line of the output."""
    # As in _add_to_image, with image and output exchanged.
    stride = g.stride[WIDTH]
    for tap in range(g.kernel_size[WIDTH]):
        first, last, start = _columns(g, tap)
        factor, line = scratch[taps + tap], scratch[output + first : output + last]
        source = scratch[image + start + first * stride :]
        if stride == 1:
            for column in range(line.size):
                line[column] += factor * source[column]
        else:
            for column in range(line.size):
                line[column] += factor * source[column * stride]


@compiled()
def _tap_sum(g: Geometry, tap: int, scratch: Doubles, output: int, image: int) -> np.float64:
    """Sum of the products of an output line and the image line's values under a tap."""
    first, last, start = _columns(g, tap)
    stride, total = g.stride[WIDTH], np.float64(0)
    left = scratch[output + first : output + last]
    # A single running sum: in float64 its error is far below the tolerance of float32 results.
    right = scratch[image + start + first * stride :]
    for column in range(left.size):
        total += left[column] * right[column * stride]
    return total


@entry("void(int64[::1], float64[::1], int64, int64)")
def _image(numbers: Integers, scratch: Doubles, first: int, last: int) -> None:
    """Adds to the image; steps are outermost, so the taps of one step serve many rows."""
    stage = _as_product(numbers)
    g = stage.geometry
    total, output, weight = stage.total, stage.left, stage.right
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        # Every result receives its products in the order of the steps, whatever rows a unit has:
        # results do not depend on how units are cut.
        step = _indices(first_step, g.output_channels, g.kernel_size[DEPTH], g.kernel_size[HEIGHT])
        for _step in range(first_step, last_step):
            _, k, tap_d, tap_h = step
            row = _indices(first_row, g.batch, g.input_size[DEPTH], g.input_size[HEIGHT])
            for _row in range(first_row, last_row):
                channel, n, d, h = row
                # Lines without an output line under this row of taps are skipped.
                out_d, out_h = _output_line(g, 0, d, tap_d), _output_line(g, 1, h, tap_h)
                if out_d >= 0 and out_h >= 0:
                    whole_k = channel // g.input_channels * g.output_channels + k
                    line = total + _image_start(g, channel, n, d, h)
                    taps = weight + _taps_start(
                        g, whole_k, channel % g.input_channels, tap_d, tap_h
                    )
                    source = output + _output_start(g, whole_k, n, out_d, out_h)
                    _add_to_image(g, scratch, line, taps, source)
                row = _after(row, (g.batch, g.input_size[DEPTH], g.input_size[HEIGHT]))
            step = _after(step, (g.output_channels, g.kernel_size[DEPTH], g.kernel_size[HEIGHT]))


@entry("void(int64[::1], float64[::1], int64, int64)")
def _output(numbers: Integers, scratch: Doubles, first: int, last: int) -> None:
    """Adds to the output, in the same order as _image."""
    stage = _as_product(numbers)
    g = stage.geometry
    total, image, weight = stage.total, stage.left, stage.right
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        step = _indices(first_step, g.input_channels, g.kernel_size[DEPTH], g.kernel_size[HEIGHT])
        for _step in range(first_step, last_step):
            _, c, tap_d, tap_h = step
            row = _indices(first_row, g.batch, g.output_size[DEPTH], g.output_size[HEIGHT])
            for _row in range(first_row, last_row):
                k, n, d, h = row
                in_d, in_h = _input_line(g, 0, d, tap_d), _input_line(g, 1, h, tap_h)
                if in_d >= 0 and in_h >= 0:
                    line = total + _output_start(g, k, n, d, h)
                    taps = weight + _taps_start(g, k, c, tap_d, tap_h)
                    source = image + _image_start(
                        g, k // g.output_channels * g.input_channels + c, n, in_d, in_h
                    )
                    _add_to_output(g, scratch, line, taps, source)
                row = _after(row, (g.batch, g.output_size[DEPTH], g.output_size[HEIGHT]))
            step = _after(step, (g.input_channels, g.kernel_size[DEPTH], g.kernel_size[HEIGHT]))


# Each row is one value of the weight. Its sum runs over lines of the output, so the innermost loop
# is a dot product of two lines.
@entry("void(int64[::1], float64[::1], int64, int64)")
def _weight(numbers: Integers, scratch: Doubles, first: int, last: int) -> None:
    stage = _as_product(numbers)
    g = stage.geometry
    total, image, output = stage.total, stage.left, stage.right
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        for row in range(first_row, last_row):
            kernel, tap_d, tap_h, tap_w = _indices(
                row, g.kernel_size[DEPTH], g.kernel_size[HEIGHT], g.kernel_size[WIDTH]
            )
            k = kernel // g.input_channels
            # Channels count over all groups: k and c of the same group meet.
            channel = k // g.output_channels * g.input_channels + kernel % g.input_channels
            step = _indices(first_step, g.batch, g.output_size[DEPTH], g.output_size[HEIGHT])
            for _step in range(first_step, last_step):
                _, n, d, h = step
                in_d, in_h = _input_line(g, 0, d, tap_d), _input_line(g, 1, h, tap_h)
                if in_d >= 0 and in_h >= 0:
                    left = output + _output_start(g, k, n, d, h)
                    right = image + _image_start(g, channel, n, in_d, in_h)
                    scratch[total + row] += _tap_sum(g, tap_w, scratch, left, right)
                step = _after(step, (g.batch, g.output_size[DEPTH], g.output_size[HEIGHT]))


@entry("void(int64[::1], float64[::1], int64, int64)")
def _diagonal(numbers: Integers, scratch: Doubles, first: int, last: int) -> None:
    """Sets entries that belong to no group to zero: opserve_kernels.gradients.Diagonal."""
    stage = _as_diagonal(numbers)
    g = stage.geometry
    for unit in range(first, last):
        superblock, k = unit // g.output_channels, unit % g.output_channels
        for c in range(g.input_channels):
            member = c // stage.group_inputs
            kept = member == k // stage.group_outputs and member < stage.extend
            if not kept or superblock * stage.extend + member >= stage.groups:
                taps = stage.start + _taps_start(g, unit, c, 0, 0)
                scratch[taps : taps + g.taps] = 0.0


_COPIES: dict[int, Callable[[Integers, Elements, Doubles, int, int], None]] = {
    REFERENCE_LOAD: _load,
    REFERENCE_STORE: _store,
    REFERENCE_SUM: _sum,
}
_WITHIN: dict[int, Callable[[Integers, Doubles, int, int], None]] = {
    REFERENCE_FILL: _fill,
    REFERENCE_BIAS: _begin_with_bias,
    REFERENCE_IMAGE: _image,
    REFERENCE_OUTPUT: _output,
    REFERENCE_WEIGHT: _weight,
    REFERENCE_DIAGONAL: _diagonal,
}
