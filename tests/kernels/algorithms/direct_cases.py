"""Convolutions for the direct algorithms, run in guarded memory and compared with the oracle."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.oracles.convolution_backward import Geometry, forward, gradients, magnitude
from kernels.oracles.expectation import Doubles, Expectation, expect
from opserve_kernels.algorithms.direct.plan import plan_image, plan_output, plan_weight
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.convolution import Convolution, Triple
from opserve_kernels.gradient_loops import run
from opserve_kernels.gradients import Operand
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.stages import Stage, plan_of
from opserve_kernels.tensor import DataType
from opserve_kernels.workspace import Workspace

Floats = NDArray[np.float32]
GUARD = 1024  # values around every buffer
GUARD_VALUE = np.float32(-7e30)
UNUSED = np.uint32(0xFFFFFFFF)  # a NaN that no kernel writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A convolution; channels are those of all groups."""

    batch: int = 1
    groups: int = 1
    inputs: int = 3
    outputs: int = 5
    size: Triple = (1, 7, 6)
    kernel: Triple = (1, 3, 3)
    stride: Triple = (1, 1, 1)
    padding: Triple = (0, 1, 1)
    dilation: Triple = (1, 1, 1)
    more: Triple = (0, 0, 0)
    """Rows of padding behind the image beyond those before it."""

    @property
    def output_size(self) -> Triple:
        d, h, w = (
            (size + 2 * padding + more - dilation * (kernel - 1) - 1) // stride + 1
            for size, padding, more, dilation, kernel, stride in zip(
                self.size,
                self.padding,
                self.more,
                self.dilation,
                self.kernel,
                self.stride,
                strict=True,
            )
        )
        return d, h, w

    @property
    def convolution(self) -> Convolution:
        return Convolution(
            batch=self.batch,
            groups=self.groups,
            input_channels=self.inputs // self.groups,
            output_channels=self.outputs // self.groups,
            input_size=self.size,
            output_size=self.output_size,
            kernel_size=self.kernel,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
        )

    @property
    def geometry(self) -> Geometry:
        return Geometry(
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            transposed=False,
            groups=self.groups,
        )

    def arrays(self, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Image, weight and output."""
        shapes = (
            (self.batch, self.inputs, *self.size),
            (self.outputs, self.inputs // self.groups, *self.kernel),
            (self.batch, self.outputs, *self.output_size),
        )
        image, weight, output = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
        return image, weight, output


def image_operand(place: int, shape: tuple[int, ...]) -> Operand:
    """A contiguous image (N, C, D, H, W)."""
    steps = _steps(shape)
    axes = list(zip(shape, steps, strict=True))
    return Operand(
        place=place,
        dtype=DataType.FLOAT,
        parts=((axes[1],), (axes[0], *axes[2:])),
        number_format=FLOAT,
    )


def weight_operand(place: int, shape: tuple[int, ...], groups: int) -> Operand:
    """A contiguous weight (K, C / groups, kernel)."""
    steps = _steps(shape)
    group = (groups, shape[0] // groups * steps[0])
    axes = list(zip(shape, steps, strict=True))
    outputs = (shape[0] // groups, steps[0])
    return Operand(
        place=place,
        dtype=DataType.FLOAT,
        parts=((group,), (outputs,), (axes[1],), tuple(axes[2:])),
        number_format=FLOAT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Stages and the operands that they read, by place; the last place is written.

    Those behind the first one stand in for it where it meets values that it cannot do.
    """

    stages: list[Stage]
    workspace: Workspace
    inputs: tuple[Floats, Floats]
    shape: tuple[int, ...]

    def result(self, *, units: int | None = None) -> Floats:
        """Runs in slices; fails if anything is read or written outside of the buffers."""
        buffers = [_guarded(array) for array in self.inputs]
        empty = np.full(self.shape, np.nan, dtype=np.float32)
        buffers.append(_guarded(empty))
        memory = np.full(self.workspace.size_bytes // 4 + 2 * GUARD, GUARD_VALUE, dtype=np.float32)
        scratch = memory[GUARD:-GUARD]
        scratch.view(np.uint32)[:] = UNUSED
        plan = plan_of([self.stages], self.workspace)
        parameters = np.array(plan.parameters, np.int64)
        tensors = [buffer[GUARD:-GUARD].view(np.uint8) for buffer in buffers]
        step = units or plan.units
        for first in range(0, plan.units, step):
            run(parameters, tensors, scratch.view(np.uint8), first, min(first + step, plan.units))
        found = buffers[-1][GUARD:-GUARD].reshape(self.shape).copy()
        for stage in self.stages[1:]:
            scratch[stage.condition] = 1
            run(parameters, tensors, scratch.view(np.uint8), self.stages[0].units, plan.units)
        for buffer in [*buffers, memory]:
            assert np.all(buffer[:GUARD] == GUARD_VALUE)
            assert np.all(buffer[-GUARD:] == GUARD_VALUE)
        for buffer, array in zip(buffers, self.inputs, strict=False):
            np.testing.assert_array_equal(buffer[GUARD:-GUARD], array.ravel())
        parts = scratch.view(np.uint32).reshape(-1, 128)
        assert np.all(np.any(parts != UNUSED, axis=1)), "a part of the workspace is not used"
        return found


def image_run(
    case: Case, arrays: tuple[Floats, Floats, Floats], algorithm: Algorithm | None
) -> Run:
    """Gradient of the image."""
    image, weight, output = arrays
    workspace = Workspace()
    stages = plan_image(
        case.convolution,
        workspace,
        output=image_operand(0, output.shape),
        weight=weight_operand(1, weight.shape, case.groups),
        result=image_operand(2, image.shape),
        algorithm=algorithm,
    )
    return Run(stages=stages, workspace=workspace, inputs=(output, weight), shape=image.shape)


def output_run(
    case: Case, arrays: tuple[Floats, Floats, Floats], algorithm: Algorithm | None
) -> Run:
    """The forward convolution."""
    image, weight, output = arrays
    workspace = Workspace()
    stages = plan_output(
        case.convolution,
        workspace,
        image=image_operand(0, image.shape),
        weight=weight_operand(1, weight.shape, case.groups),
        result=image_operand(2, output.shape),
        algorithm=algorithm,
    )
    return Run(stages=stages, workspace=workspace, inputs=(image, weight), shape=output.shape)


def weight_run(
    case: Case, arrays: tuple[Floats, Floats, Floats], algorithm: Algorithm | None
) -> Run:
    """Gradient of the weight."""
    image, weight, output = arrays
    workspace = Workspace()
    stages = plan_weight(
        case.convolution,
        workspace,
        image=image_operand(0, image.shape),
        output=image_operand(1, output.shape),
        result=weight_operand(2, weight.shape, case.groups),
        algorithm=algorithm,
    )
    return Run(stages=stages, workspace=workspace, inputs=(image, output), shape=weight.shape)


def expected_image(case: Case, arrays: tuple[Floats, Floats, Floats]) -> Expectation:
    terms = case.outputs // case.groups * prod(case.kernel)
    return _expected(case, arrays, lambda found: found.grad_input, terms)


def expected_weight(case: Case, arrays: tuple[Floats, Floats, Floats]) -> Expectation:
    terms = case.batch * prod(case.output_size)
    return _expected(case, arrays, lambda found: found.grad_weight, terms)


def expected_output(case: Case, arrays: tuple[Floats, Floats, Floats]) -> Expectation:
    image, weight, output = (array.astype(np.float64) for array in arrays)
    with np.errstate(invalid="ignore"):
        value = forward(image, weight, output.shape, case.geometry)
        size = forward(np.abs(image), np.abs(weight), output.shape, case.geometry)
    terms = case.inputs // case.groups * prod(case.kernel)
    return expect(value, size, terms=terms, roundings=(DataType.FLOAT,))


def _expected(
    case: Case,
    arrays: tuple[Floats, Floats, Floats],
    pick: Callable[[Any], Doubles],
    terms: int,
) -> Expectation:
    image, weight, output = (array.astype(np.float64) for array in arrays)
    with np.errstate(invalid="ignore"):
        value = pick(gradients(output, image, weight, case.geometry))
        size = pick(magnitude(output, image, weight, case.geometry))
    return expect(value, size, terms=terms, roundings=(DataType.FLOAT,))


def _guarded(array: Floats) -> Floats:
    guard = np.full(GUARD, GUARD_VALUE, dtype=np.float32)
    return np.concatenate([guard, array.ravel(), guard])


def _steps(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]
