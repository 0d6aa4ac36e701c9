"""The rules of aclnnConvolutionBackward on Ascend910B, in the order of the vendor's source.

The numbers in the names of the steps are those of the source's own order; what only the
documentation states comes last.
"""

from collections.abc import Iterator

from opserve_kernels.convolution_backward.call import RANK_1D, RANK_2D, RANK_3D, Call
from opserve_kernels.convolution_backward.schema import ConvolutionBackward
from opserve_kernels.convolution_backward.shapes import (
    check_bias_sizes,
    check_equal_channels,
    check_gradient_shapes,
    check_group_channels,
    check_kernel_fits,
    check_output_padding_below_stride,
    check_ranks,
    check_spatial_sizes,
)
from opserve_kernels.errors import InvalidArgument, invalid_argument
from opserve_kernels.rules import check_dtype, check_length, check_range, required
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format, Tensor

_FORMATS = {3: (Format.ND, Format.NCL), 4: (Format.NCHW,), 5: (Format.NCDHW,)}
_MASK_LENGTH = 3
_GRADIENTS = ("grad_input", "grad_weight", "grad_bias")
_USE_FP16 = 2
_MOST_SIZE = 2147483646
_MOST_TAPS = _MOST_PADDING = _MOST_DILATION = 255
_MOST_STRIDE_3D = 63
_MOST_GROUPS = 65535


def check(arguments: ConvolutionBackward) -> Call:
    """Refuses arguments that break a rule (161001, 161002)."""
    call = _check_1_nulls(arguments)
    _check_2_dtypes(call)
    _check_3_formats(call)
    _check_4_values(call)
    _check_5_cube_math_type(call)
    if call.is_empty:
        _check_6_empty(call)
    else:
        _check_6_shapes(call)
        _check_6_lengths(call)
        _check_6_channels(call)
        _check_7_spatial_sizes_3d(call)
        _check_7_groups_3d(call)
    _check_documented_shapes(call)
    _check_documented_limits(call)
    return call


def _check_1_nulls(arguments: ConvolutionBackward) -> Call:
    call = Call(
        grad_output=required("grad_output", arguments.grad_output),
        input=required("input", arguments.input),
        weight=required("weight", arguments.weight),
        bias_sizes=arguments.bias_sizes,
        stride=required("stride", arguments.stride),
        padding=required("padding", arguments.padding),
        dilation=required("dilation", arguments.dilation),
        transposed=required("transposed", arguments.transposed),
        output_padding=required("output_padding", arguments.output_padding),
        groups=required("groups", arguments.groups),
        output_mask=required("output_mask", arguments.output_mask),
        cube_math_type=required("cube_math_type", arguments.cube_math_type),
        grad_input=arguments.grad_input,
        grad_weight=arguments.grad_weight,
        grad_bias=arguments.grad_bias,
    )
    if len(call.output_mask) != _MASK_LENGTH:
        raise InvalidArgument(
            Status.ACLNN_ERR_PARAM_NULLPTR,
            f"output_mask: given {len(call.output_mask)} values, allowed {_MASK_LENGTH}",
            parameter="output_mask",
            given=f"{len(call.output_mask)} values",
            allowed=f"{_MASK_LENGTH} values",
        )
    gradients = (call.grad_input, call.grad_weight, call.grad_bias)
    for wanted, name, tensor in zip(call.output_mask, _GRADIENTS, gradients, strict=True):
        if wanted:
            required(name, tensor)
    return call


def _check_2_dtypes(call: Call) -> None:
    for name, tensor in _given_tensors(call):
        check_dtype(name, tensor)


def _check_3_formats(call: Call) -> None:
    for name, tensor in _given_tensors(call):
        if name == "grad_bias":
            continue
        if tensor.rank not in _FORMATS:
            raise invalid_argument(
                name, given=f"shape {list(tensor.shape)}", allowed="3, 4 or 5 dimensions"
            )
        if tensor.format not in _FORMATS[tensor.rank]:
            raise invalid_argument(
                name,
                given=f"format {tensor.format} of a tensor of {tensor.rank} dimensions",
                allowed=f"format {' or '.join(_FORMATS[tensor.rank])}",
            )
    bias = call.grad_bias
    if not call.transposed and bias is not None and bias.format != Format.ND:
        raise invalid_argument("grad_bias", given=f"format {bias.format}", allowed="format ND")


def _check_4_values(call: Call) -> None:
    check_range("stride", call.stride, least=1)
    check_range("padding", call.padding, least=0)
    check_range("dilation", call.dilation, least=1)
    if call.transposed:
        check_range("output_padding", call.output_padding, least=0)
        if call.input.rank == RANK_3D:
            check_output_padding_below_stride(call)
    elif any(call.output_padding):
        raise invalid_argument(
            "output_padding",
            given=list(call.output_padding),
            allowed="zeros for a convolution that is not transposed",
        )
    check_range("groups", (call.groups,), least=1)


def _check_5_cube_math_type(call: Call) -> None:
    check_range("cube_math_type", (call.cube_math_type,), least=0, most=3)


def _check_6_empty(call: Call) -> None:
    if call.output_mask[2]:
        channels = call.grad_output.shape[1]
        if call.transposed:
            channels = call.weight.shape[1] * call.groups
        check_bias_sizes(call, channels)
    if call.output_mask[0] and call.input.shape[0] != 0 and call.input.shape[1] != 0:
        raise invalid_argument(
            "input",
            given=f"shape {list(call.input.shape)}",
            allowed="empty tensors whose N or C is 0",
        )
    _check_6_lengths(call)
    _check_6_empty_groups(call)
    check_ranks(call)  # the source reads past the shorter shape instead
    if call.transposed:
        check_equal_channels(call)
    else:
        check_kernel_fits(call)


def _check_6_empty_groups(call: Call) -> None:
    output_channels, group_channels = call.weight.shape[:2]
    if output_channels % call.groups != 0:
        raise invalid_argument(
            "weight",
            given=f"{output_channels} channels in dimension 0",
            allowed=f"a multiple of groups {call.groups}",
        )
    batch_is_empty = call.input.shape[0] == 0
    if not (call.transposed and batch_is_empty) and (call.image[1].shape[1] or group_channels):
        check_group_channels(call)


def _check_6_shapes(call: Call) -> None:
    check_ranks(call)
    if call.grad_output.element_count == 0:
        raise invalid_argument(
            "grad_output",
            given=f"shape {list(call.grad_output.shape)}",
            allowed="a tensor that is not empty, where input is not",
        )
    check_gradient_shapes(call)


def _check_6_lengths(call: Call) -> None:
    dimensions = call.input.rank - 2
    check_length("stride", call.stride, allowed=dimensions)
    check_length("dilation", call.dilation, allowed=dimensions)
    for name, values in (("padding", call.padding), ("output_padding", call.output_padding)):
        if not (call.input.rank == RANK_2D and len(values) == RANK_2D):
            check_length(name, values, allowed=dimensions)


def _check_6_channels(call: Call) -> None:
    check_equal_channels(call)
    check_group_channels(call)
    output_channels = call.weight.shape[0]
    if output_channels % call.groups != 0:
        raise invalid_argument(
            "groups",
            given=call.groups,
            allowed=f"divisors of the {output_channels} channels in weight's dimension 0",
        )


def _check_7_spatial_sizes_3d(call: Call) -> None:
    if call.input.rank == RANK_3D:
        check_kernel_fits(call)
        check_spatial_sizes(call)


def _check_7_groups_3d(call: Call) -> None:
    gradient = call.grad_weight
    if gradient is None or not call.output_mask[1] or call.input.rank != RANK_3D:
        return
    computes_in_16_bits = call.promoted != DataType.FLOAT or call.cube_math_type == _USE_FP16
    if gradient.dtype == DataType.FLOAT and call.groups > 1 and computes_in_16_bits:
        raise invalid_argument(
            "grad_weight",
            given=f"dtype FLOAT for groups {call.groups} computed in 16 bits",
            allowed="dtype FLOAT16 or BF16 for 3-D convolutions with groups",
        )


def _check_documented_shapes(call: Call) -> None:
    """What the documentation states and the source leaves to later stages, or to chance."""
    check_length("output_padding", call.output_padding, allowed=call.input.rank - 2)
    if call.transposed:
        check_output_padding_below_stride(call)
    _check_documented_emptiness(call)
    check_gradient_shapes(call)
    if call.grad_output.shape[0] != call.input.shape[0]:
        raise invalid_argument(
            "grad_output",
            given=f"shape {list(call.grad_output.shape)}",
            allowed=f"{call.input.shape[0]} entries in dimension 0, as input has",
        )
    _check_documented_channels(call)
    check_kernel_fits(call)
    check_spatial_sizes(call)
    if call.output_mask[2] and call.bias_sizes is not None:
        check_bias_sizes(call, call.grad_output.shape[1])


def _check_documented_emptiness(call: Call) -> None:
    """Input may have no entries or no channels; weight is empty only for want of those channels."""
    if 0 in call.input.shape[2:]:
        raise invalid_argument(
            "input",
            given=f"shape {list(call.input.shape)}",
            allowed="empty tensors whose N or C is 0",
        )
    output_channels, group_channels, *taps = call.weight.shape
    if 0 in (output_channels, *taps) or (group_channels == 0 and call.input.shape[1] != 0):
        raise invalid_argument(
            "weight", given=f"shape {list(call.weight.shape)}", allowed="a tensor that is not empty"
        )


def _check_documented_channels(call: Call) -> None:
    channels = call.weight.shape[0]
    if call.transposed:
        channels = call.weight.shape[1] * call.groups
    if call.grad_output.shape[1] != channels:
        raise invalid_argument(
            "grad_output",
            given=f"shape {list(call.grad_output.shape)}",
            allowed=f"{channels} channels in dimension 1, as weight and groups give",
        )


def _check_documented_limits(call: Call) -> None:
    if call.transposed:
        return
    for name, tensor in (("grad_output", call.grad_output), ("input", call.input)):
        check_range(name, tensor.shape, least=0, most=_MOST_SIZE)
    image_axes = 1 if call.input.rank == RANK_1D else 2
    check_range("weight", call.weight.shape[:-image_axes], least=0, most=_MOST_SIZE)
    check_range("weight", call.weight.shape[-image_axes:], least=1, most=_MOST_TAPS)
    if call.input.rank == RANK_3D:
        check_range("stride", call.stride[:1], least=1, most=_MOST_SIZE)
        check_range("stride", call.stride[1:], least=1, most=_MOST_STRIDE_3D)
        check_range("padding", call.padding[:1], least=0, most=_MOST_SIZE)
        check_range("padding", call.padding[1:], least=0, most=_MOST_PADDING)
    else:
        check_range("stride", call.stride, least=1, most=_MOST_SIZE)
        check_range("padding", call.padding, least=0, most=_MOST_PADDING)
    check_range("dilation", call.dilation, least=1, most=_MOST_DILATION)
    check_range("groups", (call.groups,), least=1, most=_MOST_GROUPS)


def _given_tensors(call: Call) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that was given, masked or not, in the order of the checks."""
    tensors = (
        ("grad_output", call.grad_output),
        ("input", call.input),
        ("weight", call.weight),
        ("grad_input", call.grad_input),
        ("grad_weight", call.grad_weight),
        ("grad_bias", call.grad_bias),
    )
    return ((name, tensor) for name, tensor in tensors if tensor is not None)
