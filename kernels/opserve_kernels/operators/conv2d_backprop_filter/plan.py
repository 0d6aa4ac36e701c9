"""Phase one of conv2d_backprop_filter: the rules, then operands and results."""

from opserve_kernels.gradient_plan import plan_gradients
from opserve_kernels.gradients import Diagonal, Gradients
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.conv2d_backprop_filter.call import Call
from opserve_kernels.operators.conv2d_backprop_filter.checks import check
from opserve_kernels.operators.conv2d_backprop_filter.contract import DOCUMENTED_RULES, RULES
from opserve_kernels.operators.conv2d_backprop_filter.schema import (
    Conv2dBackpropFilter,
)
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.tbe_operands import convolution_of, image_operand, weight_operand
from opserve_kernels.tensor import Tensor, check_tensor

_TENSORS = ("input_x", "out_backprop", "res_tensor")
_INPUT_X, _OUT_BACKPROP, _RES_TENSOR = range(len(_TENSORS))


def plan(arguments: Conv2dBackpropFilter, profile: Profile, options: PlanOptions) -> Plan:
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
    """One dense product for each superblock, of which only the diagonal is kept, unless raw.

    A superblock with one group and no padding is diagonal throughout.
    """
    assert call.res_tensor is not None
    # Padding before the image only: the rest follows from the size of out_backprop.
    blocks = call.blocks
    convolution = convolution_of(
        blocks,
        call.input_x.shape,
        call.out_backprop.shape,
        kernel=call.filter_sizes[2:],
        steps=(call.strides, call.padding[::2], call.dilations[2:]),
    )
    # The device multiplies whole superblocks. Products of one group's input with another's output
    # are cleared afterwards, as every conversion to FRACTAL_Z has zeros there.
    diagonal = Diagonal(
        groups=blocks.groups,
        extend=blocks.extend,
        input_channels=blocks.input_channels,
        output_channels=blocks.output_channels,
    )
    is_one_group = (
        convolution.input_channels == blocks.input_channels
        and convolution.output_channels == blocks.output_channels
    )
    return Gradients(
        convolution=convolution,
        image=image_operand(call.input_x, _INPUT_X),
        output=image_operand(call.out_backprop, _OUT_BACKPROP),
        grad_weight=weight_operand(
            call.res_tensor,
            _RES_TENSOR,
            blocks,
            taps=call.taps,
        ),
        diagonal=None if call.raw or is_one_group else diagonal,
    )
