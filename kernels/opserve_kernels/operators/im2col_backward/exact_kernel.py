"""Phase two of aclnnIm2colBackward in float64: the definition, pixel by pixel.

out[n, c, h, w] = sum over taps a, b of grad_output[n, (c * kH + a) * kW + b, i * J + j]
    where there are i, j with h = i * stride + a * dilation - padding, and w likewise of j, b
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.exact_strided import (
    ELEMENTS,
    Doubles,
    Elements,
    Integers,
    elements_of,
    store,
    value_of,
)
from opserve_kernels.loops import compiled, entry
from opserve_kernels.operators.im2col_backward.plan import (
    CHUNK,
    DILATION,
    GRAD_OUTPUT,
    HEIGHT,
    HIGH,
    KERNEL,
    NUMBER_FORMAT,
    OUT,
    PADDING,
    PIXELS,
    STRIDE,
    VIEWS,
    WIDE,
    WIDTH,
)
from opserve_kernels.stages import stages_between
from opserve_kernels.views import VIEW_LENGTH

Bytes = NDArray[np.uint8]


@compiled("int64(int64[::1], int64, int64, int64)")
def _block_at(parameters: Integers, axis: int, pixel: int, tap: int) -> int:
    """The position along an axis of the block whose tap lies on a pixel; -1 if there is none."""
    distance = pixel + parameters[PADDING + axis] - tap * parameters[DILATION + axis]
    if distance < 0 or distance % parameters[STRIDE + axis] != 0:
        return -1
    position = distance // parameters[STRIDE + axis]
    return int(position) if position < parameters[HIGH + axis] else -1


@compiled(f"float64(int64[::1], {ELEMENTS}, int64)")
def _pixel(parameters: Integers, columns: Elements, index: int) -> np.float64:
    """The sum at a pixel, by its row-major index over entries, channels, height and width."""
    height, width = parameters[HEIGHT], parameters[WIDTH]
    plane, h, w = index // width // height, index // width % height, index % width
    length = parameters[HIGH] * parameters[WIDE]
    total = np.float64(0)
    for a in range(parameters[KERNEL]):
        i = _block_at(parameters, 0, h, a)
        if i < 0:
            continue
        for b in range(parameters[KERNEL + 1]):
            j = _block_at(parameters, 1, w, b)
            if j >= 0:
                row = (plane * parameters[KERNEL] + a) * parameters[KERNEL + 1] + b
                place = row * length + i * parameters[WIDE] + j
                total += value_of(columns, parameters[VIEWS:], place)
    return total


@entry(f"void(int64[::1], {ELEMENTS}, {ELEMENTS}, float64[::1], int64, int64)")
def _sum(
    parameters: Integers,
    columns: Elements,
    image: Elements,
    scratch: Doubles,
    first: int,
    last: int,
) -> None:
    """Writes the pixels of the work units first .. last-1, each rounded once."""
    chunk, view = parameters[CHUNK], parameters[VIEWS + VIEW_LENGTH :]
    for unit in range(first, last):
        begin = unit * chunk
        values = scratch[: min(chunk, parameters[PIXELS] - begin)]
        for i in range(values.size):
            values[i] = _pixel(parameters, columns, begin + i)
        store(values, parameters[NUMBER_FORMAT], view, begin, image)


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Writes the image's pixels of the work units first_unit .. last_unit-1.

    Args:
        parameters: Those of the plan.
        tensors: The buffers of grad_output and out.
        workspace: As many bytes as the plan says.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    source, target = elements_of(tensors[GRAD_OUTPUT]), elements_of(tensors[OUT])
    scratch = workspace.view(np.float64)
    for _, stage, first, last in stages_between(parameters, first_unit, last_unit):
        _sum(stage, source, target, scratch, first, last)
