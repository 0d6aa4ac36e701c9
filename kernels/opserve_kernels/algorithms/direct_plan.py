"""A convolution's products as stages of a call: by direct algorithms, or by Winograd's."""

from dataclasses import replace

from opserve_kernels.algorithms.choice import choose
from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.algorithms.dots_plan import plan_dots
from opserve_kernels.algorithms.packed_plan import plan_packed
from opserve_kernels.algorithms.product import FLAT, GATHER, PACKED, SCATTER, WINOGRAD
from opserve_kernels.algorithms.winograd_plan import plan_winograd, plan_winograd_weight
from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Operand
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

# Kinds of stages; those of opserve_kernels.gradient_plan and exact_plan have other numbers.
CORRELATE, MULTIPLY_DOTS, DEPTHWISE, TRANSFORM, TRANSFORM_WEIGHT = range(20, 25)

INTO_TENSOR = -1
"""Where a gradient of the weight goes that is put into its tensor."""

_NAMES = {PACKED: "packed", FLAT: "flat", WINOGRAD: "winograd"}


def plan_image(
    convolution: Convolution,
    workspace: Workspace,
    *,
    output: Operand,
    weight: Operand,
    result: Operand,
    algorithm: int | None = None,
) -> Stage:
    """X = scatter(W^T Y); the algorithm is PACKED, FLAT, WINOGRAD, or one of the first two."""
    product = Correlation(
        direction=SCATTER, convolution=convolution, source=output, weight=weight, result=result
    )
    return _plan_product("image", product, algorithm, workspace)


def plan_output(
    convolution: Convolution,
    workspace: Workspace,
    *,
    image: Operand,
    weight: Operand,
    result: Operand,
    algorithm: int | None = None,
) -> Stage:
    """Y = W columns(X)."""
    product = Correlation(
        direction=GATHER, convolution=convolution, source=image, weight=weight, result=result
    )
    return _plan_product("output", product, algorithm, workspace)


def plan_weight(  # noqa: PLR0913  # three operands, and where and how
    convolution: Convolution,
    workspace: Workspace,
    *,
    image: Operand,
    output: Operand,
    result: Operand,
    place: int = INTO_TENSOR,
    algorithm: int | None = None,
) -> Stage:
    """W = Y columns(X)^T, into its tensor or to a place of the workspace in order of its parts.

    Winograd's algorithm puts it into its tensor only.
    """
    product = Correlation(
        direction=GATHER, convolution=convolution, source=image, weight=result, result=output
    )
    algorithm = choose(product) if algorithm is None else algorithm
    if algorithm == WINOGRAD:
        assert place == INTO_TENSOR
        stage = plan_winograd_weight(TRANSFORM_WEIGHT, product, workspace)
    else:
        stage = plan_dots(MULTIPLY_DOTS, product, algorithm, place, workspace)
    return replace(stage, algorithm=f"weight: {_NAMES[algorithm]}")


def _plan_product(
    name: str, product: Correlation, algorithm: int | None, workspace: Workspace
) -> Stage:
    algorithm = choose(product) if algorithm is None else algorithm
    if algorithm == WINOGRAD:
        stage = plan_winograd(TRANSFORM, product, workspace)
    else:
        stage = plan_packed(CORRELATE, product, algorithm, workspace)
    return replace(stage, algorithm=f"{name}: {_NAMES[algorithm]}")
