"""Plans of forward convolutions: the operands, and the product with its bias."""

from opserve_kernels.algorithms.names import requested_algorithms
from opserve_kernels.convolution import Convolution, three
from opserve_kernels.convolution_operands import (
    channel_operand,
    image_operand,
    weight_operand,
)
from opserve_kernels.cube_math import AS_GIVEN
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.rounding import Roundings, roundings_of
from opserve_kernels.gradient_plan import plan_bias, plan_gradients
from opserve_kernels.gradients import Gradients
from opserve_kernels.number_formats import result_format
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.profiles import Profile


def plan_forward(
    call: Call, profile: Profile, options: PlanOptions, places: tuple[int, int, int, int]
) -> Plan:
    """The plan of a checked call; an empty one needs no workspace and no work.

    Args:
        call: The call.
        profile: Profile of the device.
        options: Options of the session.
        places: Of input, weight, bias and output among the schema's tensors.
    """
    if call.is_empty:
        # The vendor's source returns before it writes.
        requested_algorithms(options.algorithms, {})
        return Plan(workspace_size=0, shares=(), parameters=())
    gradients = _gradients(call, roundings_of(call, profile), places)
    return plan_gradients(gradients, profile, options)


def plan_of_bias(
    call: Call, profile: Profile, options: PlanOptions, places: tuple[int, int, int, int]
) -> Plan:
    """The plan of a call without products whose output is its bias, cast to output's dtype.

    Args:
        call: The call.
        profile: Profile of the device.
        options: Options of the session.
        places: As in plan_forward.
    """
    requested_algorithms(options.algorithms, {})
    assert call.bias is not None
    dtype = call.output.dtype
    cast = result_format(dtype.acl_number, dtype, saturates=profile.saturates)
    bias = channel_operand(call.bias, places[2], AS_GIVEN)
    return plan_bias(bias, image_operand(call.output, places[3], cast), profile)


def _gradients(call: Call, roundings: Roundings, places: tuple[int, int, int, int]) -> Gradients:
    input_place, weight_place, bias_place, output_place = places
    input_ = image_operand(call.input, input_place, roundings.input)
    output = image_operand(call.output, output_place, roundings.output)
    bias = None
    if call.bias is not None:
        bias = channel_operand(call.bias, bias_place, roundings.bias)
    # A transposed convolution is the input gradient of the plain one with the same weight, whose
    # output its input is.
    return Gradients(
        convolution=_convolution(call),
        image=None if call.steps.transposed else input_,
        output=input_ if call.steps.transposed else None,
        weight=weight_operand(call.weight, weight_place, call.steps.groups, roundings.weight),
        grad_image=output if call.steps.transposed else None,
        grad_output=None if call.steps.transposed else output,
        bias=bias,
        unbiased_format=roundings.unbiased,
    )


def _convolution(call: Call) -> Convolution:
    image, output = call.input, call.output
    if call.steps.transposed:
        image, output = output, image
    return Convolution(
        batch=image.shape[0],
        groups=call.steps.groups,
        input_channels=call.weight.shape[1],
        output_channels=call.weight.shape[0] // call.steps.groups,
        input_size=three(image.shape[2:], 1),
        output_size=three(output.shape[2:], 1),
        kernel_size=three(call.weight.shape[2:], 1),
        stride=three(call.steps.stride, 1),
        padding=three(tuple(before for before, _ in call.steps.sides), 0),
        dilation=three(call.steps.dilation, 1),
    )
