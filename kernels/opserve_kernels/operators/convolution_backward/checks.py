"""The rules of aclnnConvolutionBackward, in the order of the vendor's source.

The numbers in the names of the steps are those of the source's own order. Rules that only the page
states come last, except output_padding below stride, and may be warnings. Differences between
profiles are in contract.PROFILE_RULES.
"""

from opserve_kernels.cube_math import check_cube_math_type, computation_of
from opserve_kernels.errors import InvalidArgument, invalid_argument
from opserve_kernels.operators.convolution_backward.call import Call
from opserve_kernels.operators.convolution_backward.contract import (
    CUBE_MATH_TYPES,
    PROFILE_RULES,
    RANK_2D,
    RANK_3D,
    SUPPORT,
)
from opserve_kernels.operators.convolution_backward.page_checks import check_page
from opserve_kernels.operators.convolution_backward.schema import ConvolutionBackward
from opserve_kernels.operators.convolution_backward.shapes import (
    check_batch,
    check_bias_format,
    check_bias_sizes,
    check_equal_channels,
    check_gradient_shapes,
    check_group_channels,
    check_input_emptiness,
    check_kernel_fits,
    check_no_empty_tensors,
    check_output_padding_below_stride,
    check_places,
    check_ranks,
    check_weight_is_not_empty,
)
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import (
    check_dtype,
    check_length,
    check_range,
    required,
    supported_elsewhere,
)
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format, Tensor

_FORMATS = {3: (Format.ND, Format.NCL), 4: (Format.NCHW,), 5: (Format.NCDHW,)}
_MASK_LENGTH = 3
_MASK = "three booleans for grad_input, grad_weight, grad_bias"
_GRADIENTS = ("grad_input", "grad_weight", "grad_bias")
_16_BITS = (DataType.FLOAT16, DataType.BF16)


def check(arguments: ConvolutionBackward, profile: Profile, page: PageRules) -> Call:
    """Rejects arguments that break a rule of the profile (161001, 161002).

    Args:
        arguments: Arguments of the call.
        profile: Profile of the device.
        page: Treats broken rules that only the page states as errors or warnings.
    """
    name = profile.name
    call = _check_1_nulls(arguments)
    _check_2_dtypes(call, name)
    _check_3_formats(call, name)
    _check_4_values(call)
    _check_5_cube_math_type(call, name)
    if call.is_empty and PROFILE_RULES[name].takes_empty:
        _check_6_empty(call)
    else:
        _check_6_shapes(call, name)
        _check_6_lengths(call)
        _check_6_channels(call)
        _check_7_spatial_sizes_3d(call)
        _check_7_3d(call, name)
    _check_later_stages(call, page)
    check_gradient_shapes(call)
    check_page(call, name, page)
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
        output_mask=required("output_mask", arguments.output_mask, wanted=_MASK),
        cube_math_type=required("cube_math_type", arguments.cube_math_type),
        grad_input=arguments.grad_input,
        grad_weight=arguments.grad_weight,
        grad_bias=arguments.grad_bias,
    )
    if len(call.output_mask) != _MASK_LENGTH:
        raise InvalidArgument(
            Status.ACLNN_ERR_PARAM_NULLPTR,
            parameter="output_mask",
            given=f"{len(call.output_mask)} values",
            allowed=f"{_MASK_LENGTH} values",
        )
    gradients = (call.grad_input, call.grad_weight, call.grad_bias)
    for wanted, name, tensor in zip(call.output_mask, _GRADIENTS, gradients, strict=True):
        if wanted:
            required(name, tensor)
    return call


def _check_2_dtypes(call: Call, profile: str) -> None:
    for name, tensor in call.tensors:
        check_dtype(name, tensor, support=SUPPORT, profile=profile)


def _check_3_formats(call: Call, profile: str) -> None:
    for name, tensor in call.tensors:
        if name != "grad_bias":
            _check_format(name, tensor)
    bias, must_be_nd = call.grad_bias, PROFILE_RULES[profile].bias_is_nd and not call.transposed
    if must_be_nd and bias is not None:
        check_bias_format(bias)


def _check_format(name: str, tensor: Tensor) -> None:
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
    check_range("groups", call.groups, least=1)


def _check_5_cube_math_type(call: Call, profile: str) -> None:
    kind, dtype = call.cube_math_type, call.promoted
    check_cube_math_type(kind, dtype, CUBE_MATH_TYPES, profile, PROFILE_RULES)


def _check_6_empty(call: Call) -> None:
    if call.output_mask[2]:
        check_bias_sizes(call, call.channels if call.transposed else call.grad_output.shape[1])
    if call.output_mask[0]:
        if call.input.element_count != 0:
            check_weight_is_not_empty(call)
        check_input_emptiness(call)
    _check_6_lengths(call)
    _check_6_empty_groups(call)
    check_ranks(call)  # the source reads past the shorter shape instead
    if call.transposed:
        if call.weight.shape[0] == 0:
            check_weight_is_not_empty(call)
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


def _check_6_shapes(call: Call, profile: str) -> None:
    check_ranks(call)
    if not PROFILE_RULES[profile].takes_empty:
        check_no_empty_tensors(call, profile)
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
        check_places(call)


def _check_7_3d(call: Call, profile: str) -> None:
    """Checks 3-D calls after all shapes: so no deterministic level decides about 3-D groups."""
    rank = call.input.rank
    if rank not in PROFILE_RULES[profile].ranks:
        dimensions = " or ".join(map(str, PROFILE_RULES[profile].ranks))
        able = [name for name, rules in PROFILE_RULES.items() if rank in rules.ranks]
        raise invalid_argument(
            "input",
            given=f"shape {list(call.input.shape)}",
            allowed=f"{dimensions} dimensions on {profile}{supported_elsewhere(str(rank), able)}",
        )
    if rank == RANK_3D and PROFILE_RULES[profile].narrows_grouped_weight:
        _check_grouped_weight_3d(call, profile)


def _check_grouped_weight_3d(call: Call, profile: str) -> None:
    gradient = call.grad_weight
    if gradient is None or not call.output_mask[1] or gradient.dtype != DataType.FLOAT:
        return
    computation = computation_of(profile, call.promoted, call.cube_math_type)
    assert computation is not None
    if call.groups > 1 and computation.dtype in _16_BITS:
        able = [
            name
            for name, rules in PROFILE_RULES.items()
            if RANK_3D in rules.ranks and not rules.narrows_grouped_weight
        ]
        raise invalid_argument(
            "grad_weight",
            given=f"dtype FLOAT for groups {call.groups} computed in 16 bits",
            allowed=f"dtype FLOAT16 or BF16 for 3-D convolutions with groups on {profile}"
            f"{supported_elsewhere('FLOAT', able)}",
        )


def _check_later_stages(call: Call, page: PageRules) -> None:
    """Checks rules of the page that the source applies when it plans 1-D and 2-D calls (561103).

    The source plans nothing for an empty input. Sizes depend on output padding, so it comes first.
    """
    if call.transposed:
        with page.rule("not below stride in 1-D or 2-D"):
            check_output_padding_below_stride(call)
    if call.is_empty:
        return
    check_batch(call)
    check_kernel_fits(call)
    check_places(call)
