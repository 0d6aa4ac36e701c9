"""Phase two of aclnnIm2colBackward: a pixel of the image is the sum of the columns that lie on it.

out[n, c, h, w] = sum over output rows i, then output columns j, both ascending, of
                  grad_output[n, (c * kH + a) * kW + b, i * J + j]
    where a, b are the taps with h = i * stride + a * dilation - padding, and w likewise of j, b
Sums are float32; on `reference` opserve_kernels.im2col_backward.exact_kernel sums in float64.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.exact_strided import elements_of
from opserve_kernels.im2col_backward.exact_kernel import sum_exactly
from opserve_kernels.im2col_backward.plan import (
    CHUNK,
    DILATION,
    GRAD_OUTPUT,
    HEIGHT,
    HIGH,
    KERNEL,
    NUMBER_FORMAT,
    OUT,
    PADDING,
    STRIDE,
    VALUES,
    VIEWS,
    WIDE,
    WIDTH,
)
from opserve_kernels.loops import compiled
from opserve_kernels.precision import round_all
from opserve_kernels.strided import as_floats, as_halves, load, store
from opserve_kernels.views import VIEW_LENGTH

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Writes the image's rows or pixels of the work units first_unit .. last_unit-1.

    Args:
        parameters: Those of the plan.
        tensors: The buffers of grad_output and out.
        workspace: As many bytes as the plan says.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    if first_unit == last_unit:
        return
    source, target = tensors[GRAD_OUTPUT], tensors[OUT]
    if parameters[CHUNK] > 0:
        scratch = workspace.view(np.float64)
        buffers = elements_of(source), elements_of(target)
        sum_exactly(parameters, *buffers, scratch, first_unit, last_unit)
        return
    _sum_rows(
        parameters,
        as_floats(source),
        as_halves(source),
        as_floats(target),
        as_halves(target),
        workspace.view(np.float32),
        first_unit,
        last_unit,
    )


@compiled("void(int64[::1], float32[::1], uint16[::1], int64, float32[::1], float32[::1])")
def _add_row(
    parameters: Integers,
    floats: Floats,
    halves: Halves,
    line: int,
    values: Floats,
    image: Floats,
) -> None:
    """Adds an output row, under every tap, to a row of the image.

    The taps descend, for a pixel then meets the output columns in ascending order.

    Args:
        parameters: Those of the plan.
        floats: The columns' buffer as float32 values.
        halves: The same as 16-bit patterns.
        line: The columns' row of tap 0, counted in output rows.
        values: Scratch.
        image: The row.
    """
    width, high, wide = parameters[WIDTH], parameters[HIGH], parameters[WIDE]
    stride = parameters[STRIDE + 1]
    for tap in range(parameters[KERNEL + 1] - 1, -1, -1):
        shift = tap * parameters[DILATION + 1] - parameters[PADDING + 1]
        first = max(0, -(shift // stride))
        last = min(wide, (width - 1 - shift) // stride + 1)
        if first < last:
            start = (line + tap * high) * wide + first
            load(floats, halves, parameters[VIEWS:], start, values[first:last])
            for j in range(first, last):
                image[j * stride + shift] += values[j]


@compiled("void(int64[::1], float32[::1], uint16[::1], float32[::1], int64, int64)")
def _sum_row(
    parameters: Integers,
    floats: Floats,
    halves: Halves,
    scratch: Floats,
    row: int,
    plane: int,
) -> None:
    """Sums one row of a plane in the image's part of the workspace."""
    width, high, wide = parameters[WIDTH], parameters[HIGH], parameters[WIDE]
    dilation, stride = parameters[DILATION], parameters[STRIDE]
    image = scratch[:width]
    values = scratch[parameters[VALUES] :][:wide]
    image[:] = np.float32(0)
    reach = row + parameters[PADDING]
    lowest = reach - (parameters[KERNEL] - 1) * dilation
    for i in range(max(0, -(-lowest // stride)), min(high, reach // stride + 1)):
        if (reach - i * stride) % dilation == 0:
            tap = (reach - i * stride) // dilation
            line = (plane * parameters[KERNEL] + tap) * parameters[KERNEL + 1] * high + i
            _add_row(parameters, floats, halves, line, values, image)


@compiled(
    "void(int64[::1], float32[::1], uint16[::1], float32[::1], uint16[::1], float32[::1],"
    "int64, int64)"
)
def _sum_rows(
    parameters: Integers,
    source_floats: Floats,
    source_halves: Halves,
    target_floats: Floats,
    target_halves: Halves,
    scratch: Floats,
    first: int,
    last: int,
) -> None:
    height, width = parameters[HEIGHT], parameters[WIDTH]
    image = scratch[:width]
    views = parameters[VIEWS:]
    for unit in range(first, last):
        row, plane = unit % height, unit // height
        _sum_row(parameters, source_floats, source_halves, scratch, row, plane)
        round_all(image, parameters[NUMBER_FORMAT])
        store(image, views[VIEW_LENGTH:], unit * width, target_floats, target_halves)
