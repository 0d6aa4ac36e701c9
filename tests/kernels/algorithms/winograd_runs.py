"""Winograd's algorithm run in guarded memory, and how far its results may be from the oracle."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from kernels.algorithms.direct_cases import (
    GUARD,
    GUARD_VALUE,
    Case,
    Floats,
    image_operand,
    weight_operand,
)
from kernels.oracles.expectation import ACCUMULATOR_UNIT, Expectation
from opserve_kernels.algorithms.direct.plan import plan_image, plan_output, plan_weight
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.winograd.layout import TILE_RESULTS
from opserve_kernels.gradient_loops import run
from opserve_kernels.gradients import Operand
from opserve_kernels.stages import Stage, plan_of
from opserve_kernels.workspace import Workspace

Arrays = tuple[Floats, Floats, Floats]
Operands = tuple[Operand, Operand, Operand]
IMAGE, WEIGHT, OUTPUT = range(3)
UNUSED = np.uint32(0xFFFFFFFF)  # a NaN that no kernel writes
_DEVIATIONS = 6.0  # beyond which no element of some thousands is expected
_AMPLIFICATION = np.sqrt(27)  # along an axis: opserve_kernels.algorithms.winograd.transforms
_ROUNDINGS = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Stages and their workspace: that of the transforms, and the one that stands in for it."""

    stages: list[Stage]
    workspace: Workspace

    def execute(
        self,
        buffers: Sequence[NDArray[np.float32] | NDArray[np.float16]],
        *,
        units: int | None = None,
    ) -> bool:
        """Runs it in slices; fails if it writes around the workspace.

        Args:
            buffers: Image, weight and output, of float32 or 16-bit patterns.
            units: Of a slice; all of them without it.

        Returns:
            Whether the stage that stands in for the transforms ran.
        """
        plan = plan_of([self.stages], self.workspace)
        memory = np.full(plan.workspace_size // 4 + 2 * GUARD, GUARD_VALUE, dtype=np.float32)
        scratch = memory[GUARD:-GUARD]
        scratch.view(np.uint32)[:] = UNUSED
        parameters = np.array(plan.parameters, dtype=np.int64)
        tensors = [buffer.view(np.uint8).ravel() for buffer in buffers]
        step = units or plan.units
        for first in range(0, plan.units, step):
            run(parameters, tensors, scratch.view(np.uint8), first, min(first + step, plan.units))
        assert np.all(memory[:GUARD] == GUARD_VALUE)
        assert np.all(memory[-GUARD:] == GUARD_VALUE)
        return bool(scratch[self.stages[-1].condition])


def operands_of(case: Case, arrays: Arrays) -> Operands:
    """Image, weight and output, contiguous."""
    return (
        image_operand(IMAGE, arrays[IMAGE].shape),
        weight_operand(WEIGHT, arrays[WEIGHT].shape, case.groups),
        image_operand(OUTPUT, arrays[OUTPUT].shape),
    )


def plan(
    case: Case, operands: Operands, wanted: int, algorithm: Algorithm = Algorithm.WINOGRAD
) -> Planned:
    """IMAGE, WEIGHT or OUTPUT of the other two by an algorithm, whatever it costs."""
    convolution, workspace = case.convolution, Workspace()
    image, weight, output = operands
    if wanted == IMAGE:
        stages = plan_image(
            convolution, workspace, output=output, weight=weight, result=image, algorithm=algorithm
        )
    elif wanted == WEIGHT:
        stages = plan_weight(
            convolution, workspace, image=image, output=output, result=weight, algorithm=algorithm
        )
    else:
        stages = plan_output(
            convolution, workspace, image=image, weight=weight, result=output, algorithm=algorithm
        )
    return Planned(stages=stages, workspace=workspace)


def result(
    case: Case,
    arrays: Arrays,
    wanted: int,
    *,
    units: int | None = None,
    algorithm: Algorithm = Algorithm.WINOGRAD,
) -> Floats:
    """One array of the other two; fails if anything is written outside of the buffers."""
    inputs = [
        np.full_like(array, np.nan) if i == wanted else array for i, array in enumerate(arrays)
    ]
    guard = np.full(GUARD, GUARD_VALUE, dtype=np.float32)
    guarded = [np.concatenate([guard, array.ravel(), guard]) for array in inputs]
    planned = plan(case, operands_of(case, arrays), wanted, algorithm)
    planned.execute([array[GUARD:-GUARD] for array in guarded], units=units)
    for place, array in enumerate(guarded):
        assert np.all(array[:GUARD] == GUARD_VALUE)
        assert np.all(array[-GUARD:] == GUARD_VALUE)
        if place != wanted:
            np.testing.assert_array_equal(array[GUARD:-GUARD], inputs[place].ravel())
    return guarded[wanted][GUARD:-GUARD].reshape(arrays[wanted].shape)


def with_transforms(case: Case, expectation: Expectation, wanted: int) -> Expectation:
    """The expectation of values of variance 1, and the transforms' error besides.

    opserve_kernels.algorithms.winograd.transforms derives u sqrt(terms / 6 + 12) k relative to
    results whose variance is terms taps^2; k taps is below 27 in two dimensions. A weight's terms
    are tiles.
    """
    channels = {IMAGE: case.outputs, OUTPUT: case.inputs}
    terms = channels.get(wanted, 0) // case.groups
    if wanted == WEIGHT:
        sizes = zip(case.output_size, case.kernel, case.dilation, strict=True)
        terms = case.batch * prod(d * -(-n // (d * TILE_RESULTS[k])) for n, k, d in sizes)
    error = ACCUMULATOR_UNIT * np.sqrt(terms / 6 + _ROUNDINGS)
    amplification = _AMPLIFICATION ** sum(taps > 1 for taps in case.kernel)
    allowed = _DEVIATIONS * error * np.sqrt(terms) * amplification
    return replace(expectation, tolerance=expectation.tolerance + allowed)
