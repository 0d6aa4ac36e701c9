"""Rules that forward convolutions share; the operators call them in their own order."""

from collections.abc import Mapping, Sequence

from opserve_kernels.bounds import Bound
from opserve_kernels.errors import invalid_argument
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.sizes import Row
from opserve_kernels.page_rules import PageRules
from opserve_kernels.rules import check_range
from opserve_kernels.tensor import DataType, Format, Tensor


def check_rank(name: str, tensor: Tensor, ranks: Sequence[int]) -> None:
    """A tensor must have one of these numbers of dimensions."""
    if tensor.rank not in ranks:
        allowed = " or ".join(map(str, ranks)) + (" dimension" if ranks == (1,) else " dimensions")
        raise invalid_argument(name, given=f"shape {list(tensor.shape)}", allowed=allowed)


def check_format(name: str, tensor: Tensor, formats: Mapping[int, Sequence[Format]]) -> None:
    """A tensor must have a format of its number of dimensions."""
    if tensor.format not in formats[tensor.rank]:
        raise invalid_argument(
            name,
            given=f"format {tensor.format} of a tensor of {tensor.rank} dimensions",
            allowed=f"format {' or '.join(formats[tensor.rank])}",
        )


def check_bias_size(call: Call) -> None:
    """The bias must have a value for each channel of the output."""
    if call.bias is None:
        return
    channels = call.steps.channels(call.weight.shape)
    if call.bias.shape != (channels,):
        raise invalid_argument(
            "bias", given=f"shape {list(call.bias.shape)}", allowed=f"shape {[channels]}"
        )


def check_steps(call: Call) -> None:
    """Taps and steps must be positive, and padding not negative unless the call is empty."""
    if 0 in call.weight.shape[2:]:
        raise invalid_argument(
            "weight", given=f"shape {list(call.weight.shape)}", allowed="spatial sizes >= 1"
        )
    check_range("stride", call.steps.stride, least=1)
    check_range("dilation", call.steps.dilation, least=1)
    # The source compares no padding with 0; a negative one fails when a call that is not empty is
    # planned.
    if not call.is_empty:
        check_padding(call)


def check_padding(call: Call) -> None:
    """Padding must not be negative."""
    check_range("padding", call.steps.padding, least=0)


def check_kernel_fits(call: Call) -> None:
    """The padded input must hold the dilated kernel, unless the input is empty."""
    if call.input.element_count == 0:
        return
    steps = call.steps
    taps = zip(
        call.input.shape[2:], call.weight.shape[2:], steps.dilation, steps.sides, strict=True
    )
    for size, kernel, dilation, sides in taps:
        dilated_kernel = dilation * (kernel - 1) + 1
        if size + sum(sides) < dilated_kernel:
            raise invalid_argument(
                call.input_name,
                given=f"size {size} with padding {list(sides)}",
                allowed=f"at least the {dilated_kernel} positions that the dilated kernel spans",
            )


def check_output(call: Call) -> None:
    """The output must have the shape that follows, and be empty if input or weight is."""
    sizes = _truncated_sizes(call)
    if call.output.shape != sizes:
        allowed = f"shape {list(sizes)}, which the other arguments give"
        if min(sizes) < 0:
            allowed = f"no shape, because the other arguments give sizes {list(sizes)}"
        raise invalid_argument(
            call.output_name, given=f"shape {list(call.output.shape)}", allowed=allowed
        )
    # The source computes nothing then, and a bias alone would be missing in the output.
    if call.is_empty and call.output.element_count:
        raise invalid_argument(
            call.output_name,
            given=f"shape {list(call.output.shape)}",
            allowed=f"an empty tensor where {call.input_name} or weight is empty",
        )


def check_has_elements(name: str, tensor: Tensor) -> None:
    """A tensor must have no size of 0."""
    if tensor.element_count == 0:
        raise invalid_argument(
            name, given=f"shape {list(tensor.shape)}", allowed="sizes of at least 1"
        )


def check_bounds(
    call: Call, profile: str, bounds: Sequence[Bound], able: Sequence[str], page: PageRules
) -> None:
    """Rejects a call beyond a limit, or notes a warning.

    Args:
        call: The call.
        profile: Profile of the device.
        bounds: Limits of the operator.
        able: Profiles of the operator.
        page: Treats broken rules that only the page states as errors or warnings.
    """
    rank, transposed = call.input.rank, call.steps.transposed
    binding = [bound for bound in bounds if bound.binds(rank, profile, transposed=transposed)]
    # The source tiles neither an empty call nor a product of matrices.
    if not (call.is_empty or call.is_matrix_product):
        for bound in binding:
            if bound.is_of_cube:
                bound.check(_argument(call, bound), profile, rank=rank, able=able)
    # Limits of the page alone come last.
    for bound in binding:
        if not bound.is_of_cube:
            with page.rule(bound.words):
                bound.check(_argument(call, bound), profile, rank=rank, able=able)


def check_same_dtype(name: str, tensor: Tensor, other: str, operand: Tensor) -> None:
    """A tensor must have the dtype of another."""
    if tensor.dtype != operand.dtype:
        raise invalid_argument(
            name, given=f"dtype {tensor.dtype}", allowed=f"dtype {operand.dtype}, that of {other}"
        )


def check_bias_dtype(call: Call) -> None:
    """The bias must have the dtype of input and weight."""
    bias = call.bias
    if bias is not None and {bias.dtype} != {call.input.dtype, call.weight.dtype}:
        raise invalid_argument(
            "bias",
            given=f"dtype {bias.dtype}",
            allowed=f"the dtype of {call.input_name} and weight",
        )


def check_bias_format(call: Call) -> None:
    """A bias has one dimension, for which ND is the only format."""
    if call.bias is not None and call.bias.format is not Format.ND:
        raise invalid_argument("bias", given=f"format {call.bias.format}", allowed="format ND")


def check_kind_of_dtype(call: Call, kind: int, dtype: DataType) -> None:
    """A computation in a dtype must not have this cube_math_type."""
    if call.promoted == dtype and call.cube_math_type == kind:
        raise invalid_argument(
            "cube_math_type",
            given=f"{kind} for a computation in {dtype}",
            allowed=f"any other value for {dtype}",
        )


def _argument(call: Call, bound: Bound) -> Tensor | tuple[int, ...] | int | None:
    """The argument that a limit binds."""
    name = "input" if bound.limit.parameter == call.input_name else bound.limit.parameter
    given: Tensor | tuple[int, ...] | int | None = getattr(
        call if hasattr(call, name) else call.steps, name
    )
    return given


def _truncated_sizes(call: Call) -> Row:
    """Shape of the output, with a division that truncates towards zero, as the source's does."""
    steps = call.steps
    sizes = steps.output_sizes(call.input.shape, call.weight.shape)
    if steps.transposed:
        return sizes
    spatial: list[int] = []
    axes = zip(call.input.shape[2:], call.weight.shape[2:], range(steps.axes), strict=True)
    for size, kernel, axis in axes:
        free = size + sum(steps.sides[axis]) - steps.dilation[axis] * (kernel - 1) - 1
        # Only an empty input may be smaller than the kernel.
        spatial.append(sizes[2 + axis] if free >= 0 else 1 - (-free // steps.stride[axis]))
    return (*sizes[:2], *spatial)
