"""Rules on how shapes and dtypes of aclnnConvolutionBackward's arguments fit together (161002)."""

from functools import reduce

from opserve_kernels.convolution import output_size
from opserve_kernels.errors import InvalidArgument, invalid_argument
from opserve_kernels.number_formats import promote
from opserve_kernels.operators.convolution_backward.call import Call
from opserve_kernels.operators.convolution_backward.contract import PROFILE_RULES, RANK_3D
from opserve_kernels.rules import supported_elsewhere
from opserve_kernels.tensor import DataType, Format, Tensor


def check_ranks(call: Call) -> None:
    """The three inputs must have one rank."""
    for name, tensor in (("grad_output", call.grad_output), ("weight", call.weight)):
        if tensor.rank != call.input.rank:
            raise invalid_argument(
                name,
                given=f"shape {list(tensor.shape)}",
                allowed=f"{call.input.rank} dimensions, as input has",
            )


def check_weight_is_not_empty(call: Call) -> None:
    """Only an input without channels may have a weight without elements."""
    if call.weight.element_count == 0:
        raise invalid_argument(
            "weight", given=f"shape {list(call.weight.shape)}", allowed="a tensor that is not empty"
        )


def check_no_empty_tensors(call: Call, profile: str) -> None:
    """Input and weight must have elements, on a profile that supports no empty tensors."""
    able = [name for name, rules in PROFILE_RULES.items() if rules.takes_empty]
    for name, tensor in (("input", call.input), ("weight", call.weight)):
        if tensor.element_count == 0:
            raise invalid_argument(
                name,
                given=f"shape {list(tensor.shape)}",
                allowed=f"a tensor that is not empty on {profile}"
                f"{supported_elsewhere('an input whose N or C is 0', able)}",
            )


def check_input_emptiness(call: Call) -> None:
    """An empty input must have no entries or no channels."""
    if call.input.element_count == 0 and 0 not in call.input.shape[:2]:
        raise invalid_argument(
            "input",
            given=f"shape {list(call.input.shape)}",
            allowed="empty tensors whose N or C is 0",
        )


def check_weight_emptiness(call: Call) -> None:
    """Weight may be empty only if input has no channels."""
    output_channels, group_channels, *taps = call.weight.shape
    if 0 in (output_channels, *taps) or (group_channels == 0 and call.input.shape[1] != 0):
        check_weight_is_not_empty(call)


def check_batch(call: Call) -> None:
    """Input and grad_output must have as many entries."""
    if call.grad_output.shape[0] != call.input.shape[0]:
        raise invalid_argument(
            "grad_output",
            given=f"shape {list(call.grad_output.shape)}",
            allowed=f"{call.input.shape[0]} entries in dimension 0, as input has",
        )


def check_output_channels(call: Call) -> None:
    """The channels of grad_output must be those of weight and groups."""
    if call.grad_output.shape[1] != call.channels:
        raise invalid_argument(
            "grad_output",
            given=f"shape {list(call.grad_output.shape)}",
            allowed=f"{call.channels} channels in dimension 1, as weight and groups give",
        )


def check_gradient_shapes(call: Call) -> None:
    """A gradient must have the shape of its operand."""
    expected = (
        ("grad_input", call.grad_input, call.input.shape),
        ("grad_weight", call.grad_weight, call.weight.shape),
        ("grad_bias", call.grad_bias, (call.grad_output.shape[1],)),
    )
    for name, tensor, shape in expected:
        if tensor is not None and tensor.shape != shape:
            raise invalid_argument(
                name, given=f"shape {list(tensor.shape)}", allowed=f"shape {list(shape)}"
            )


def check_equal_channels(call: Call) -> None:
    """Weight's dimension 0 must be the channels of the convolution's output."""
    name, output = call.output
    if output.shape[1] != call.weight.shape[0]:
        raise invalid_argument(
            "weight",
            given=f"shape {list(call.weight.shape)}",
            allowed=f"{output.shape[1]} channels in dimension 0, as {name} has",
        )


def check_group_channels(call: Call) -> None:
    """Weight's dimension 1, in every group, must be the channels of the convolution's image."""
    name, image = call.image
    channels, group_channels = image.shape[1], call.weight.shape[1]
    if group_channels == 0 or channels % group_channels != 0:
        raise invalid_argument(
            "weight",
            given=f"{group_channels} channels in dimension 1",
            allowed=f"divisors of the {channels} channels of {name}",
        )
    if channels // group_channels != call.groups:
        raise invalid_argument(
            "groups",
            given=call.groups,
            allowed=f"{channels // group_channels}: {name} has {channels} channels, "
            f"weight {group_channels}",
        )


def check_kernel_fits(call: Call) -> None:
    """The padded image must hold the dilated kernel."""
    name, image = call.image
    sizes = zip(image.shape[2:], call.weight.shape[2:], call.dilation, call.sides, strict=True)
    for size, kernel, dilation, sides in sizes:
        dilated_kernel = dilation * (kernel - 1) + 1
        if size + sum(sides) < dilated_kernel:
            raise invalid_argument(
                name,
                given=f"size {size} with padding {list(sides)}",
                allowed=f"at least the {dilated_kernel} positions that the dilated kernel spans",
            )


def check_places(call: Call) -> None:
    """The convolution's output must have as many positions as the kernel has places on the image.

    Places are rounded down, so output_padding of a transposed convolution makes no difference here.
    """
    image, output = call.image[1], call.output[1]
    places = tuple(
        output_size(
            size,
            kernel=call.weight.shape[2 + axis],
            stride=call.stride[axis],
            padding=sum(call.sides[axis]),
            dilation=call.dilation[axis],
        )
        for axis, size in enumerate(image.shape[2:])
    )
    if output.shape[2:] != places:
        raise _wrong_sizes(call, _leading_back(call) if call.transposed else places)


def _leading_back(call: Call) -> tuple[int, ...]:
    """The sizes with output_padding; without it, if those do not lead back to input's."""
    sizes = _transposed_sizes(call)
    if call.grad_output.shape[2:] != sizes:
        return sizes
    return tuple(size - extra for size, extra in zip(sizes, call.extra, strict=True))


def check_transposed_sizes(call: Call) -> None:
    """grad_output must be exactly as large as a transposed convolution makes it."""
    sizes = _transposed_sizes(call)
    if call.grad_output.shape[2:] != sizes:
        raise _wrong_sizes(call, sizes)


def _wrong_sizes(call: Call, sizes: tuple[int, ...]) -> InvalidArgument:
    return invalid_argument(
        "grad_output",
        given=f"shape {list(call.grad_output.shape)}",
        allowed=f"spatial sizes {list(sizes)}, which the other arguments give",
    )


def _transposed_sizes(call: Call) -> tuple[int, ...]:
    """(size - 1)*stride - padding + dilation*(kernel - 1) + 1 + output_padding, by dimension."""
    return tuple(
        (size - 1) * call.stride[axis]
        - sum(call.sides[axis])
        + call.dilation[axis] * (call.weight.shape[2 + axis] - 1)
        + 1
        + call.extra[axis]
        for axis, size in enumerate(call.input.shape[2:])
    )


def check_bias_sizes(call: Call, channels: int) -> None:
    """The bias must have one entry, its channels."""
    if call.bias_sizes != (channels,):
        given = "nothing" if call.bias_sizes is None else list(call.bias_sizes)
        raise invalid_argument("bias_sizes", given=given, allowed=f"[{channels}]")


def check_output_padding_below_stride(call: Call) -> None:
    """Extra output must be less than a step."""
    steps = zip(call.extra, call.stride, strict=False)
    if any(extra >= step for extra, step in steps):
        raise invalid_argument(
            "output_padding",
            given=list(call.output_padding),
            allowed=f"values below stride {list(call.stride)}",
        )


def check_gradient_dtype(name: str, gradient: Tensor, operands: tuple[Tensor, ...]) -> None:
    """A gradient must have the widest dtype of its operands."""
    dtype = reduce(promote, (operand.dtype for operand in operands))
    if gradient.dtype != dtype:
        raise invalid_argument(name, given=f"dtype {gradient.dtype}", allowed=f"dtype {dtype}")


def check_depthwise_3d(call: Call) -> None:
    """Groups in 3-D must be those of a depthwise convolution in BF16."""
    channels = (call.grad_output.shape[1], call.input.shape[1])
    depthwise = call.input.dtype == DataType.BF16 and channels == (call.groups, call.groups)
    if call.input.rank == RANK_3D and call.groups > 1 and not depthwise:
        raise invalid_argument(
            "groups",
            given=f"{call.groups} for {call.input.dtype} of {channels[1]} channels",
            allowed="1, or in BF16 the channels of input and of grad_output",
        )


def check_bias_format(bias: Tensor) -> None:
    """A bias has one dimension, for which ND is the only format."""
    if bias.format != Format.ND:
        raise invalid_argument("grad_bias", given=f"format {bias.format}", allowed="format ND")
