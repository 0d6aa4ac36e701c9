"""Stages of a product with a bias.

Most algorithms add it to complete sums before they store them. The others, and all where sums are
rounded before the addition, write sums into the workspace as if that were a tensor. A stage behind
them adds the bias and stores the results. Either way a result is its sum plus the bias.
"""

from dataclasses import replace
from typing import NamedTuple

from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.copy_stages import CopyStage, copy_of, fill, load
from opserve_kernels.gradients import Gradients, Operand
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.product_stages import ADDS_BIAS, product_stages
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.tensor import DataType, contiguous_strides
from opserve_kernels.views import Axis
from opserve_kernels.workspace import Workspace

ADD_BIAS = 6
"""Kind of a stage; those of the other modules have other numbers."""
WORKSPACE = 6
"""Place of the workspace among the buffers of a call, behind those of its tensors."""


class BiasStage(NamedTuple):
    """The record of a stage that adds a bias to sums, and stores them.

    Attributes:
        values: Place of the bias in the workspace, one value for each channel.
        pixels: Pixels of a channel.
        stored: The sums and the result; sums are ordered by channel.
    """

    values: int
    pixels: int
    stored: CopyStage


def biased_stages(
    part: Gradients, algorithm: Algorithm | None, workspace: Workspace
) -> list[Stage]:
    """Stages of a call with one image as its result, and with a bias."""
    bias, result = part.bias, part.grad_output or part.grad_image
    assert bias is not None
    assert result is not None
    if algorithm in ADDS_BIAS and part.unbiased_format == FLOAT:
        values = workspace.reserve(bias.count)
        loaded = load(bias, values, bias.view())
        return [loaded, *product_stages(part, algorithm, workspace, bias=values)]
    sums = workspace.reserve(result.count)
    inside = _sums(result, sums, part.unbiased_format)
    if part.grad_output:
        unbiased = replace(part, bias=None, grad_output=inside)
    else:
        unbiased = replace(part, bias=None, grad_image=inside)
    stages = product_stages(unbiased, algorithm, workspace)
    return [*stages, *_added(bias, result, sums, workspace)]


def bias_stages(bias: Operand, result: Operand, workspace: Workspace) -> list[Stage]:
    """Stages of a result without products: the bias of each channel."""
    sums = workspace.reserve(result.count)
    return [fill(sums, result.count), *_added(bias, result, sums, workspace)]


def _added(bias: Operand, result: Operand, sums: int, workspace: Workspace) -> list[Stage]:
    values = workspace.reserve(bias.count)
    stage = BiasStage(
        values=values,
        pixels=result.count // bias.count,
        stored=copy_of(result, sums, result.view()),
    )
    units = -(-result.count // stage.stored.chunk)
    return [
        load(bias, values, bias.view()),
        Stage(kind=ADD_BIAS, units=units, parameters=encode(stage)),
    ]


def _sums(result: Operand, start: int, number_format: int) -> Operand:
    """The result in the workspace, contiguous in the order of its parts."""
    sizes = tuple(size for part in result.parts for size, _ in part)
    steps = iter(contiguous_strides(sizes))
    parts: tuple[tuple[Axis, ...], ...] = tuple(
        tuple((size, next(steps)) for size, _ in part) for part in result.parts
    )
    return Operand(
        place=WORKSPACE,
        dtype=DataType.FLOAT,
        offset=start,
        parts=parts,
        number_format=number_format,
    )
