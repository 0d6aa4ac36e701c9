"""The stages of one gradient, by an algorithm that can compute it."""

from collections.abc import Callable
from dataclasses import replace

from opserve_kernels.algorithms.columns.plan import columns_stages
from opserve_kernels.algorithms.correlation.layout import NO_BIAS
from opserve_kernels.algorithms.depthwise.plan import depthwise_stages
from opserve_kernels.algorithms.direct.plan import (
    DEPTHWISE,
    INTO_TENSOR,
    plan_image,
    plan_output,
    plan_weight,
)
from opserve_kernels.algorithms.names import Algorithm, named
from opserve_kernels.copy_stages import keep_diagonal, store
from opserve_kernels.gradients import Gradients, Product
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

# None is the direct algorithm that suits a call.
ADDS_BIAS = (None, Algorithm.PACKED, Algorithm.FLAT, Algorithm.PAIRS, Algorithm.DEPTHWISE)
"""Algorithms that add a bias to complete sums, before they round and store them."""


def product_stages(
    gradients: Gradients,
    algorithm: Algorithm | None,
    workspace: Workspace,
    *,
    bias: int = NO_BIAS,
) -> list[Stage]:
    """Stages of a call with one gradient; without a name, by the direct algorithm that suits it.

    Args:
        gradients: The call.
        algorithm: The algorithm.
        workspace: Provides the parts that the stages need.
        bias: Place in the workspace of a value for each channel of the image that is computed; or
            NO_BIAS. Only for algorithms of ADDS_BIAS.
    """
    (product,) = gradients.products
    assert bias == NO_BIAS or algorithm in ADDS_BIAS
    match algorithm:
        case Algorithm.COLUMNS | Algorithm.COLUMNS_BY_ENTRY:
            by_entry = algorithm is Algorithm.COLUMNS_BY_ENTRY
            stages = columns_stages(gradients, workspace, by_entry=by_entry)
        case Algorithm.DEPTHWISE:
            stages = depthwise_stages(DEPTHWISE, gradients, workspace, bias=bias)
        case _:
            return _STAGES[product](gradients, workspace, algorithm, bias)
    return [replace(stage, algorithm=named(product, algorithm)) for stage in stages]


def _image_stages(
    gradients: Gradients, workspace: Workspace, algorithm: Algorithm | None, bias: int
) -> list[Stage]:
    assert gradients.output is not None
    assert gradients.weight is not None
    assert gradients.grad_image is not None
    return plan_image(
        gradients.convolution,
        workspace,
        output=gradients.output,
        weight=gradients.weight,
        result=gradients.grad_image,
        algorithm=algorithm,
        bias=bias,
    )


def _output_stages(
    gradients: Gradients, workspace: Workspace, algorithm: Algorithm | None, bias: int
) -> list[Stage]:
    assert gradients.image is not None
    assert gradients.weight is not None
    assert gradients.grad_output is not None
    return plan_output(
        gradients.convolution,
        workspace,
        image=gradients.image,
        weight=gradients.weight,
        result=gradients.grad_output,
        algorithm=algorithm,
        bias=bias,
    )


def _weight_stages(
    gradients: Gradients, workspace: Workspace, algorithm: Algorithm | None, _bias: int
) -> list[Stage]:
    """Into the tensor; through the workspace where only groups' own entries are kept."""
    result, convolution = gradients.grad_weight, gradients.convolution
    assert result is not None
    assert gradients.image is not None
    assert gradients.output is not None
    place = INTO_TENSOR
    if gradients.diagonal:
        place = workspace.reserve(convolution.weight_elements)
    stages = plan_weight(
        convolution,
        workspace,
        image=gradients.image,
        output=gradients.output,
        result=result,
        place=place,
        algorithm=algorithm,
    )
    if gradients.diagonal is None:
        return stages
    keep = keep_diagonal(gradients.diagonal, convolution, place)
    return [*stages, keep, store(result, place, result.view())]


_STAGES: dict[Product, Callable[[Gradients, Workspace, Algorithm | None, int], list[Stage]]] = {
    Product.IMAGE: _image_stages,
    Product.OUTPUT: _output_stages,
    Product.WEIGHT: _weight_stages,
}
