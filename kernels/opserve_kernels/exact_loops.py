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
def _indices(flat: int, second: int, third: int, fourth: int) -> tuple[int, int, int, int]:
    """The indices of a flat one, row-major, where the last three run over these sizes."""
    rest = flat // fourth
    return rest // third // second, rest // third % second, rest % third, flat % fourth


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
    reach = position + geometry[_PADDING + axis] - tap * geometry[_DILATION + axis]
    line = reach // geometry[_STRIDE + axis]
    exists = reach >= 0 and reach % geometry[_STRIDE + axis] == 0
    return int(line) if exists and line < geometry[_OUT_D + axis] else -1


@compiled("UniTuple(int64, 3)(int64[::1], int64)")
def _columns(geometry: Integers, tap: int) -> tuple[int, int, int]:
    """Output columns first .. last-1 whose tap lies inside a line, and where at column 0."""
    start = tap * geometry[_DILATION + WIDTH] - geometry[_PADDING + WIDTH]
    first, last = 0, geometry[_OUT_W]
    while first < last and start + first * geometry[_STRIDE + WIDTH] < 0:
        first += 1
    while first < last and start + (last - 1) * geometry[_STRIDE + WIDTH] >= geometry[_IN_W]:
        last -= 1
    return first, last, start


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


@compiled("void(int64[::1], float64[::1], float64[::1], float64[::1])")
def _add_to_image(geometry: Integers, image: Doubles, taps: Doubles, output: Doubles) -> None:
    """Adds the products of a line of taps and a line of the output to a line of the image."""
    for tap in range(geometry[_TAP_W]):
        first, last, start = _columns(geometry, tap)
        for column in range(first, last):
            image[start + column * geometry[_STRIDE + WIDTH]] += taps[tap] * output[column]


@compiled("void(int64[::1], float64[::1], float64[::1], float64[::1])")
def _add_to_output(geometry: Integers, output: Doubles, taps: Doubles, image: Doubles) -> None:
    """Adds the products of a line of taps and a line of the image to a line of the output."""
    for tap in range(geometry[_TAP_W]):
        first, last, start = _columns(geometry, tap)
        for column in range(first, last):
            output[column] += taps[tap] * image[start + column * geometry[_STRIDE + WIDTH]]


@compiled("float64(int64[::1], int64, float64[::1], float64[::1])")
def _tap_sum(geometry: Integers, tap: int, output: Doubles, image: Doubles) -> np.float64:
    """Sum of the products of a line of the output and what a tap sees of a line of the image."""
    first, last, start = _columns(geometry, tap)
    total = np.float64(0)
    for column in range(first, last):
        total += output[column] * image[start + column * geometry[_STRIDE + WIDTH]]
    return total


@entry("void(int64[::1], float64[::1], int64, int64)")
def _image(stage: Integers, scratch: Doubles, first: int, last: int) -> None:
    g = stage[_GEOMETRY:]
    output, weight = scratch[stage[_LEFT] :], scratch[stage[_RIGHT] :]
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        for row in range(first_row, last_row):
            channel, n, d, h = _indices(row, g[_N], g[_IN_D], g[_IN_H])
            first_k = channel // g[_C] * g[_K]
            line = scratch[stage[_TOTAL] + _image_start(g, channel, n, d, h) :]
            for step in range(first_step, last_step):
                _, k, tap_d, tap_h = _indices(step, g[_K], g[_TAP_D], g[_TAP_H])
                out_d, out_h = _output_line(g, 0, d, tap_d), _output_line(g, 1, h, tap_h)
                if out_d >= 0 and out_h >= 0:
                    taps = weight[_taps_start(g, first_k + k, channel % g[_C], tap_d, tap_h) :]
                    source = output[_output_start(g, first_k + k, n, out_d, out_h) :]
                    _add_to_image(g, line, taps, source)


@entry("void(int64[::1], float64[::1], int64, int64)")
def _output(stage: Integers, scratch: Doubles, first: int, last: int) -> None:
    g = stage[_GEOMETRY:]
    image, weight = scratch[stage[_LEFT] :], scratch[stage[_RIGHT] :]
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        for row in range(first_row, last_row):
            k, n, d, h = _indices(row, g[_N], g[_OUT_D], g[_OUT_H])
            first_channel = k // g[_K] * g[_C]
            line = scratch[stage[_TOTAL] + _output_start(g, k, n, d, h) :]
            for step in range(first_step, last_step):
                _, c, tap_d, tap_h = _indices(step, g[_C], g[_TAP_D], g[_TAP_H])
                in_d, in_h = _input_line(g, 0, d, tap_d), _input_line(g, 1, h, tap_h)
                if in_d >= 0 and in_h >= 0:
                    taps = weight[_taps_start(g, k, c, tap_d, tap_h) :]
                    source = image[_image_start(g, first_channel + c, n, in_d, in_h) :]
                    _add_to_output(g, line, taps, source)


@entry("void(int64[::1], float64[::1], int64, int64)")
def _weight(stage: Integers, scratch: Doubles, first: int, last: int) -> None:
    g = stage[_GEOMETRY:]
    image, output = scratch[stage[_LEFT] :], scratch[stage[_RIGHT] :]
    for unit in range(first, last):
        first_row, last_row, first_step, last_step = _share_of(stage, unit)
        for row in range(first_row, last_row):
            kernel, tap_d, tap_h, tap_w = _indices(row, g[_TAP_D], g[_TAP_H], g[_TAP_W])
            k = kernel // g[_C]
            channel = k // g[_K] * g[_C] + kernel % g[_C]
            for step in range(first_step, last_step):
                _, n, d, h = _indices(step, g[_N], g[_OUT_D], g[_OUT_H])
                in_d, in_h = _input_line(g, 0, d, tap_d), _input_line(g, 1, h, tap_h)
                if in_d >= 0 and in_h >= 0:
                    left = output[_output_start(g, k, n, d, h) :]
                    right = image[_image_start(g, channel, n, in_d, in_h) :]
                    scratch[stage[_TOTAL] + row] += _tap_sum(g, tap_w, left, right)


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
