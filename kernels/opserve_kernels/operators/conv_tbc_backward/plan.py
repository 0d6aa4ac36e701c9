"""Phase one of aclnnConvTbcBackward: the rules, then a 1-D convolution with its axes permuted."""

from opserve_kernels.convolution import Convolution
from opserve_kernels.convolution_operands import channel_operand, image_operand, weight_operand
from opserve_kernels.cube_math import AS_GIVEN, computation_of, gradient_format, operand_format
from opserve_kernels.gradient_plan import plan_gradients, plan_zeros
from opserve_kernels.gradients import ChannelSums, Gradients, Operand
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.conv_tbc_backward.checks import Call, check
from opserve_kernels.operators.conv_tbc_backward.contract import (
    DOCUMENTED_RULES,
    OPERANDS,
    RULES,
    TENSORS,
)
from opserve_kernels.operators.conv_tbc_backward.schema import ConvTbcBackward
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.tensor import DataType, Format, Tensor, check_tensor, permuted

READ_OR_WRITTEN = tuple(name for name in TENSORS if name != "bias")
"""The tensors of the loops, by place: of the bias only its shape and dtype count."""
_TO_NCL = (1, 2, 0)  # (T, B, C)
_TO_WEIGHT = (2, 1, 0)  # (K, Cin, Cout)


def plan(arguments: ConvTbcBackward, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call and plans it.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    # Malformed tensors are rejected (161002) before any rule of the vendor: rules rely on their
    # shapes.
    for name in TENSORS:
        tensor: Tensor | None = getattr(arguments, name)
        if tensor is not None:
            check_tensor(name, tensor, buffer_bytes=None)
    page = PageRules(RULES, profile.name, DOCUMENTED_RULES, options.documented_rules)
    call = check(arguments, profile.name, page)
    computation = computation_of(profile.name, call.promoted, call.cube_math_type)
    assert computation is not None
    operands = {
        name: _operand(
            call, name, operand_format(call.tensors[name], computation.operands, profile)
        )
        for name in OPERANDS
    }
    # The vendor computes grad_weight in FLOAT and sums grad_bias in self's dtype.
    dtypes = (computation.dtype, DataType.FLOAT, call.tensors["self"].dtype)
    grad_input, grad_weight, grad_bias = (
        _operand(call, name, gradient_format(call.tensors[name], dtype, profile))
        for name, dtype in zip(("grad_input", "grad_weight", "grad_bias"), dtypes, strict=True)
    )
    sums = ChannelSums(image=_operand(call, "self", AS_GIVEN), result=grad_bias)
    if call.is_empty:
        return page.with_warnings(plan_zeros([grad_input, grad_weight], profile, sums))
    gradients = Gradients(
        convolution=_convolution(call),
        image=operands["input"],
        output=operands["self"],
        weight=operands["weight"],
        grad_image=grad_input,
        grad_weight=grad_weight,
        sums=sums,
    )
    return page.with_warnings(plan_gradients(gradients, profile, options))


def _operand(call: Call, name: str, number_format: int) -> Operand:
    """A tensor as an operand or a result of the convolution: its axes in another order."""
    tensor, place = call.tensors[name], READ_OR_WRITTEN.index(name)
    if name.endswith("bias"):
        return channel_operand(tensor, place, number_format)
    if name.endswith("weight"):
        return weight_operand(permuted(tensor, _TO_WEIGHT, Format.NCL), place, 1, number_format)
    return image_operand(permuted(tensor, _TO_NCL, Format.NCL), place, number_format)


def _convolution(call: Call) -> Convolution:
    time, batch, _ = call.tensors["input"].shape
    taps, inputs, outputs = call.tensors["weight"].shape
    return Convolution(
        batch=batch,
        groups=1,
        input_channels=inputs,
        output_channels=outputs,
        input_size=(1, 1, time),
        output_size=(1, 1, call.tensors["self"].shape[0]),
        kernel_size=(1, 1, taps),
        stride=(1, 1, 1),
        padding=(0, 0, call.pad),
        dilation=(1, 1, 1),
    )
