"""Plans of a convolution's gradients: the stages of a call and their common workspace."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from opserve_kernels.algorithms.host import SUM_LANES, VARIANT
from opserve_kernels.algorithms.names import Algorithm, requested_algorithms
from opserve_kernels.biased_stages import bias_stages, biased_stages
from opserve_kernels.copy_stages import COPY_ELEMENTS, fill, store
from opserve_kernels.costs import cost_of
from opserve_kernels.errors import check_elements
from opserve_kernels.gradient_choice import Choice, choices, possible
from opserve_kernels.gradients import ChannelSums, Gradients, Operand, Product
from opserve_kernels.operator import PARAMETERS_LIMIT, Plan, PlanOptions
from opserve_kernels.product_stages import product_stages
from opserve_kernels.profiles import Profile
from opserve_kernels.records import encode
from opserve_kernels.reference_plan import (
    plan_reference,
    plan_reference_bias,
    plan_reference_zeros,
)
from opserve_kernels.shares import shares_of
from opserve_kernels.stages import Stage, interleaved, plan_of
from opserve_kernels.tensor import DataType
from opserve_kernels.views import View
from opserve_kernels.workspace import Workspace

SUM_CHANNELS = 4
"""Kind of a stage; those of the other modules have other numbers."""

IN_TENSOR = -1
"""In place of the block of a stage of sums: the image is summed in its tensor."""

_SUM_ELEMENTS = 1 << 12  # elements that are summed in lanes at a time
_MOST_WORKSPACE_BYTES = 1 << 33  # places in tables are int32, of float32 values
_CACHED_VALUES = 1 << 22  # of image and output, 16 MiB: what a last-level cache holds of a call


class SumStage(NamedTuple):
    """The record of a stage of channel sums.

    Attributes:
        image: Place of the image's buffer among those of the call.
        result: Place of the result's buffer.
        totals: Place in the workspace of a total of each channel.
        block: Place of a loaded block; or IN_TENSOR.
        block_size: Elements that are summed in lanes at a time.
        lanes: Place of the lanes.
        channels: Totals.
        pixels: Pixels of a channel.
        chunks: Units of a channel.
        chunk: Pixels of a unit.
        number_format: Format that totals are rounded to.
        image_layout: View of the image.
        result_layout: View of the result.
    """

    image: int
    result: int
    totals: int
    block: int
    block_size: int
    lanes: int
    channels: int
    pixels: int
    chunks: int
    chunk: int
    number_format: int
    image_layout: View
    result_layout: View


def plan_gradients(gradients: Gradients, profile: Profile, options: PlanOptions) -> Plan:
    """The plan of a call that sums something: input first, then weight, then channel sums.

    Raises:
        InvalidArgument: 207001, a tensor has more than MOST_ELEMENTS; 161002, an algorithm is
            requested that cannot compute its gradient.
    """
    convolution = gradients.convolution
    check_elements(
        convolution.image_elements, convolution.output_elements, convolution.weight_elements
    )
    requested: Mapping[Product, Algorithm] = {}
    if options.algorithms:
        requested = requested_algorithms(options.algorithms, possible(gradients, profile, options))
    if profile.is_reference:
        return plan_reference(gradients)
    limit = _MOST_WORKSPACE_BYTES
    # Where results must not depend on the size of the batch, neither may the algorithm.
    if options.workspace_limit is not None and not options.batch_consistent:
        limit = min(limit, options.workspace_limit)
    # Tried in this order: the fastest algorithms on all threads, then on one thread, which needs
    # the workspace of one share, then choices of less workspace. The first plan within the limit
    # wins; if none is, the smallest plan.
    fastest, *others = choices(gradients, requested, options)
    plans: list[Plan] = []
    for choice, threads in ((fastest, options.threads), *((way, 1) for way in (fastest, *others))):
        plan = _plan_with(choice, gradients, replace(options, threads=threads))
        # A message to a worker has no room for more parameters; a plan of one share has fewer.
        if len(plan.parameters) > PARAMETERS_LIMIT:
            continue
        plans.append(plan)
        if plan.workspace_size <= limit:
            return plan
    # Columns, the last choice, need no table.
    fitting = [one for one in plans if one.workspace_size <= _MOST_WORKSPACE_BYTES]
    return min(fitting or plans[-1:], key=lambda plan: plan.workspace_size)


def _plan_with(choice: Choice, gradients: Gradients, options: PlanOptions) -> Plan:
    """The stages of each share: one by one in the same part of the workspace, or interleaved."""
    workspace = Workspace()
    shares: list[list[Stage]] = []
    algorithms: set[str] = set()
    by_turns = _interleaves(choice, gradients, options)
    for parts in shares_of(gradients, options.threads, partial(cost_of, algorithms=choice)):
        stages: list[Stage] = []
        # Stages one after the other reuse a part; interleaved ones need parts of their own.
        for part in parts:
            with nullcontext() if by_turns else workspace.temporary():
                stages += _stages_of(part, choice, workspace)
        algorithms |= {stage.algorithm for stage in stages if stage.algorithm}
        shares.append(interleaved(stages) if by_turns else stages)
        # Threads run shares at the same time, so their parts do not overlap.
        workspace.keep_all()
    # Channel sums have the same order in every variant.
    return plan_of(shares, workspace, algorithms, variant=VARIANT.name if algorithms else "")


def _interleaves(choice: Choice, gradients: Gradients, options: PlanOptions) -> bool:
    """Whether all stages go through the channels together, so that memory is read once.

    That pays where each value takes little work, and where the cache no longer has it when the next
    stage begins. Interleaved stages need workspace of their own. A bias is added to complete sums.
    """
    convolution = gradients.convolution
    # Measured: 2 to 24 % less time with grad_bias, 0 to 13 % without. Dense products lose 1 to 5 %,
    # for another stage displaces their panels from the cache; smaller calls gain nothing.
    return (
        set(choice.values()) == {Algorithm.DEPTHWISE}
        and convolution.image_elements + convolution.output_elements > _CACHED_VALUES
        and options.workspace_limit is None
        and gradients.bias is None
    )


def _stages_of(part: Gradients, choice: Choice, workspace: Workspace) -> list[Stage]:
    if part.sums:
        return [_sum_stage(part.sums, workspace)]
    (product,) = part.products
    if part.bias:
        return biased_stages(part, choice[product], workspace)
    return product_stages(part, choice[product], workspace)


def plan_zeros(
    results: Sequence[Operand], profile: Profile, sums: ChannelSums | None = None
) -> Plan:
    """The plan of a call without products: zeros for every result that has elements, and sums.

    Raises:
        InvalidArgument: 207001, a tensor has more than MOST_ELEMENTS.
    """
    check_elements(*(result.count for result in results), sums.image.count if sums else 0)
    if profile.is_reference:
        return plan_reference_zeros(results, sums)
    wanted = [result for result in results if result.count > 0]
    workspace = Workspace()
    zeros = workspace.reserve(max((result.count for result in wanted), default=0))
    stages: list[Stage] = []
    for result in wanted:
        stages += [fill(zeros, result.count), store(result, zeros, result.view())]
    if sums:
        stages.append(_sum_stage(sums, workspace))
    return plan_of([stages], workspace)


def plan_bias(bias: Operand, result: Operand, profile: Profile) -> Plan:
    """The plan of a call without products whose result is the bias of each channel.

    Raises:
        InvalidArgument: 207001, the result has more than MOST_ELEMENTS.
    """
    check_elements(result.count)
    if profile.is_reference:
        return plan_reference_bias(bias, result)
    workspace = Workspace()
    return plan_of([bias_stages(bias, result, workspace)], workspace)


def _sum_stage(sums: ChannelSums, workspace: Workspace) -> Stage:
    """A stage of sums in float32 over an image as it was given, not as products round it."""
    image, result = sums.image, sums.result
    pixels = image.count // result.count
    chunks = -(-pixels // COPY_ELEMENTS)
    block_size = min(_SUM_ELEMENTS, pixels)
    # Runs of float32 are summed in the tensor; all others are converted block by block.
    runs = image.dtype == DataType.FLOAT and image.view().steps[-1] == 1
    block = IN_TENSOR if runs else workspace.reserve(block_size)
    lanes, totals = workspace.reserve(SUM_LANES), workspace.reserve(result.count)
    stage = SumStage(
        image=image.place,
        result=result.place,
        totals=totals,
        block=block,
        block_size=block_size,
        lanes=lanes,
        channels=result.count,
        pixels=pixels,
        chunks=chunks,
        chunk=COPY_ELEMENTS,
        number_format=result.number_format,
        image_layout=image.view(),
        result_layout=result.view(),
    )
    return Stage(kind=SUM_CHANNELS, units=result.count * chunks, parameters=encode(stage))
