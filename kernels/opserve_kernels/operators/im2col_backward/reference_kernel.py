"""Phase two of aclnnIm2colBackward in float64: the definition, pixel by pixel.

out[n, c, h, w] = sum over taps a, b of grad_output[n, (c * kH + a) * kW + b, i * J + j]
    where there are i, j with h = i * stride + a * dilation - padding, and w likewise of j, b
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled, entry, reading
from opserve_kernels.operators.im2col_backward.plan import GRAD_OUTPUT, OUT, ReferenceFold
from opserve_kernels.reference_strided import (
    ELEMENTS,
    Doubles,
    Elements,
    Integers,
    elements_of,
    store,
    value_of,
)
from opserve_kernels.stages import stages_between

Bytes = NDArray[np.uint8]

_as_fold = reading(ReferenceFold)


@compiled()
def _block_at(stage: ReferenceFold, axis: int, pixel: int, tap: int) -> int:
    """The position along an axis of the block with a tap on a pixel; -1 without one."""
    # The block's position times the stride must be this distance: no block has a tap here where the
    # stride does not divide it.
    distance = pixel + stage.shape.padding[axis] - tap * stage.shape.dilation[axis]
    if distance < 0 or distance % stage.shape.stride[axis] != 0:
        return -1
    position = distance // stage.shape.stride[axis]
    return position if position < stage.shape.positions[axis] else -1


@compiled()
def _pixel(stage: ReferenceFold, columns: Elements, index: int) -> np.float64:
    """The sum at a pixel, by its row-major index over entries, channels, height and width."""
    # Directly from the definition, with no code of the float32 fold: taps ascend, and a row of taps
    # above or below the image is left out at once.
    height, width = stage.shape.size[0], stage.shape.size[1]
    plane, h, w = index // width // height, index // width % height, index % width
    length = stage.shape.positions[0] * stage.shape.positions[1]
    total = np.float64(0)
    for a in range(stage.shape.kernel[0]):
        i = _block_at(stage, 0, h, a)
        if i < 0:
            continue
        for b in range(stage.shape.kernel[1]):
            j = _block_at(stage, 1, w, b)
            if j >= 0:
                row = (plane * stage.shape.kernel[0] + a) * stage.shape.kernel[1] + b
                place = row * length + i * stage.shape.positions[1] + j
                total += value_of(columns, stage.source_layout, place)
    return total


@entry(f"void(int64[::1], {ELEMENTS}, {ELEMENTS}, float64[::1], int64, int64)")
def _sum(
    numbers: Integers,
    columns: Elements,
    image: Elements,
    scratch: Doubles,
    first: int,
    last: int,
) -> None:
    """Writes the pixels of the work units first .. last-1, each rounded once."""
    stage = _as_fold(numbers)
    chunk, view = stage.chunk, stage.result_layout
    for unit in range(first, last):
        begin = unit * chunk
        values = scratch[: min(chunk, stage.pixels - begin)]
        for i in range(values.size):
            values[i] = _pixel(stage, columns, begin + i)
        store(values, stage.number_format, view, begin, image)


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Writes the image's pixels of the work units first_unit .. last_unit-1.

    Args:
        parameters: The plan's parameters.
        tensors: The buffers of grad_output and out.
        workspace: A buffer of the plan's size.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    source, target = elements_of(tensors[GRAD_OUTPUT]), elements_of(tensors[OUT])
    scratch = workspace.view(np.float64)
    for _, stage, first, last in stages_between(parameters, first_unit, last_unit):
        _sum(stage, source, target, scratch, first, last)
