"""Winograd's algorithm run in guarded memory, and how far its results may be from the oracle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

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
from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.algorithms.product import GATHER, SCATTER
from opserve_kernels.algorithms.winograd import run_winograd
from opserve_kernels.algorithms.winograd_gradient import run_winograd_weight
from opserve_kernels.algorithms.winograd_layout import TILE_RESULTS
from opserve_kernels.algorithms.winograd_plan import plan_winograd, plan_winograd_weight
from opserve_kernels.gradients import Operand
from opserve_kernels.stages import Stage
from opserve_kernels.strided import as_floats, as_halves
from opserve_kernels.workspace import Workspace

Arrays = tuple[Floats, Floats, Floats]
Operands = tuple[Operand, Operand, Operand]
IMAGE, WEIGHT, OUTPUT = range(3)
UNUSED = np.uint32(0xFFFFFFFF)  # a NaN that no kernel writes
PLACES = 3  # that a stage begins with
_DEVIATIONS = 6.0  # beyond which no element of some thousands is expected
_AMPLIFICATION = np.sqrt(27)  # along an axis: opserve_kernels.algorithms.winograd_transforms
_ROUNDINGS = 12.0
_KIND = 99  # of a stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A stage, its loop and its workspace."""

    stage: Stage
    run: Callable[..., None]
    size: int

    def execute(
        self,
        buffers: Sequence[NDArray[np.float32] | NDArray[np.float16]],
        *,
        units: int | None = None,
    ) -> None:
        """Runs it in slices; fails if it writes around the workspace.

        Args:
            buffers: Image, weight and output, of float32 or 16-bit patterns.
            units: Of a slice; all of them without it.
        """
        memory = np.full(self.size // 4 + 2 * GUARD, GUARD_VALUE, dtype=np.float32)
        scratch = memory[GUARD:-GUARD]
        scratch.view(np.uint32)[:] = UNUSED
        stage = np.array(self.stage.parameters, dtype=np.int64)
        views: list[Any] = []
        places: list[int] = stage[:PLACES].tolist()
        for place in places:
            memory_of = np.frombuffer(buffers[place].data, dtype=np.uint8)
            views += [as_floats(memory_of), as_halves(memory_of)]
        step = units or self.stage.units
        for first in range(0, self.stage.units, step):
            last = min(first + step, self.stage.units)
            self.run(stage[PLACES:], scratch, scratch.view(np.int32), *views, first, last)
        assert np.all(memory[:GUARD] == GUARD_VALUE)
        assert np.all(memory[-GUARD:] == GUARD_VALUE)


def operands_of(case: Case, arrays: Arrays) -> Operands:
    """Image, weight and output, contiguous."""
    return (
        image_operand(IMAGE, arrays[IMAGE].shape),
        weight_operand(WEIGHT, arrays[WEIGHT].shape, case.groups),
        image_operand(OUTPUT, arrays[OUTPUT].shape),
    )


def product_of(case: Case, operands: Operands, wanted: int) -> Correlation:
    """The product that computes IMAGE, WEIGHT or OUTPUT of the other two."""
    image, weight, output = operands
    scatters = wanted == IMAGE
    return Correlation(
        direction=SCATTER if scatters else GATHER,
        convolution=case.convolution,
        source=output if scatters else image,
        weight=weight,
        result=image if scatters else output,
    )


def plan(case: Case, operands: Operands, wanted: int) -> Planned:
    """The algorithm, whatever it costs."""
    product, workspace = product_of(case, operands, wanted), Workspace()
    if wanted == WEIGHT:
        stage = plan_winograd_weight(_KIND, product, workspace)
        return Planned(stage=stage, run=run_winograd_weight, size=workspace.size_bytes)
    stage = plan_winograd(_KIND, product, workspace)
    return Planned(stage=stage, run=run_winograd, size=workspace.size_bytes)


def result(case: Case, arrays: Arrays, wanted: int, *, units: int | None = None) -> Floats:
    """One array of the other two; fails if anything is written outside of the buffers."""
    inputs = [
        np.full_like(array, np.nan) if i == wanted else array for i, array in enumerate(arrays)
    ]
    guard = np.full(GUARD, GUARD_VALUE, dtype=np.float32)
    guarded = [np.concatenate([guard, array.ravel(), guard]) for array in inputs]
    planned = plan(case, operands_of(case, arrays), wanted)
    planned.execute([array[GUARD:-GUARD] for array in guarded], units=units)
    for place, array in enumerate(guarded):
        assert np.all(array[:GUARD] == GUARD_VALUE)
        assert np.all(array[-GUARD:] == GUARD_VALUE)
        if place != wanted:
            np.testing.assert_array_equal(array[GUARD:-GUARD], inputs[place].ravel())
    return guarded[wanted][GUARD:-GUARD].reshape(arrays[wanted].shape)


def with_transforms(case: Case, expectation: Expectation, wanted: int) -> Expectation:
    """The expectation of values of variance 1, and the transforms' error besides.

    opserve_kernels.algorithms.winograd_transforms derives u sqrt(terms / 6 + 12) k relative to
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
