"""Plans of a convolution's gradients: the stages of a call and the workspace that they share."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import assert_never

from opserve_kernels.algorithms import depthwise_plan, winograd_cost, winograd_plan
from opserve_kernels.algorithms.columns_plan import columns_stages
from opserve_kernels.algorithms.direct_plan import (
    DEPTHWISE,
    INTO_TENSOR,
    plan_image,
    plan_output,
    plan_weight,
)
from opserve_kernels.algorithms.product import WINOGRAD
from opserve_kernels.convolution import Convolution
from opserve_kernels.copy_stages import COPY_ELEMENTS, fill, keep_diagonal, store
from opserve_kernels.costs import cost_of
from opserve_kernels.exact_plan import plan_exactly, plan_zeros_exactly
from opserve_kernels.gradients import Gradients, Operand, Product
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.profiles import Profile
from opserve_kernels.shares import shares_of
from opserve_kernels.stages import Stage, plan_of
from opserve_kernels.tensor import DataType
from opserve_kernels.workspace import Workspace

SUM_CHANNELS = 4
"""Kind of a stage; those of the other modules have other numbers."""

WHERE_THEY_LIE = -1
"""Instead of where a stage of sums loads a block."""

_SUM_ELEMENTS = 1 << 12  # elements that are summed in lanes at a time
_LANES = 64  # partial sums: opserve_kernels.sums.LANES
_MOST_PHASES = 64  # of a stride
_MOST_PADDED = 16  # times the positions of image and output


class Algorithm(StrEnum):
    """How the products of a call are computed."""

    COLUMNS = "columns"
    DEPTHWISE = "depthwise"
    DIRECT = "direct"
    WINOGRAD = "winograd"  # those that it is faster for; the others are direct


def plan_gradients(gradients: Gradients, profile: Profile, options: PlanOptions) -> Plan:
    """The plan of a call that sums something: channel sums first, then input, then weight."""
    if profile.exact:
        return plan_exactly(gradients)
    algorithm: Algorithm | None = choose(gradients, options)
    threads = options.threads
    plans: list[Plan] = []
    while algorithm is not None:
        plans.append(_plan_with(algorithm, gradients, threads))
        if options.workspace_limit is None or plans[-1].workspace_size <= options.workspace_limit:
            return plans[-1]
        if threads == 1:
            algorithm = _SMALLER.get(algorithm)
        threads = 1
    return min(plans, key=lambda plan: plan.workspace_size)


def _plan_with(algorithm: Algorithm, gradients: Gradients, threads: int) -> Plan:
    """The stages of each share; the parts of a share take turns in its part of the workspace."""
    workspace = Workspace()
    transforms: frozenset[Product] = frozenset()
    if algorithm is Algorithm.WINOGRAD:
        transforms = transformed(gradients)
    stages_of = _stages_of(algorithm, transforms)
    shares: list[list[Stage]] = []
    for parts in shares_of(gradients, threads, partial(cost_of, transformed=transforms)):
        shares.append([])
        for part in parts:
            plan_part = _sum_stages if part.sums else stages_of
            with workspace.passing():
                shares[-1] += plan_part(part, workspace)
        workspace.go_behind()
    plan = plan_of(shares, workspace)
    if not (gradients.grad_image or gradients.grad_output or gradients.grad_weight):
        return plan
    told = sorted({stage.algorithm for stage in chain(*shares) if stage.algorithm})
    return replace(plan, algorithms=tuple(told) or (algorithm.value,))


def choose(gradients: Gradients, options: PlanOptions) -> Algorithm:
    """Padded copies are for usual geometries; depthwise is for channels that are groups."""
    if not _is_compact(gradients.convolution):
        return Algorithm.COLUMNS
    if depthwise_plan.fits(gradients):
        return Algorithm.DEPTHWISE
    if options.strict or not transformed(gradients):
        return Algorithm.DIRECT
    return Algorithm.WINOGRAD


def transformed(gradients: Gradients) -> frozenset[Product]:
    """Which gradients Winograd's algorithm is faster for, of those that it can compute."""
    convolution = gradients.convolution
    if not winograd_plan.fits(convolution):
        return frozenset()
    pays = {
        Product.IMAGE: gradients.grad_image and winograd_cost.image_pays(convolution),
        Product.OUTPUT: gradients.grad_output and winograd_cost.output_pays(convolution),
        Product.WEIGHT: gradients.grad_weight
        and gradients.diagonal is None
        and winograd_cost.weight_pays(convolution),
    }
    return frozenset(product for product, does in pays.items() if does)


def plan_zeros(results: Sequence[Operand], profile: Profile) -> Plan:
    """The plan of a call that has nothing to sum: zeros for every result that has elements."""
    if profile.exact:
        return plan_zeros_exactly(results)
    wanted = [result for result in results if result.count > 0]
    workspace = Workspace()
    zeros = workspace.reserve(max((result.count for result in wanted), default=0))
    stages: list[Stage] = []
    for result in wanted:
        stages += [fill(zeros, result.count), store(result, zeros, result.view())]
    return plan_of([stages], workspace)


def _is_compact(convolution: Convolution) -> bool:
    """Whether a padded copy of the image, and of the output between strides, is of sane size."""
    padded = phases = 1
    for axis, size in enumerate(convolution.input_size):
        stride, padding = convolution.stride[axis], convolution.padding[axis]
        span = (convolution.kernel_size[axis] - 1) * convolution.dilation[axis]
        last = (convolution.output_size[axis] - 1) * stride + span
        padded *= max(size + padding, last + 1)
        phases *= stride
    positions = (convolution.input_pixels + convolution.output_pixels) // convolution.batch
    return phases <= _MOST_PHASES and padded <= _MOST_PADDED * positions + COPY_ELEMENTS


def _sum_stages(gradients: Gradients, workspace: Workspace) -> list[Stage]:
    """Sums in float32 of an image as it was given."""
    if gradients.sums is None:
        return []
    image, result = gradients.sums.image, gradients.sums.result
    pixels = image.count // result.count
    chunks = -(-pixels // COPY_ELEMENTS)
    block_size = min(_SUM_ELEMENTS, pixels)
    runs = image.dtype == DataType.FLOAT and image.view()[-1] == 1
    block = WHERE_THEY_LIE if runs else workspace.reserve(block_size)
    lanes, total = workspace.reserve(_LANES), workspace.reserve(result.count)
    numbers = (image.place, total, block, block_size, lanes)
    return [
        fill(total, result.count),
        Stage(
            kind=SUM_CHANNELS,
            units=result.count * chunks,
            parameters=(*numbers, pixels, chunks, COPY_ELEMENTS, *image.view()),
        ),
        store(result, total, result.view()),
    ]


def _stages_of(
    algorithm: Algorithm, transforms: AbstractSet[Product]
) -> Callable[[Gradients, Workspace], list[Stage]]:
    """What plans parts of a call: which products are transformed is decided for the whole."""
    match algorithm:
        case Algorithm.COLUMNS:
            return columns_stages
        case Algorithm.DEPTHWISE:
            return partial(depthwise_plan.depthwise_stages, DEPTHWISE)
        case Algorithm.DIRECT | Algorithm.WINOGRAD:
            return partial(_product_stages, dict.fromkeys(transforms, WINOGRAD))
        case _:
            assert_never(algorithm)


def _product_stages(
    algorithms: Mapping[Product, int], part: Gradients, workspace: Workspace
) -> list[Stage]:
    """A gradient by the algorithm that is told, or by any direct one."""
    return [
        *_image_stages(part, workspace, algorithms.get(Product.IMAGE)),
        *_output_stages(part, workspace, algorithms.get(Product.OUTPUT)),
        *_weight_stages(part, workspace, algorithms.get(Product.WEIGHT)),
    ]


def _image_stages(gradients: Gradients, workspace: Workspace, algorithm: int | None) -> list[Stage]:
    result = gradients.grad_image
    if result is None:
        return []
    assert gradients.output is not None
    assert gradients.weight is not None
    return [
        plan_image(
            gradients.convolution,
            workspace,
            output=gradients.output,
            weight=gradients.weight,
            result=result,
            algorithm=algorithm,
        )
    ]


def _output_stages(
    gradients: Gradients, workspace: Workspace, algorithm: int | None
) -> list[Stage]:
    result = gradients.grad_output
    if result is None:
        return []
    assert gradients.image is not None
    assert gradients.weight is not None
    return [
        plan_output(
            gradients.convolution,
            workspace,
            image=gradients.image,
            weight=gradients.weight,
            result=result,
            algorithm=algorithm,
        )
    ]


def _weight_stages(
    gradients: Gradients, workspace: Workspace, algorithm: int | None
) -> list[Stage]:
    """Into its tensor, or where only groups' own entries are kept by way of the workspace."""
    result, convolution = gradients.grad_weight, gradients.convolution
    if result is None:
        return []
    assert gradients.image is not None
    assert gradients.output is not None
    place = INTO_TENSOR
    if gradients.diagonal:
        place = workspace.reserve(convolution.weight_elements)
    product = plan_weight(
        convolution,
        workspace,
        image=gradients.image,
        output=gradients.output,
        result=result,
        place=place,
        algorithm=algorithm,
    )
    if gradients.diagonal is None:
        return [product]
    keep = keep_diagonal(gradients.diagonal, convolution, place)
    return [product, keep, store(result, place, result.view())]


_SMALLER = {
    Algorithm.WINOGRAD: Algorithm.DIRECT,
    Algorithm.DIRECT: Algorithm.COLUMNS,
    Algorithm.DEPTHWISE: Algorithm.COLUMNS,
}
"""What mostly needs less workspace."""
