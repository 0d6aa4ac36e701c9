"""The gradients of a convolution in float64, for `reference`: direct loops from the definition.

With o an output position, t a tap and i = o * stride + t * dilation - padding where that lies in
the image; n is a batch entry, and a weight's channels k, c are those of their group:
    grad_image[c, n, i]  = sum over k and t of weight[k, c, t] * output[k, n, o]
    grad_output[k, n, o] = sum over c and t of weight[k, c, t] * image[c, n, i]
    grad_weight[k, c, t] = sum over n and o of output[k, n, o] * image[c, n, i]
    sums[c]              = sum over n and i of image[c, n, i]
With the float32 loops it shares how operands are stated, viewed and rounded, and no sum.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.convolution import WIDTH
from opserve_kernels.exact_plan import (
    EXACT_DIAGONAL,
    EXACT_FILL,
    EXACT_IMAGE,
    EXACT_LOAD,
    EXACT_OUTPUT,
    EXACT_STORE,
    EXACT_SUM,
    EXACT_WEIGHT,
)
from opserve_kernels.exact_strided import (
    ELEMENTS,
    Doubles,
    Elements,
    Integers,
    elements_of,
    load,
    store,
)
from opserve_kernels.loops import compiled, entry
from opserve_kernels.stages import stages_between

Bytes = NDArray[np.uint8]
_Indices = tuple[int, int, int, int]

# Places of a product's parameters before the geometry, and within it (Convolution.encode).
_TOTAL, _LEFT, _RIGHT, _ROWS, _UNIT_ROWS, _STEPS, _UNIT_STEPS, _CHUNKS, _GEOMETRY = range(9)
_N, _C, _K = 0, 1, 2
_IN_D, _IN_H, _IN_W, _OUT_D, _OUT_H, _OUT_W, _TAP_D, _TAP_H, _TAP_W = range(6, 15)
_STRIDE, _PADDING, _DILATION = range(15, 24, 3)  # of depth, height and width


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Runs the work units first_unit .. last_unit-1 of a plan of opserve_kernels.exact_plan.

    Args:
        parameters: Those of the plan; the first of a stage that copies is the place of its tensor.
        tensors: The buffers of the schema's tensors, in order; empty where there is none.
        workspace: As many bytes as the plan says.
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
def _fill(stage: Integers, scratch: Doubles, first: int, last: int) -> None:
    start, count, chunk = stage[0], stage[1], stage[2]
    scratch[start + first * chunk : start + min(last * chunk, count)] = 0.0


@entry(f"void(int64[::1], {ELEMENTS}, float64[::1], int64, int64)")
def _load(stage: Integers, elements: Elements, scratch: Doubles, first: int, last: int) -> None:
    start, count, chunk, number_format = stage[1], stage[2], stage[3], stage[4]
    begin, end = first * chunk, min(last * chunk, count)
    target = scratch[start + begin : start + end]
    load(elements, stage[5:], number_format, begin, target)


@entry(f"void(int64[::1], {ELEMENTS}, float64[::1], int64, int64)")
def _store(stage: Integers, elements: Elements, scratch: Doubles, first: int, last: int) -> None:
    start, count, chunk, number_format = stage[1], stage[2], stage[3], stage[4]
    begin, end = first * chunk, min(last * chunk, count)
    source = scratch[start + begin : start + end]
    store(source, number_format, stage[5:], begin, elements)


@entry(f"void(int64[::1], {ELEMENTS}, float64[::1], int64, int64)")
def _sum(stage: Integers, elements: Elements, scratch: Doubles, first: int, last: int) -> None:
    """Adds some of a channel's pixels to its total."""
    total, values, number_format = stage[1], stage[2], stage[3]
    pixels, chunks, chunk = stage[4], stage[5], stage[6]
    for unit in range(first, last):
        channel, begin = unit // chunks, unit % chunks * chunk
        loaded = scratch[values : values + min(chunk, pixels - begin)]
        load(elements, stage[7:], number_format, channel * pixels + begin, loaded)
        for value in loaded:
            scratch[total + channel] += value


@compiled("UniTuple(int64, 4)(int64[::1], int64)")
def _share_of(stage: Integers, unit: int) -> tuple[int, int, int, int]:
    """A work unit's first row, one past its last, and the same of steps."""
    row = unit // stage[_CHUNKS] * stage[_UNIT_ROWS]
    step = unit % stage[_CHUNKS] * stage[_UNIT_STEPS]
    return (
        row,
        min(row + stage[_UNIT_ROWS], stage[_ROWS]),
        step,
        min(step + stage[_UNIT_STEPS], stage[_STEPS]),
    )


@compiled("UniTuple(int64, 4)(int64, int64, int64, int64)")
def _indices(flat: int, second: int, third: int, fourth: int) -> _Indices:
    """The indices of a flat one, row-major, where the last three run over these sizes."""
    rest = flat // fourth
    return rest // third // second, rest // third % second, rest % third, flat % fourth


@compiled("UniTuple(int64, 4)(UniTuple(int64, 4), UniTuple(int64, 3))")
def _after(indices: _Indices, sizes: tuple[int, int, int]) -> _Indices:
    """The indices that follow, row-major: divisions take several times as long."""
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


@compiled("int64(int64[::1], int64, int64, int64)")
def _input_line(geometry: Integers, axis: int, position: int, tap: int) -> int:
    """Where a tap at an output position lies along an axis of the image; -1 if outside."""
    line = (
        position * geometry[_STRIDE + axis]
        + tap * geometry[_DILATION + axis]
        - geometry[_PADDING + axis]
    )
    return int(line) if 0 <= line < geometry[_IN_D + axis] else -1


@compiled("int64(int64[::1], int64, int64, int64)")
def _output_line(geometry: Integers, axis: int, position: int, tap: int) -> int:
    """The output position whose tap lies at a position of the image; -1 if there is none."""
    stride = geometry[_STRIDE + axis]
    reach = position + geometry[_PADDING + axis] - tap * geometry[_DILATION + axis]
    line = reach if stride == 1 else reach // stride
    exists = reach >= 0 and line * stride == reach
    return int(line) if exists and line < geometry[_OUT_D + axis] else -1


@compiled("UniTuple(int64, 3)(int64[::1], int64)")
def _columns(geometry: Integers, tap: int) -> tuple[int, int, int]:
    """Output columns first .. last-1 whose tap lies inside a line, and where at column 0."""
    stride, last = geometry[_STRIDE + WIDTH], geometry[_OUT_W]
    start = tap * geometry[_DILATION + WIDTH] - geometry[_PADDING + WIDTH]
    first = 0 if start >= 0 else -(start // stride)
    if start + (last - 1) * stride >= geometry[_IN_W]:
        last = max(0, (geometry[_IN_W] - 1 - start) // stride + 1)
    return min(first, last), last, start


@compiled("int64(int64[::1], int64, int64, int64, int64)")
def _image_start(geometry: Integers, channel: int, n: int, d: int, h: int) -> int:
    """Where a line of the image begins; channels count over all groups, as in the next two."""
    plane = (channel * geometry[_N] + n) * geometry[_IN_D] + d
    return int((plane * geometry[_IN_H] + h) * geometry[_IN_W])


@compiled("int64(int64[::1], int64, int64, int64, int64)")
def _output_start(geometry: Integers, channel: int, n: int, d: int, h: int) -> int:
    plane = (channel * geometry[_N] + n) * geometry[_OUT_D] + d
    return int((plane * geometry[_OUT_H] + h) * geometry[_OUT_W])


@compiled("int64(int64[::1], int64, int64, int64, int64)")
def _taps_start(geometry: Integers, k: int, c: int, d: int, h: int) -> int:
    """Where a line of taps begins; k counts over all groups, c within one."""
    plane = (k * geometry[_C] + c) * geometry[_TAP_D] + d
    return int((plane * geometry[_TAP_H] + h) * geometry[_TAP_W])


@compiled("void(int64[::1], float64[::1], int64, int64, int64)")
def _add_to_image(g: Integers, scratch: Doubles, image: int, taps: int, output: int) -> None:
    """Adds the products of a line of taps and a line of the output to a line of the image.

    Each line begins at a place of the workspace.
    """
    stride = g[_STRIDE + WIDTH]
    for tap in range(g[_TAP_W]):
        first, last, start = _columns(g, tap)
        factor, source = scratch[taps + tap], scratch[output + first : output + last]
        line = scratch[image + start + first * stride :]
        if stride == 1:
            for column in range(source.size):
                line[column] += factor * source[column]
        else:
            for column in range(source.size):
                line[column * stride] += factor * source[column]


@compiled("void(int64[::1], float64[::1], int64, int64, int64)")
def _add_to_output(g: Integers, scratch: Doubles, output: int, taps: int, image: int) -> None:
    """Adds the products of a line of taps and a line of the image to a line of the output."""
    stride = g[_STRIDE + WIDTH]
    for tap in range(g[_TAP_W]):
        first, last, start = _columns(g, tap)
        factor, line = scratch[taps + tap], scratch[output + first : output + last]
        source = scratch[image + start + first * stride :]
        if stride == 1:
            for column in range(line.size):
                line[column] += factor * source[column]
        else:
            for column in range(line.size):
                line[column] += factor * source[column * stride]


@compiled("float64(int64[::1], int64, float64[::1], int64, int64)")
def _tap_sum(g: Integers, tap: int, scratch: Doubles, output: int, image: int) -> np.float64:
    """Sum of the products of a line of the output and what a tap sees of a line of the image."""
    first, last, start = _columns(g, tap)
    stride, total = g[_STRIDE + WIDTH], np.float64(0)
    left = scratch[output + first : output + last]
    right = scratch[image + start + first * stride :]
    for column in range(left.size):
        total += left[column] * right[column * stride]
    return total


@entry("void(int64[::1], float64[::1], int64, int64)")
def _image(stage: Integers, scratch: Doubles, first: int, last: int) -> None:
    """Steps are outside: the taps of one serve many rows."""
    g = stage[_GEOMETRY:]
    total, output, weight = stage[_TOTAL], stage[_LEFT], stage[_RIGHT]
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        step = _indices(first_step, g[_K], g[_TAP_D], g[_TAP_H])
        for _step in range(first_step, last_step):
            _, k, tap_d, tap_h = step
            row = _indices(first_row, g[_N], g[_IN_D], g[_IN_H])
            for _row in range(first_row, last_row):
                channel, n, d, h = row
                out_d, out_h = _output_line(g, 0, d, tap_d), _output_line(g, 1, h, tap_h)
                if out_d >= 0 and out_h >= 0:
                    whole_k = channel // g[_C] * g[_K] + k
                    line = total + _image_start(g, channel, n, d, h)
                    taps = weight + _taps_start(g, whole_k, channel % g[_C], tap_d, tap_h)
                    source = output + _output_start(g, whole_k, n, out_d, out_h)
                    _add_to_image(g, scratch, line, taps, source)
                row = _after(row, (g[_N], g[_IN_D], g[_IN_H]))
            step = _after(step, (g[_K], g[_TAP_D], g[_TAP_H]))


@entry("void(int64[::1], float64[::1], int64, int64)")
def _output(stage: Integers, scratch: Doubles, first: int, last: int) -> None:
    """As _image."""
    g = stage[_GEOMETRY:]
    total, image, weight = stage[_TOTAL], stage[_LEFT], stage[_RIGHT]
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        step = _indices(first_step, g[_C], g[_TAP_D], g[_TAP_H])
        for _step in range(first_step, last_step):
            _, c, tap_d, tap_h = step
            row = _indices(first_row, g[_N], g[_OUT_D], g[_OUT_H])
            for _row in range(first_row, last_row):
                k, n, d, h = row
                in_d, in_h = _input_line(g, 0, d, tap_d), _input_line(g, 1, h, tap_h)
                if in_d >= 0 and in_h >= 0:
                    line = total + _output_start(g, k, n, d, h)
                    taps = weight + _taps_start(g, k, c, tap_d, tap_h)
                    source = image + _image_start(g, k // g[_K] * g[_C] + c, n, in_d, in_h)
                    _add_to_output(g, scratch, line, taps, source)
                row = _after(row, (g[_N], g[_OUT_D], g[_OUT_H]))
            step = _after(step, (g[_C], g[_TAP_D], g[_TAP_H]))


@entry("void(int64[::1], float64[::1], int64, int64)")
def _weight(stage: Integers, scratch: Doubles, first: int, last: int) -> None:
    g = stage[_GEOMETRY:]
    total, image, output = stage[_TOTAL], stage[_LEFT], stage[_RIGHT]
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        for row in range(first_row, last_row):
            kernel, tap_d, tap_h, tap_w = _indices(row, g[_TAP_D], g[_TAP_H], g[_TAP_W])
            k = kernel // g[_C]
            channel = k // g[_K] * g[_C] + kernel % g[_C]
            step = _indices(first_step, g[_N], g[_OUT_D], g[_OUT_H])
            for _step in range(first_step, last_step):
                _, n, d, h = step
                in_d, in_h = _input_line(g, 0, d, tap_d), _input_line(g, 1, h, tap_h)
                if in_d >= 0 and in_h >= 0:
                    left = output + _output_start(g, k, n, d, h)
                    right = image + _image_start(g, channel, n, in_d, in_h)
                    scratch[total + row] += _tap_sum(g, tap_w, scratch, left, right)
                step = _after(step, (g[_N], g[_OUT_D], g[_OUT_H]))


@entry("void(int64[::1], float64[::1], int64, int64)")
def _diagonal(stage: Integers, scratch: Doubles, first: int, last: int) -> None:
    """Zeros what belongs to no group: opserve_kernels.gradients.Diagonal."""
    start, groups, extend, group_k, group_c = stage[0], stage[1], stage[2], stage[3], stage[4]
    g = stage[5:]
    for unit in range(first, last):
        superblock, k = unit // g[_K], unit % g[_K]
        for c in range(g[_C]):
            member = c // group_c
            kept = member == k // group_k and member < extend
            if not kept or superblock * extend + member >= groups:
                taps = start + _taps_start(g, unit, c, 0, 0)
                scratch[taps : taps + g[_TAP_D] * g[_TAP_H] * g[_TAP_W]] = 0.0


_COPIES: dict[int, Callable[[Integers, Elements, Doubles, int, int], None]] = {
    EXACT_LOAD: _load,
    EXACT_STORE: _store,
    EXACT_SUM: _sum,
}
_WITHIN: dict[int, Callable[[Integers, Doubles, int, int], None]] = {
    EXACT_FILL: _fill,
    EXACT_IMAGE: _image,
    EXACT_OUTPUT: _output,
    EXACT_WEIGHT: _weight,
    EXACT_DIAGONAL: _diagonal,
}
