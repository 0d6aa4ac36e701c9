"""The direct algorithms as stages of a call: a convolution's products, without transforms."""

from opserve_kernels.algorithms.choice import choose
from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.algorithms.dots_plan import plan_dots
from opserve_kernels.algorithms.packed_plan import plan_packed
from opserve_kernels.algorithms.product import GATHER, SCATTER
from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Operand
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

# Kinds of stages; those of opserve_kernels.gradient_plan and exact_plan have other numbers.
CORRELATE, MULTIPLY_DOTS, DEPTHWISE = range(20, 23)

INTO_TENSOR = -1
"""Where a gradient of the weight goes that is put into its tensor."""


def plan_image(
    convolution: Convolution,
    workspace: Workspace,
    *,
    output: Operand,
    weight: Operand,
    result: Operand,
    algorithm: int | None = None,
) -> Stage:
    """X = scatter(W^T Y); the algorithm is PACKED, FLAT or chosen."""
    product = Correlation(
        direction=SCATTER, convolution=convolution, source=output, weight=weight, result=result
    )
    return plan_packed(CORRELATE, product, _algorithm(product, algorithm), workspace)


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
    return plan_packed(CORRELATE, product, _algorithm(product, algorithm), workspace)


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
    """W = Y columns(X)^T, into its tensor or to a place of the workspace in order of its parts."""
    product = Correlation(
        direction=GATHER, convolution=convolution, source=image, weight=result, result=output
    )
    return plan_dots(MULTIPLY_DOTS, product, _algorithm(product, algorithm), place, workspace)


def _algorithm(product: Correlation, forced: int | None) -> int:
    return choose(product) if forced is None else forced
