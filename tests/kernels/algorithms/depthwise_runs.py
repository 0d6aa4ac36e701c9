"""Depthwise cases, and one product of a call run between guards."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast
from zlib import crc32

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.algorithms.direct_cases import (
    GUARD,
    GUARD_VALUE,
    Case,
    Floats,
    expected_image,
    expected_output,
    expected_weight,
    image_operand,
    weight_operand,
)
from kernels.oracles.expectation import Expectation
from opserve_kernels.algorithms.depthwise.layout import DepthwiseStage
from opserve_kernels.algorithms.depthwise.loops import run_depthwise
from opserve_kernels.algorithms.depthwise.plan import depthwise_stages, fits
from opserve_kernels.gradients import Gradients, Operand
from opserve_kernels.records import dtype_of
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

Arrays = tuple[Floats, Floats, Floats]
UNUSED = np.uint32(0xFFFFFFFF)  # a NaN that no kernel writes
IMAGE, WEIGHT, OUTPUT = range(3)
KIND = 99
_PLACES = 3


def _case(multiplier: int = 1, **changes: object) -> Case:
    channels = 3
    case = Case(groups=channels, inputs=channels, outputs=channels * multiplier)
    return replace(case, **changes)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


CASES = {
    "3x3": _case(batch=2),
    "one pixel": _case(size=(1, 1, 1), batch=3),
    "one pixel under one tap": _case(size=(1, 1, 1), kernel=(1, 1, 1), padding=(0, 0, 0)),
    "14x14": _case(size=(1, 14, 14), batch=5),
    "7x7": _case(size=(1, 7, 7), batch=9),
    "5x5 taps": _case(size=(1, 13, 12), kernel=(1, 5, 5), padding=(0, 2, 2), batch=2),
    "7x7 taps": _case(size=(1, 9, 9), kernel=(1, 7, 7), padding=(0, 3, 3)),
    "stride 2": _case(size=(1, 9, 8), stride=(1, 2, 2), batch=2),
    "stride 2, even taps": _case(size=(1, 10, 11), kernel=(1, 4, 2), stride=(1, 2, 2)),
    "stride 3": _case(size=(1, 11, 10), stride=(1, 3, 3), batch=2),
    "stride beyond the kernel": _case(size=(1, 8, 9), kernel=(1, 2, 2), stride=(1, 4, 5)),
    "unlike strides": _case(size=(1, 9, 20), kernel=(1, 4, 5), stride=(1, 3, 2)),
    "dilated": _case(size=(1, 9, 9), dilation=(1, 2, 3), padding=(0, 2, 3)),
    "dilated beyond the image": _case(size=(1, 4, 4), dilation=(1, 6, 6), padding=(0, 6, 6)),
    "dilated and strided": _case(size=(1, 9, 9), dilation=(1, 2, 3), stride=(1, 3, 2)),
    "padding beyond the kernel": _case(size=(1, 3, 4), padding=(0, 5, 6)),
    "more padding behind": _case(size=(1, 6, 6), stride=(1, 2, 2), more=(0, 1, 1)),
    "multiplier": _case(multiplier=3, size=(1, 6, 7), stride=(1, 2, 1), batch=2),
    "1-D": _case(size=(1, 1, 30), kernel=(1, 1, 7), padding=(0, 0, 3), batch=2),
    "1-D, strided": _case(size=(1, 1, 90), kernel=(1, 1, 10), padding=(0, 0, 0), stride=(1, 1, 5)),
    "3-D": _case(size=(4, 5, 6), kernel=(3, 3, 3), padding=(1, 1, 1), batch=2),
    "3-D, strided": _case(size=(5, 4, 6), kernel=(2, 3, 3), padding=(1, 0, 1), stride=(2, 2, 1)),
}
LONG = {
    "rows": _case(size=(1, 20, 21), batch=2),
    "strided rows": _case(size=(1, 33, 14), kernel=(1, 5, 3), stride=(1, 2, 2), batch=2),
    "padded rows": _case(size=(1, 30, 6), padding=(0, 9, 1)),
    "columns": _case(size=(1, 1, 400), kernel=(1, 1, 7), padding=(0, 0, 9), stride=(1, 1, 3)),
    "planes": _case(size=(12, 5, 5), kernel=(3, 3, 3), padding=(1, 1, 1), multiplier=2),
    "one plane of sums": _case(size=(3, 30, 8), kernel=(3, 3, 3), padding=(0, 1, 1)),
}
ORACLES: dict[int, Callable[[Case, Arrays], Expectation]] = {
    IMAGE: expected_image,
    WEIGHT: expected_weight,
    OUTPUT: expected_output,
}
every_result = pytest.mark.parametrize(
    "wanted", [IMAGE, WEIGHT, OUTPUT], ids=["image", "weight", "output"]
)


def operands_of(case: Case, arrays: Arrays) -> tuple[Operand, Operand, Operand]:
    return (
        image_operand(IMAGE, arrays[IMAGE].shape),
        weight_operand(WEIGHT, arrays[WEIGHT].shape, case.groups),
        image_operand(OUTPUT, arrays[OUTPUT].shape),
    )


def gradients_of(case: Case, operands: tuple[Operand, Operand, Operand], wanted: int) -> Gradients:
    image, weight, output = operands
    return Gradients(
        convolution=case.convolution,
        image=None if wanted == IMAGE else image,
        weight=None if wanted == WEIGHT else weight,
        output=None if wanted == OUTPUT else output,
        grad_image=image if wanted == IMAGE else None,
        grad_weight=weight if wanted == WEIGHT else None,
        grad_output=output if wanted == OUTPUT else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    stage: Stage
    workspace_size: int

    def run(self, buffers: list[NDArray[Any]], *, units: int | None = None) -> None:
        """Runs in slices, in a workspace of NaNs between guards."""
        memory = np.full(self.workspace_size // 4 + 2 * GUARD, GUARD_VALUE, dtype=np.float32)
        scratch = memory[GUARD:-GUARD]
        scratch.view(np.uint32)[:] = UNUSED
        parameters = np.array(self.stage.parameters, dtype=np.int64)
        tensors: list[Any] = []
        for place in self.stage.parameters[:_PLACES]:
            data = buffers[place].view(np.uint8)
            whole = data[: data.size // 4 * 4]
            tensors += [whole.view(np.float32), data.view(np.uint16)]
        (record,) = parameters[_PLACES:].view(dtype_of(DepthwiseStage))
        step, run = units or self.stage.units, cast("Callable[..., None]", run_depthwise)
        for first in range(0, self.stage.units, step):
            last = min(first + step, self.stage.units)
            run(record, scratch, scratch.view(np.int32), *tensors, first, last)
        assert np.all(memory[:GUARD] == GUARD_VALUE)
        assert np.all(memory[-GUARD:] == GUARD_VALUE)
        parts = scratch.view(np.uint32).reshape(-1, 128)
        assert np.all(np.any(parts != UNUSED, axis=1)), "a part of the workspace is not used"


def planned_of(gradients: Gradients) -> Planned:
    assert fits(gradients)
    workspace = Workspace()
    (stage,) = depthwise_stages(KIND, gradients, workspace)
    return Planned(stage=stage, workspace_size=workspace.size_bytes)


def result_of(case: Case, arrays: Arrays, wanted: int, *, units: int | None = None) -> Floats:
    """Of contiguous tensors, each between guards."""
    guard = np.full(GUARD, GUARD_VALUE, dtype=np.float32)
    inputs = [np.full_like(a, np.nan) if i == wanted else a for i, a in enumerate(arrays)]
    guarded = [np.concatenate([guard, array.ravel(), guard]) for array in inputs]

    planned = planned_of(gradients_of(case, operands_of(case, arrays), wanted))
    planned.run([array[GUARD:-GUARD] for array in guarded], units=units)

    for place, array in enumerate(guarded):
        assert np.all(array[:GUARD] == GUARD_VALUE)
        assert np.all(array[-GUARD:] == GUARD_VALUE)
        if place != wanted:
            np.testing.assert_array_equal(array[GUARD:-GUARD], inputs[place].ravel())
    return guarded[wanted][GUARD:-GUARD].reshape(arrays[wanted].shape)


def arrays_of(name: str, case: Case) -> Arrays:
    return case.arrays(np.random.default_rng(crc32(name.encode())))
