"""A convolution's products as stages of a call: by direct algorithms, or by Winograd's.

Three kinds of operands are detected only while a call runs: operands with too wide a range for
transforms, which a stage before Winograd's measures; operands that are not finite beside the
padding of dots; and BF16 operands that an instruction for pairs would flush. The detecting stage
raises a flag. The flag enables the stage behind, whose algorithm takes any values, to compute the
product.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from opserve_kernels.algorithms.correlation.layout import GATHER, NO_BIAS, SCATTER
from opserve_kernels.algorithms.correlation.plan import Correlation
from opserve_kernels.algorithms.direct.cost import image_costs, weight_costs
from opserve_kernels.algorithms.dots.plan import plan_dots
from opserve_kernels.algorithms.names import Algorithm, named
from opserve_kernels.algorithms.outer.plan import plan_outer
from opserve_kernels.algorithms.packed.plan import plan_packed
from opserve_kernels.algorithms.preference import preferred
from opserve_kernels.algorithms.ranges.plan import plan_ranges
from opserve_kernels.algorithms.winograd.plan import plan_winograd, plan_winograd_weight
from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Operand, Product
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

# Kinds of stages; those of opserve_kernels.gradient_plan and reference_plan have other numbers.
CORRELATE, MULTIPLY_DOTS, DEPTHWISE, TRANSFORM, TRANSFORM_WEIGHT, ADD_OUTER, RANGES = range(20, 27)

INTO_TENSOR = -1
"""Place of a weight gradient that is written into its tensor."""

DIRECT = {
    Product.IMAGE: (Algorithm.PACKED, Algorithm.FLAT),
    Product.OUTPUT: (Algorithm.PACKED, Algorithm.FLAT),
    Product.WEIGHT: (Algorithm.DOTS, Algorithm.OUTER),
}
"""Algorithms of a gradient without transforms."""


def plan_image(  # noqa: PLR0913  # three operands, where and how, and the bias
    convolution: Convolution,
    workspace: Workspace,
    *,
    output: Operand,
    weight: Operand,
    result: Operand,
    algorithm: Algorithm | None = None,
    bias: int = NO_BIAS,
) -> list[Stage]:
    """X = scatter(W^T Y) + bias, by PACKED, FLAT or WINOGRAD; by default one of the first two."""
    product = Correlation(
        direction=SCATTER,
        convolution=convolution,
        source=output,
        weight=weight,
        result=result,
        bias=bias,
    )
    return _plan_product(Product.IMAGE, product, algorithm, workspace)


def plan_output(  # noqa: PLR0913  # as plan_image
    convolution: Convolution,
    workspace: Workspace,
    *,
    image: Operand,
    weight: Operand,
    result: Operand,
    algorithm: Algorithm | None = None,
    bias: int = NO_BIAS,
) -> list[Stage]:
    """Y = W columns(X) + bias, by the same algorithms."""
    product = Correlation(
        direction=GATHER,
        convolution=convolution,
        source=image,
        weight=weight,
        result=result,
        bias=bias,
    )
    return _plan_product(Product.OUTPUT, product, algorithm, workspace)


def plan_weight(  # noqa: PLR0913  # three operands, and where and how
    convolution: Convolution,
    workspace: Workspace,
    *,
    image: Operand,
    output: Operand,
    result: Operand,
    place: int = INTO_TENSOR,
    algorithm: Algorithm | None = None,
) -> list[Stage]:
    """W = Y columns(X)^T, into its tensor or to a place of the workspace in order of its parts.

    By DOTS, OUTER or WINOGRAD; by default one of the first two. WINOGRAD writes into the tensor
    only.
    """
    product = Correlation(
        direction=GATHER, convolution=convolution, source=image, weight=result, result=output
    )

    # Also called on a trial workspace, to compare sizes: it reserves and returns, nothing else.
    def planned(by: Algorithm, workspace: Workspace) -> list[Stage]:
        if by is Algorithm.OUTER:
            return [plan_outer(ADD_OUTER, product, place, workspace)]
        # OUTER multiplies no padding, so it needs no flag and no other stage.
        flag = workspace.reserve(1)
        # The stage that stands in shares this part: it runs only where the other one gave up.
        with workspace.temporary():
            if by is Algorithm.PAIRS:
                stages = [plan_outer(ADD_OUTER, replace(product, flag=flag), place, workspace)]
            elif by is Algorithm.DOTS:
                stages = [plan_dots(MULTIPLY_DOTS, product, place, flag, workspace)]
            else:
                assert place == INTO_TENSOR
                stages = [
                    _ranges((image, output), flag, workspace),
                    plan_winograd_weight(TRANSFORM_WEIGHT, product, flag, workspace),
                ]
        instead = plan_outer(ADD_OUTER, product, place, workspace)
        return [*stages, replace(instead, condition=flag)]

    algorithm = algorithm or _preferred(weight_costs(product), planned)
    return _labelled(named(Product.WEIGHT, algorithm), planned(algorithm, workspace))


def _plan_product(
    name: Product, product: Correlation, algorithm: Algorithm | None, workspace: Workspace
) -> list[Stage]:
    costs = image_costs(product)
    direct = min(costs, key=costs.__getitem__)

    def planned(by: Algorithm, workspace: Workspace) -> list[Stage]:
        if by in DIRECT[name]:
            return [plan_packed(CORRELATE, product, by, workspace)]
        flag = workspace.reserve(1)
        stages: list[Stage] = []
        if by is Algorithm.WINOGRAD:
            stages = [_ranges((product.source, product.weight), flag, workspace)]
        # The stage that stands in shares this part: it runs only where the other one gave up.
        with workspace.temporary():
            if by is Algorithm.WINOGRAD:
                stages.append(plan_winograd(TRANSFORM, product, flag, workspace))
            else:
                paired = replace(product, flag=flag)
                stages.append(plan_packed(CORRELATE, paired, direct, workspace))
        instead = plan_packed(CORRELATE, product, direct, workspace)
        return [*stages, replace(instead, condition=flag)]

    algorithm = algorithm or _preferred(costs, planned)
    return _labelled(named(name, algorithm), planned(algorithm, workspace))


def _ranges(operands: tuple[Operand, Operand], flag: int, workspace: Workspace) -> Stage:
    with workspace.temporary():
        return plan_ranges(RANGES, operands, flag, workspace)


def _labelled(name: str, stages: list[Stage]) -> list[Stage]:
    return [replace(stages[0], algorithm=name), *stages[1:]]


def _preferred(
    costs: Mapping[Algorithm, float], planned: Callable[[Algorithm, Workspace], list[Stage]]
) -> Algorithm:
    def workspace_bytes(algorithm: Algorithm) -> int:
        workspace = Workspace()
        planned(algorithm, workspace)
        return workspace.size_bytes

    return preferred(costs, workspace_bytes)
