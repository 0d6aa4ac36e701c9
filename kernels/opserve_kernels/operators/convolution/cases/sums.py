"""The sums of a call of convolution, its computation, and its form for `reference`."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.cases.sum import Sum
from opserve_kernels.cube_math import KEEP_DTYPE
from opserve_kernels.forward.cases import (
    axes_of,
    contributing_elements,
    operands_of,
    output_sum,
    without_second_rounding,
)
from opserve_kernels.forward.sizes import RANK_2D
from opserve_kernels.number_formats import Operands
from opserve_kernels.operators.convolution.cases.calls import call_of
from opserve_kernels.operators.convolution.checks import lacks_kernel
from opserve_kernels.tensor import Format

_EDGE = "ascend310b"
_ALLOW_FP32_DOWN_PRECISION = 1


def sums(case: Case) -> tuple[Sum, ...]:
    """The sums of the output."""
    output = case.tensors["output"]
    axes = axes_of(len(output.shape))
    if output.format is Format.NDHWC:
        axes = (axes[0], *axes[2:], axes[1])
    return (output_sum(case, call_of(case), axes),)


def operands(case: Case) -> Mapping[str, Operands]:
    """Roundings of the inputs."""
    return operands_of(case, call_of(case))


def contributing(case: Case) -> Mapping[str, int]:
    """The number for output; 0 for an empty call."""
    return {"output": contributing_elements(call_of(case))}


def supported(case: Case) -> Case | None:
    """The call, with another cube_math_type if the profile needs it; None if unsupported."""
    call = call_of(case)
    if case.profile == _EDGE and (call.steps.transposed or call.input.rank != RANK_2D):
        return None
    if call.computation(case.profile) is None:
        arguments = {**case.arguments, "cube_math_type": _ALLOW_FP32_DOWN_PRECISION}
        case = replace(case, arguments=arguments)
        call = call_of(case)
    if call.computation(case.profile) is None or lacks_kernel(call, case.profile):
        return None
    return without_second_rounding(case, call)


def reference_arguments(case: Case, _: Collection[str]) -> Mapping[str, Value]:
    """The arguments without a product's roundings."""
    return {**case.arguments, "cube_math_type": KEEP_DTYPE}
