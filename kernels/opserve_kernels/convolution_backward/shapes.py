"""How the shapes of aclnnConvolutionBackward's arguments must fit together (161002)."""

from opserve_kernels.convolution import output_size
from opserve_kernels.convolution_backward.call import Call
from opserve_kernels.errors import invalid_argument


def check_ranks(call: Call) -> None:
    """The three inputs have one rank."""
    for name, tensor in (("grad_output", call.grad_output), ("weight", call.weight)):
        if tensor.rank != call.input.rank:
            raise invalid_argument(
                name,
                given=f"shape {list(tensor.shape)}",
                allowed=f"{call.input.rank} dimensions, as input has",
            )


def check_weight_is_not_empty(call: Call) -> None:
    """Only an input without channels has a weight without elements."""
    if call.weight.element_count == 0:
        raise invalid_argument(
            "weight", given=f"shape {list(call.weight.shape)}", allowed="a tensor that is not empty"
        )


def check_no_empty_tensors(call: Call) -> None:
    """Input and weight have elements."""
    if call.input.element_count == 0:
        raise invalid_argument(
            "input", given=f"shape {list(call.input.shape)}", allowed="a tensor that is not empty"
        )
    check_weight_is_not_empty(call)


def check_emptiness(call: Call) -> None:
    """Input may have no entries or no channels; weight is empty only for want of those channels."""
    if 0 in call.input.shape[2:]:
        raise invalid_argument(
            "input",
            given=f"shape {list(call.input.shape)}",
            allowed="empty tensors whose N or C is 0",
        )
    output_channels, group_channels, *taps = call.weight.shape
    if 0 in (output_channels, *taps) or (group_channels == 0 and call.input.shape[1] != 0):
        check_weight_is_not_empty(call)


def check_batch(call: Call) -> None:
    """As many entries come out as go in."""
    if call.grad_output.shape[0] != call.input.shape[0]:
        raise invalid_argument(
            "grad_output",
            given=f"shape {list(call.grad_output.shape)}",
            allowed=f"{call.input.shape[0]} entries in dimension 0, as input has",
        )


def check_output_channels(call: Call) -> None:
    """The channels of grad_output are those that weight and groups give."""
    channels = call.weight.shape[0]
    if call.transposed:
        channels = call.weight.shape[1] * call.groups
    if call.grad_output.shape[1] != channels:
        raise invalid_argument(
            "grad_output",
            given=f"shape {list(call.grad_output.shape)}",
            allowed=f"{channels} channels in dimension 1, as weight and groups give",
        )


def check_gradient_shapes(call: Call) -> None:
    """A gradient has the shape of what it belongs to."""
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
    """Weight's dimension 0 is the channels of the convolution's output."""
    name, output = call.output
    if output.shape[1] != call.weight.shape[0]:
        raise invalid_argument(
            "weight",
            given=f"shape {list(call.weight.shape)}",
            allowed=f"{output.shape[1]} channels in dimension 0, as {name} has",
        )


def check_group_channels(call: Call) -> None:
    """Weight's dimension 1, in every group, is the channels of the convolution's image."""
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
    """The padded image holds the dilated kernel."""
    name, image = call.image
    extra = call.output_padding if call.transposed else (0,) * len(call.stride)
    sizes = zip(
        image.shape[2:], call.weight.shape[2:], call.dilation, call.sides, extra, strict=True
    )
    for size, kernel, dilation, sides, padding_after in sizes:
        reach = dilation * (kernel - 1) + 1
        if size - padding_after + sum(sides) < reach:
            raise invalid_argument(
                name,
                given=f"size {size} with padding {list(sides)}",
                allowed=f"at least the {reach} positions that the dilated kernel spans",
            )


def check_spatial_sizes(call: Call) -> None:
    """The output has as many positions as the kernel has places on the image."""
    name, output = call.output
    expected = _expected_output(call)
    if output.shape[2:] != expected:
        raise invalid_argument(
            name,
            given=f"shape {list(output.shape)}",
            allowed=f"spatial sizes {list(expected)}, which the other arguments give",
        )


def _expected_output(call: Call) -> tuple[int, ...]:
    _, image = call.image
    extra = call.output_padding if call.transposed else (0,) * len(call.stride)
    return tuple(
        output_size(
            image.shape[2 + axis] - extra[axis],
            kernel=call.weight.shape[2 + axis],
            stride=call.stride[axis],
            padding=sum(call.sides[axis]),
            dilation=call.dilation[axis],
        )
        for axis in range(call.input.rank - 2)
    )


def check_bias_sizes(call: Call, channels: int) -> None:
    """The bias has one entry, its channels."""
    if call.bias_sizes != (channels,):
        given = "nothing" if call.bias_sizes is None else list(call.bias_sizes)
        raise invalid_argument("bias_sizes", given=given, allowed=f"[{channels}]")


def check_output_padding_below_stride(call: Call) -> None:
    """Extra output is less than a step."""
    steps = zip(call.output_padding, call.stride, strict=False)
    if any(extra >= step for extra, step in steps):
        raise invalid_argument(
            "output_padding",
            given=list(call.output_padding),
            allowed=f"values below stride {list(call.stride)}",
        )
