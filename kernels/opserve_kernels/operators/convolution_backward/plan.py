"""Phase one of aclnnConvolutionBackward: the rules, then operands and results."""

from collections.abc import Iterator

from opserve_kernels.convolution import Convolution, three
from opserve_kernels.convolution_operands import (
    channel_operand,
    image_operand,
    weight_operand,
)
from opserve_kernels.cube_math import AS_GIVEN
from opserve_kernels.gradient_plan import plan_gradients, plan_zeros
from opserve_kernels.gradients import ChannelSums, Gradients, Operand
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.convolution_backward.call import Call
from opserve_kernels.operators.convolution_backward.checks import check
from opserve_kernels.operators.convolution_backward.contract import DOCUMENTED_RULES
from opserve_kernels.operators.convolution_backward.error_table import RULES
from opserve_kernels.operators.convolution_backward.rounding import Roundings, roundings_of
from opserve_kernels.operators.convolution_backward.schema import ConvolutionBackward
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.tensor import Tensor, check_tensor

_TENSORS = ("grad_output", "input", "weight", "grad_input", "grad_weight", "grad_bias")
_GRAD_OUTPUT, _INPUT, _WEIGHT, _GRAD_INPUT, _GRAD_WEIGHT, _GRAD_BIAS = range(len(_TENSORS))


def plan(arguments: ConvolutionBackward, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call and plans it: bias, input, weight, as the vendor orders them.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    # Malformed tensors are rejected (161002) before any rule of the vendor: rules rely on their
    # shapes.
    for name, tensor in _tensors(arguments):
        check_tensor(name, tensor, buffer_bytes=None)
    page_rules = PageRules(RULES, profile.name, DOCUMENTED_RULES, options.documented_rules)
    call = check(arguments, profile, page_rules)
    roundings = roundings_of(call, profile)
    # Nothing to sum: the vendor's source fills the gradients of weight and bias with zeros.
    if call.is_empty:
        return page_rules.with_warnings(plan_zeros(_zero_results(call, roundings), profile))
    return page_rules.with_warnings(plan_gradients(_gradients(call, roundings), profile, options))


def _gradients(call: Call, roundings: Roundings) -> Gradients:
    to_input, to_weight, to_bias = call.output_mask
    # Only operands that some result reads are loaded.
    reads_image = to_weight or (to_input and call.transposed)
    reads_output = to_weight or (to_input and not call.transposed)
    image = image_operand(call.input, _INPUT, roundings.input)
    output = image_operand(call.grad_output, _GRAD_OUTPUT, roundings.grad_output)
    # A transposed convolution is the adjoint of a convolution with the same weight: image and
    # output exchange their parts, and its grad_input is a forward convolution.
    if call.transposed:
        image, output = output, image
    weight = weight_operand(call.weight, _WEIGHT, call.groups, roundings.weight)
    grad_input = _grad_input(call, roundings) if to_input else None
    return Gradients(
        convolution=_convolution(call),
        image=image if reads_image else None,
        output=output if reads_output else None,
        weight=weight if to_input else None,
        grad_image=None if call.transposed else grad_input,
        grad_output=grad_input if call.transposed else None,
        grad_weight=_grad_weight(call, roundings) if to_weight else None,
        sums=_sums(call, roundings) if to_bias else None,
    )


def _zero_results(call: Call, roundings: Roundings) -> list[Operand]:
    """The gradients of weight and bias; an empty input's own gradient has no elements."""
    _, to_weight, to_bias = call.output_mask
    results: list[Operand] = []
    if to_weight:
        results.append(_grad_weight(call, roundings))
    if to_bias:
        results.append(_sums(call, roundings).result)
    return results


def _grad_input(call: Call, roundings: Roundings) -> Operand:
    assert call.grad_input is not None
    return image_operand(call.grad_input, _GRAD_INPUT, roundings.grad_input)


def _grad_weight(call: Call, roundings: Roundings) -> Operand:
    assert call.grad_weight is not None
    return weight_operand(call.grad_weight, _GRAD_WEIGHT, call.groups, roundings.grad_weight)


def _sums(call: Call, roundings: Roundings) -> ChannelSums:
    """Sums of grad_output as it was given, without the rounding of products."""
    # The vendor sums grad_output before it converts it for the products.
    bias = call.grad_bias
    assert bias is not None
    return ChannelSums(
        image=image_operand(call.grad_output, _GRAD_OUTPUT, AS_GIVEN),
        result=channel_operand(bias, _GRAD_BIAS, roundings.grad_bias),
    )


def _convolution(call: Call) -> Convolution:
    # The geometry of the plain convolution, also for a transposed one: call.image and call.output
    # have exchanged the tensors. Padding after the image follows from the output's size.
    image, output = call.image[1], call.output[1]
    return Convolution(
        batch=image.shape[0],
        groups=call.groups,
        input_channels=call.weight.shape[1],
        output_channels=call.weight.shape[0] // call.groups,
        input_size=three(image.shape[2:], 1),
        output_size=three(output.shape[2:], 1),
        kernel_size=three(call.weight.shape[2:], 1),
        stride=three(call.stride, 1),
        padding=three(tuple(before for before, _ in call.sides), 0),
        dilation=three(call.dilation, 1),
    )


def _tensors(arguments: ConvolutionBackward) -> Iterator[tuple[str, Tensor]]:
    for name in _TENSORS:
        tensor: Tensor | None = getattr(arguments, name)
        if tensor is not None:
            yield name, tensor
