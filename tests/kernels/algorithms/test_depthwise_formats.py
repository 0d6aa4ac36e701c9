"""The depthwise algorithm with tensors of 16 bits, whose channels are last."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.algorithms.depthwise_runs import (
    CASES,
    IMAGE,
    ORACLES,
    OUTPUT,
    WEIGHT,
    arrays_of,
    every_result,
    gradients_of,
    operands_of,
    planned_of,
)
from kernels.algorithms.direct_cases import Floats
from opserve_kernels.algorithms.depthwise import plan as depthwise_plan
from opserve_kernels.gradients import Operand
from opserve_kernels.number_formats import BF16, FLOAT16
from opserve_kernels.tensor import DataType


def _channels_last(operand: Operand, shape: tuple[int, ...], offset: int) -> Operand:
    batch, channels, *positions = shape
    steps = [channels * prod(positions[axis + 1 :]) for axis in range(len(positions))]
    axes = tuple(zip(positions, steps, strict=True))
    entries = (batch, channels * prod(positions))
    return replace(operand, offset=offset, parts=(((channels, 1),), (entries, *axes)))


def _as_patterns(array: Floats, dtype: DataType) -> NDArray[np.uint16]:
    if dtype == DataType.FLOAT16:
        return array.astype(np.float16).view(np.uint16)
    return (array.view(np.uint32) >> 16).astype(np.uint16)


def _as_values(patterns: NDArray[np.uint16], dtype: DataType) -> Floats:
    if dtype == DataType.FLOAT16:
        return patterns.view(np.float16).astype(np.float32)
    return (patterns.astype(np.uint32) << 16).view(np.float32)


@every_result
@pytest.mark.parametrize("name", ["3x3", "stride 2", "stride 3", "1-D", "3-D, strided"])
@pytest.mark.parametrize("limits", [(100, 0), (4096, 0), (4096, 4096)])
@pytest.mark.parametrize(
    ("dtype", "number_format"), [(DataType.FLOAT16, FLOAT16), (DataType.BF16, BF16)]
)
def test_small_integers_in_halves_and_channels_last_are_exact(
    monkeypatch: pytest.MonkeyPatch,
    dtype: DataType,
    number_format: int,
    limits: tuple[int, int],
    name: str,
    wanted: int,
) -> None:
    monkeypatch.setattr(depthwise_plan, "_COPY_ELEMENTS", limits[0])
    monkeypatch.setattr(depthwise_plan, "_MOST_IN_PLACE", limits[1])
    case, offset = CASES[name], 3
    arrays = arrays_of(name, case)
    for array in arrays:
        array[...] = np.sign(np.round(array)) * (np.abs(array) > 1)
    operands = [
        replace(operand, dtype=dtype, number_format=number_format)
        for operand in operands_of(case, arrays)
    ]
    for place in (IMAGE, OUTPUT):
        operands[place] = _channels_last(operands[place], arrays[place].shape, offset)
    orders = [np.moveaxis(arrays[IMAGE], 1, -1), arrays[WEIGHT], np.moveaxis(arrays[OUTPUT], 1, -1)]
    buffers = [
        np.concatenate([np.full(offset, 7, np.uint16), _as_patterns(order.ravel(), dtype)])
        if place != WEIGHT
        else _as_patterns(order.ravel(), dtype)
        for place, order in enumerate(orders)
    ]
    buffers = [buffer if buffer.size % 2 == 0 else np.append(buffer, 9) for buffer in buffers]
    buffers = [buffer.astype(np.uint16) for buffer in buffers]

    gradients = gradients_of(case, (operands[0], operands[1], operands[2]), wanted)
    planned_of(gradients).run([*buffers])

    start = 0 if wanted == WEIGHT else offset
    written = _as_values(buffers[wanted][start:][: arrays[wanted].size], dtype)
    found = written.reshape(orders[wanted].shape)
    value = ORACLES[wanted](case, arrays).value
    assert np.max(np.abs(value)) < 256
    np.testing.assert_array_equal(found if wanted == WEIGHT else np.moveaxis(found, -1, 1), value)
    assert np.all(buffers[wanted][:start] == 7)
