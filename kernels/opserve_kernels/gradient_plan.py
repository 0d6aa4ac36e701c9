"""Plans of a convolution's gradients: the stages of a call and the workspace that they share."""

from collections.abc import Sequence
from enum import StrEnum

from opserve_kernels.algorithms import depthwise_plan
from opserve_kernels.algorithms.columns_plan import columns_stages
from opserve_kernels.algorithms.direct_plan import (
    DEPTHWISE,
    INTO_TENSOR,
    plan_image,
    plan_output,
    plan_weight,
)
from opserve_kernels.convolution import Convolution
from opserve_kernels.copy_stages import COPY_ELEMENTS, fill, keep_diagonal, store
from opserve_kernels.exact_plan import plan_exactly, plan_zeros_exactly
from opserve_kernels.gradients import Gradients, Operand
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.profiles import Profile
from opserve_kernels.stages import Stage, pack_stages
from opserve_kernels.workspace import Workspace

SUM_CHANNELS = 4
"""Kind of a stage; those of the other modules have other numbers."""

_SUM_ELEMENTS = 1 << 12  # elements that are summed in lanes at a time
_LANES = 64  # partial sums: opserve_kernels.sums.LANES
_MOST_PHASES = 64  # of a stride
_MOST_PADDED = 16  # times the positions of image and output


class Algorithm(StrEnum):
    """How the products of a call are computed."""

    COLUMNS = "columns"
    DEPTHWISE = "depthwise"
    DIRECT = "direct"


def plan_gradients(gradients: Gradients, profile: Profile, options: PlanOptions) -> Plan:
    """The plan of a call that sums something: channel sums first, then input, then weight."""
    if profile.exact:
        return plan_exactly(gradients)
    plan = _plan_with(choose(gradients), gradients)
    if options.workspace_limit is None or plan.workspace_size <= options.workspace_limit:
        return plan
    smaller = _plan_with(Algorithm.COLUMNS, gradients)
    return min(plan, smaller, key=lambda candidate: candidate.workspace_size)


def _plan_with(algorithm: Algorithm, gradients: Gradients) -> Plan:
    workspace = Workspace()
    stages = _sum_stages(gradients, workspace)
    if gradients.grad_image or gradients.grad_output or gradients.grad_weight:
        stages += _PRODUCTS[algorithm](gradients, workspace)
    return _plan(stages, workspace)


def choose(gradients: Gradients) -> Algorithm:
    """Padded copies are for usual geometries; depthwise is for channels that are groups."""
    if not _is_compact(gradients.convolution):
        return Algorithm.COLUMNS
    return Algorithm.DEPTHWISE if depthwise_plan.fits(gradients) else Algorithm.DIRECT


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
    return _plan(stages, workspace)


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


def _plan(stages: Sequence[Stage], workspace: Workspace) -> Plan:
    return Plan(
        workspace_size=workspace.size_bytes,
        shares=(sum(stage.units for stage in stages),),
        parameters=pack_stages(stages),
    )


def _sum_block(gradients: Gradients) -> int:
    sums = gradients.sums
    return min(_SUM_ELEMENTS, sums.image.count // sums.result.count) if sums else 0


def _sum_stages(gradients: Gradients, workspace: Workspace) -> list[Stage]:
    """Sums in float32 of an image as it was given."""
    if gradients.sums is None:
        return []
    image, result = gradients.sums.image, gradients.sums.result
    pixels = image.count // result.count
    chunks = -(-pixels // COPY_ELEMENTS)
    block, block_size = workspace.reserve(_sum_block(gradients)), _sum_block(gradients)
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


def _direct_stages(gradients: Gradients, workspace: Workspace) -> list[Stage]:
    return [
        *_image_stages(gradients, workspace),
        *_output_stages(gradients, workspace),
        *_weight_stages(gradients, workspace),
    ]


def _depthwise_stages(gradients: Gradients, workspace: Workspace) -> list[Stage]:
    return depthwise_plan.depthwise_stages(DEPTHWISE, gradients, workspace)


def _image_stages(gradients: Gradients, workspace: Workspace) -> list[Stage]:
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
        )
    ]


def _output_stages(gradients: Gradients, workspace: Workspace) -> list[Stage]:
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
        )
    ]


def _weight_stages(gradients: Gradients, workspace: Workspace) -> list[Stage]:
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
    )
    if gradients.diagonal is None:
        return [product]
    keep = keep_diagonal(gradients.diagonal, convolution, place)
    return [product, keep, store(result, place, result.view())]


_PRODUCTS = {
    Algorithm.COLUMNS: columns_stages,
    Algorithm.DEPTHWISE: _depthwise_stages,
    Algorithm.DIRECT: _direct_stages,
}
