"""The rules of aclnnConvolution, in the order of the vendor's source.

The numbers in the names of the steps are those of the source's own order. Rules that only the page
states come last, in page_checks.
"""

from math import prod

from opserve_kernels.cube_math import USE_FP16, check_cube_math_type
from opserve_kernels.errors import InvalidArgument, invalid_argument
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.checks import (
    check_bias_size,
    check_format,
    check_kernel_fits,
    check_output,
    check_rank,
    check_steps,
)
from opserve_kernels.forward.sizes import RANK_1D, RANK_2D, RANK_3D, Steps, channels_first
from opserve_kernels.operators.convolution.contract import CUBE_MATH_TYPES, SUPPORT
from opserve_kernels.operators.convolution.schema import Convolution
from opserve_kernels.rules import check_dtype, check_length, check_range, required
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format, Tensor

_RANKS = (RANK_1D, RANK_2D, RANK_3D)
_FORMATS = {
    RANK_1D: (Format.NCL,),
    RANK_2D: (Format.NCHW,),
    RANK_3D: (Format.NCDHW, Format.NDHWC),
}
_BIAS_FORMATS = (Format.ND, Format.NCL, Format.NCHW, Format.NCDHW)
_BIAS_DTYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)
_A2, _EDGE = "ascend910b", "ascend310b"
_SPAN = 255  # taps beyond the padding, at most, of a transposed convolution
_BLOCK = 65535  # values of a kernel's plane in a block of channels, at most, in 3-D on A2
_BLOCK_CHANNELS = {2: 16, 4: 8}  # by bytes of an element


def check(arguments: Convolution, profile: str, *, is_reference: bool) -> Call:
    """Rejects arguments that break a rule of the source (161001, 161002, 361001).

    Args:
        arguments: Arguments of the call.
        profile: Profile of the device.
        is_reference: Whether it represents no product.
    """
    given = _check_1_nulls(arguments)
    _check_2_dtypes(given, profile, is_reference=is_reference)
    _check_3_dimensions(given)
    _check_4_formats(given)
    # From here on NDHWC is another order of the same axes.
    call = replace_tensors(given)
    _check_5_values(call, is_reference=is_reference)
    check_output(call)
    check_cube_math_type(
        call.cube_math_type, call.promoted, CUBE_MATH_TYPES, profile, tuple(SUPPORT)
    )
    if profile == _EDGE:
        _check_8_edge(call)
    if profile == _A2 and not call.is_empty:
        _check_later_stages(call, profile)
    return call


def lacks_kernel(call: Call, profile: str) -> bool:
    """Whether the source has no kernel: of transposed calls in 16 bits with a FLOAT output."""
    computation = call.computation(profile)
    assert computation is not None
    return (
        profile == _A2
        and call.steps.transposed
        and computation.dtype != DataType.FLOAT
        # By it a kernel writes FLOAT16, and a cast follows.
        and call.cube_math_type != USE_FP16
        and call.output.dtype == DataType.FLOAT
    )


def replace_tensors(call: Call) -> Call:
    """The call with its tensors in the order N, C, spatial sizes."""
    return Call(
        input=channels_first(call.input),
        weight=channels_first(call.weight),
        bias=call.bias,
        output=channels_first(call.output),
        steps=call.steps,
        cube_math_type=call.cube_math_type,
        has_channels_last=Format.NDHWC in {tensor.format for _, tensor in _tensors(call)},
    )


def _check_1_nulls(arguments: Convolution) -> Call:
    input_, weight = required("input", arguments.input), required("weight", arguments.weight)
    stride = required("stride", arguments.stride)
    padding = required("padding", arguments.padding)
    dilation = required("dilation", arguments.dilation)
    output = required("output", arguments.output)
    transposed = required("transposed", arguments.transposed)
    # The source reads it for a transposed convolution only: any other value passes, or none.
    extra = required("output_padding", arguments.output_padding) if transposed else ()
    steps = Steps(
        stride=stride,
        padding=padding,
        dilation=dilation,
        transposed=transposed,
        output_padding=extra,
        groups=required("groups", arguments.groups),
    )
    return Call(
        input=input_,
        weight=weight,
        bias=arguments.bias,
        output=output,
        steps=steps,
        cube_math_type=required("cube_math_type", arguments.cube_math_type),
    )


def _check_2_dtypes(call: Call, profile: str, *, is_reference: bool) -> None:
    # On every product BF16 too, also on those without BF16 operands.
    dtypes = SUPPORT[profile].dtypes if is_reference else _BIAS_DTYPES
    if call.bias is not None and call.bias.dtype not in dtypes:
        raise invalid_argument(
            "bias", given=f"dtype {call.bias.dtype}", allowed=f"dtypes {', '.join(dtypes)}"
        )
    for name, tensor in _tensors(call):
        check_dtype(name, tensor, support=SUPPORT, profile=profile)


def _check_3_dimensions(call: Call) -> None:
    for name, tensor in _tensors(call):
        check_rank(name, tensor, _RANKS)
    for name, tensor in _tensors(call):
        if tensor.rank != call.input.rank:
            raise invalid_argument(
                name,
                given=f"shape {list(tensor.shape)}",
                allowed=f"{call.input.rank} dimensions, as input has",
            )
    if call.bias is not None:
        check_rank("bias", call.bias, (1,))
    check_bias_size(replace_tensors(call))
    steps, axes = call.steps, call.input.rank - 2
    check_length("stride", steps.stride, allowed=axes)
    check_length("dilation", steps.dilation, allowed=axes)
    in_pairs = call.input.rank == RANK_2D or (call.input.rank == RANK_1D and not steps.transposed)
    if not (in_pairs and len(steps.padding) == 2 * axes):
        check_length("padding", steps.padding, allowed=axes)
    if steps.transposed:
        check_length("output_padding", steps.output_padding, allowed=axes)


def _check_4_formats(call: Call) -> None:
    if call.output.format != call.input.format:
        # Of two that differ, the error names the one that its dimensions exclude.
        for name, tensor in (("input", call.input), ("output", call.output)):
            check_format(name, tensor, _FORMATS)
        raise invalid_argument(
            "output",
            given=f"format {call.output.format}",
            allowed=f"format {call.input.format}, as input has",
        )
    if call.bias is not None:
        check_format("bias", call.bias, {1: _BIAS_FORMATS})
    for name, tensor in _tensors(call):
        check_format(name, tensor, _FORMATS)


def _check_5_values(call: Call, *, is_reference: bool) -> None:
    check_steps(call)
    if not call.steps.transposed:
        check_kernel_fits(call)
    check_range("groups", call.steps.groups, least=1)
    if call.steps.transposed:
        _check_transposed(call)
    else:
        _check_channels(call, 1, call.weight.shape[1] * call.steps.groups)
    if call.weight.shape[0] % call.steps.groups != 0:
        raise invalid_argument(
            "weight",
            given=f"{call.weight.shape[0]} channels in dimension 0",
            allowed=f"a multiple of groups {call.steps.groups}",
        )
    if call.steps.transposed and call.input.shape[1] == 0:
        raise invalid_argument(
            "input", given=f"shape {list(call.input.shape)}", allowed="at least 1 channel"
        )
    if call.steps.transposed and not is_reference and not call.is_empty:
        _check_span(call)


def _check_transposed(call: Call) -> None:
    steps = call.steps
    _check_channels(call, 0, call.weight.shape[0])
    limits = map(max, steps.stride, steps.dilation)
    if any(extra >= limit for extra, limit in zip(steps.output_padding, limits, strict=True)):
        raise invalid_argument(
            "output_padding",
            given=list(steps.output_padding),
            allowed=f"values below stride {list(steps.stride)} or dilation {list(steps.dilation)}",
        )
    check_range("output_padding", steps.output_padding, least=0)


def _check_channels(call: Call, dimension: int, channels: int) -> None:
    if channels != call.input.shape[1]:
        raise invalid_argument(
            "weight",
            given=f"shape {list(call.weight.shape)} with groups {call.steps.groups}",
            allowed=f"{call.input.shape[1]} channels by dimension {dimension}, as input has",
        )


def _check_span(call: Call) -> None:
    """Zeros around the input of the equivalent plain convolution: few enough, in 3-D not below 0.

    The source compares the first values of padding with H and W, also where there are four.
    """
    steps, axes = call.steps, call.input.rank - 2
    first = 1 if axes == len(_RANKS) else 0  # D is free
    for axis in range(first, axes):
        span = (call.weight.shape[2 + axis] - 1) * steps.dilation[axis]
        padding = steps.padding[axis]
        least = max(span - _SPAN, 0)
        most = span if axes == len(_RANKS) else None
        if padding < least or (most is not None and padding > most):
            bounds = f">= {least}" if most is None else f"in [{least}, {most}]"
            raise invalid_argument(
                "padding",
                given=list(steps.padding),
                allowed=f"values {bounds} at index {axis}, where the kernel spans {span}",
            )


def _check_8_edge(call: Call) -> None:
    if call.input.rank != RANK_2D:
        raise invalid_argument(
            "input",
            given=f"shape {list(call.input.shape)}",
            allowed=f"4 dimensions on {_EDGE}; others on ascend910b",
        )
    if call.steps.transposed:
        raise invalid_argument("transposed", given=True, allowed=f"False on {_EDGE}")


def _check_later_stages(call: Call, profile: str) -> None:
    """Checks what the source rejects with a runtime error (361001), after all other rules."""
    computation = call.computation(profile)
    assert computation is not None
    if lacks_kernel(call, profile):
        raise _runtime_error(
            "output", "dtype FLOAT", f"dtype {computation.dtype}, in which the call computes"
        )
    is_tiled = not (call.steps.transposed or call.is_matrix_product)
    if is_tiled and call.input.rank == RANK_3D:
        channels = _BLOCK_CHANNELS[computation.dtype.size_bytes]
        if prod(call.weight.shape[-2:]) * channels > _BLOCK:
            sizes = list(call.weight.shape[-2:])
            allowed = f"sizes whose product is at most {_BLOCK // channels}"
            raise _runtime_error("weight", f"H and W {sizes}", allowed)


def _runtime_error(parameter: str, given: str, allowed: str) -> InvalidArgument:
    return invalid_argument(
        parameter,
        given=given,
        allowed=f"{allowed} on ascend910b",
        status=Status.ACLNN_ERR_RUNTIME_ERROR,
    )


def _tensors(call: Call) -> tuple[tuple[str, Tensor], ...]:
    return ("input", call.input), ("weight", call.weight), ("output", call.output)
