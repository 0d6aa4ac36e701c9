"""Phase one of conv2d_backprop_input: the rules, then operands and results."""

from opserve_kernels.gradient_plan import plan_gradients
from opserve_kernels.gradients import Gradients
from opserve_kernels.number_formats import FLOAT, FLOAT16_SATURATED
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.conv2d_backprop_input.call import Call
from opserve_kernels.operators.conv2d_backprop_input.checks import check
from opserve_kernels.operators.conv2d_backprop_input.contract import DOCUMENTED_RULES, RULES
from opserve_kernels.operators.conv2d_backprop_input.schema import Conv2dBackpropInput
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.tbe_operands import convolution_of, image_operand, weight_operand
from opserve_kernels.tensor import DataType, Tensor, check_tensor

_TENSORS = ("filters", "out_backprop", "res_tensor")
_FILTERS, _OUT_BACKPROP, _RES_TENSOR = range(len(_TENSORS))


def plan(arguments: Conv2dBackpropInput, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call and plans it.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    # Malformed tensors are rejected (161002) before any rule of the vendor: rules rely on their
    # shapes.
    for name in _TENSORS:
        tensor: Tensor | None = getattr(arguments, name)
        if tensor is not None:
            check_tensor(name, tensor, buffer_bytes=None)
    page = PageRules(RULES, profile.name, DOCUMENTED_RULES, options.documented_rules)
    call = check(arguments, profile, page)
    return page.with_warnings(plan_gradients(_gradients(call), profile, options))


def _gradients(call: Call) -> Gradients:
    """One dense product for each superblock; a FLOAT16 result saturates on every profile."""
    result = call.res_tensor
    assert result is not None
    # Source of this rule: the vendor's expected results, which saturate on every product.
    number_format = FLOAT16_SATURATED if result.dtype == DataType.FLOAT16 else FLOAT
    return Gradients(
        convolution=convolution_of(
            call.blocks,
            result.shape,
            call.out_backprop.shape,
            kernel=call.filter_sizes[2:],
            steps=(call.strides, call.padding[::2], call.dilations[2:]),
        ),
        output=image_operand(call.out_backprop, _OUT_BACKPROP),
        weight=weight_operand(call.filters, _FILTERS, call.blocks, taps=call.taps),
        grad_image=image_operand(result, _RES_TENSOR, number_format),
    )
