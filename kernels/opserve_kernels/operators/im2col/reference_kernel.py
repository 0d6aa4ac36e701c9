"""Phase two of aclnnIm2col for `reference`: the definition, element by element.

out[n, (c * kH + a) * kW + b, i * J + j] = self[n, c, i * stride + a * dilation - padding,
                                                     j * stride + b * dilation - padding]
    and 0 where that is outside the image
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled, entry, reading
from opserve_kernels.number_formats import DOUBLE, FLOAT
from opserve_kernels.operators.im2col.plan import OUT, SELF, GatherStage
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

_as_gather = reading(GatherStage)


@compiled()
def _axis(stage: GatherStage, axis: int, position: int, tap: int) -> int:
    """The row or column of the image under a tap; -1 outside."""
    shape = stage.shape
    pixel = position * shape.stride[axis] + tap * shape.dilation[axis] - shape.padding[axis]
    return pixel if 0 <= pixel < shape.size[axis] else -1


@compiled()
def _pixel(stage: GatherStage, element: int) -> int:
    """Row-major index in the image of the pixel that an element of out copies; -1 for none."""
    shape = stage.shape
    column = element % (shape.positions[0] * shape.positions[1])
    row = element // (shape.positions[0] * shape.positions[1])
    plane = row // (shape.kernel[0] * shape.kernel[1])
    h = _axis(stage, 0, column // shape.positions[1], row // shape.kernel[1] % shape.kernel[0])
    w = _axis(stage, 1, column % shape.positions[1], row % shape.kernel[1])
    return -1 if h < 0 or w < 0 else (plane * shape.size[0] + h) * shape.size[1] + w


@compiled()
def _place(stage: GatherStage, pixel: int) -> int:
    """Place in its buffer of a pixel."""
    steps, shape = stage.source_steps, stage.shape
    w, h = pixel % shape.size[1], pixel // shape.size[1] % shape.size[0]
    plane = pixel // (shape.size[0] * shape.size[1])
    entry_, channel = plane // stage.channels, plane % stage.channels
    return (
        stage.source_offset + entry_ * steps[0] + channel * steps[1] + h * steps[2] + w * steps[3]
    )


@compiled()
def _target(stage: GatherStage, element: int) -> int:
    """Place in its buffer of an element of out."""
    length = stage.shape.positions[0] * stage.shape.positions[1]
    rows = stage.channels * stage.shape.kernel[0] * stage.shape.kernel[1]
    column, row, steps = element % length, element // length, stage.result_steps
    return stage.result_offset + row // rows * steps[0] + row % rows * steps[1] + column * steps[2]


@compiled()
def _copy(stage: GatherStage, image: Elements, out: Elements, begin: int, end: int) -> None:
    """Copies elements without reading them as numbers: a NaN keeps its bits."""
    doubles, floats, halves = image
    out_doubles, out_floats, out_halves = out
    for element in range(begin, end):
        pixel, target = _pixel(stage, element), _target(stage, element)
        place = max(0, _place(stage, pixel))
        if stage.element_type == DOUBLE:
            out_doubles[target] = doubles[place] if pixel >= 0 else np.float64(0)
        elif stage.element_type == FLOAT:
            out_floats[target] = floats[place] if pixel >= 0 else np.float32(0)
        else:
            out_halves[target] = halves[place] if pixel >= 0 else np.uint16(0)


@entry(f"void(int64[::1], {ELEMENTS}, {ELEMENTS}, float64[::1], int64, int64)")
def _run_gather(
    numbers: Integers,
    image: Elements,
    out: Elements,
    scratch: Doubles,
    first: int,
    last: int,
) -> None:
    """Writes the elements of the work units first .. last-1; another dtype is rounded to once."""
    stage = _as_gather(numbers)
    for unit in range(first, last):
        begin = stage.first + unit * stage.chunk
        end = min(begin + stage.chunk, stage.last)
        if stage.copies:
            _copy(stage, image, out, begin, end)
            continue
        values = scratch[stage.values : stage.values + end - begin]
        for i in range(values.size):
            pixel = _pixel(stage, begin + i)
            values[i] = value_of(image, stage.source_layout, pixel) if pixel >= 0 else 0.0
        store(values, stage.number_format, stage.result_layout, begin, out)


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
    source, target = elements_of(tensors[SELF]), elements_of(tensors[OUT])
    scratch = workspace.view(np.float64)
    for _, stage, first, last in stages_between(parameters, first_unit, last_unit):
        _run_gather(stage, source, target, scratch, first, last)
