"""A convolution's products as stages of a call: by direct algorithms, or by Winograd's."""

from dataclasses import replace

from opserve_kernels.algorithms.choice import choose
from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.algorithms.dots_plan import plan_dots
from opserve_kernels.algorithms.outer_plan import plan_outer
from opserve_kernels.algorithms.packed_plan import plan_packed
from opserve_kernels.algorithms.product import (
    DOTS,
    FLAT,
    GATHER,
    OUTER,
    PACKED,
    SCATTER,
    WINOGRAD,
)
from opserve_kernels.algorithms.unread import without_unread_rows
from opserve_kernels.algorithms.weight_choice import choose_weight
from opserve_kernels.algorithms.winograd_plan import plan_winograd, plan_winograd_weight
from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Operand
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

# Kinds of stages; those of opserve_kernels.gradient_plan and exact_plan have other numbers.
CORRELATE, MULTIPLY_DOTS, DEPTHWISE, TRANSFORM, TRANSFORM_WEIGHT, ADD_OUTER = range(20, 26)

INTO_TENSOR = -1
"""Where a gradient of the weight goes that is put into its tensor."""

_NAMES = {PACKED: "packed", FLAT: "flat", WINOGRAD: "winograd", DOTS: "dots", OUTER: "outer"}


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

    The algorithm is DOTS, OUTER, WINOGRAD or chosen of the first two; the last puts it into its
    tensor only.
    """
    product = Correlation(
        direction=GATHER, convolution=convolution, source=image, weight=result, result=output
    )
    if algorithm is not None and algorithm == WINOGRAD:
        assert place == INTO_TENSOR
        stage = plan_winograd_weight(TRANSFORM_WEIGHT, product, workspace)
    else:
        product = without_unread_rows(product)
        algorithm = choose_weight(product) if algorithm is None else algorithm
        kind, plan = _WEIGHT_PLANS[algorithm]
        stage = plan(kind, product, place, workspace)
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


_WEIGHT_PLANS = {DOTS: (MULTIPLY_DOTS, plan_dots), OUTER: (ADD_OUTER, plan_outer)}
