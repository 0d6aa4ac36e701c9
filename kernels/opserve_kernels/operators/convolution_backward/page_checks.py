"""The rules of aclnnConvolutionBackward that only the page states: errors or warnings."""

from opserve_kernels.errors import invalid_argument
from opserve_kernels.operators.convolution_backward.call import Call
from opserve_kernels.operators.convolution_backward.contract import BOUNDS, PROFILE_RULES
from opserve_kernels.operators.convolution_backward.shapes import (
    check_batch,
    check_bias_format,
    check_bias_sizes,
    check_depthwise_3d,
    check_gradient_dtype,
    check_input_emptiness,
    check_output_channels,
    check_places,
    check_transposed_sizes,
    check_weight_emptiness,
)
from opserve_kernels.page_rules import PageRules
from opserve_kernels.rules import check_length
from opserve_kernels.tensor import Format, Tensor


def check_page(call: Call, profile: str, page: PageRules) -> None:
    """Rejects a call that the source accepts and the page does not, or notes a warning (161002)."""
    _check_page_shapes(call, page)
    _check_page_tensors(call, page)
    _check_page_limits(call, profile, page)


def _check_page_shapes(call: Call, page: PageRules) -> None:
    with page.rule("four values"):
        check_length("output_padding", call.output_padding, allowed=call.input.rank - 2)
    if call.is_empty:
        _check_page_shapes_of_empty(call, page)
    elif call.transposed:
        with page.rule("spatial sizes are not exactly those of the convolution, transposed"):
            check_transposed_sizes(call)
    if not call.transposed:
        with page.rule("above 1 in 3-D, but not depthwise in BF16, transposed is false,"):
            check_depthwise_3d(call)
    if call.bias_sizes is not None:
        with page.rule("not the channels"):
            check_bias_sizes(call, call.channels)


def _check_page_shapes_of_empty(call: Call, page: PageRules) -> None:
    """Checks grad_output of an empty input; the source ignores it and writes zeros."""
    with page.rule("empty, but neither its N nor its C is 0, grad_input is not wanted,"):
        check_input_emptiness(call)
    with page.rule("empty, but not for want of input's channels,"):
        check_weight_emptiness(call)
    with page.rule("N is not that of input, input is empty"):
        check_batch(call)
    with page.rule("dimension 1 is not the channels of weight and groups, input is empty"):
        check_output_channels(call)
    with page.rule("spatial sizes are not those of the convolution, input is empty"):
        if call.transposed:
            check_transposed_sizes(call)
        else:
            check_places(call)


def _check_page_tensors(call: Call, page: PageRules) -> None:
    wider = (
        ("grad_input", call.grad_input, (call.input, call.grad_output), "the wider of input's"),
        ("grad_weight", call.grad_weight, (call.weight, call.grad_output), "the wider of weight's"),
        ("grad_bias", call.grad_bias, (call.grad_output,), "that of grad_output"),
    )
    for name, gradient, operands, words in wider:
        if gradient is not None:
            with page.rule(f"dtype is not {words}"):
                check_gradient_dtype(name, gradient, operands)
    for name, tensor in call.tensors:
        if name != "grad_bias":
            with page.rule("format is ND, not NCL,"):
                _check_page_format(name, tensor)
    if call.grad_bias is not None:
        with page.rule("format is not ND"):
            check_bias_format(call.grad_bias)


def _check_page_format(name: str, tensor: Tensor) -> None:
    if tensor.format == Format.ND:
        raise invalid_argument(
            name, given="format ND of a tensor of 3 dimensions", allowed="format NCL"
        )


def _check_page_limits(call: Call, profile: str, page: PageRules) -> None:
    """Checks limits; zeros of an empty input have been accepted before."""
    rank = call.input.rank
    able = [name for name, rules in PROFILE_RULES.items() if rank in rules.ranks]
    for bound in BOUNDS:
        if bound.binds(rank, profile, transposed=call.transposed):
            with page.rule(bound.words):
                bound.check(getattr(call, bound.limit.parameter), profile, rank=rank, able=able)
