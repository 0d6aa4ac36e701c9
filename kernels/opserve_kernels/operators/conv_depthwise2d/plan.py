"""Phase one of aclnnConvDepthwise2d: the rules in the vendor's order, then a product in groups."""

from opserve_kernels.aclnn_rules import UNLISTED
from opserve_kernels.cube_math import USE_FP16, USE_FP32_ADD, check_cube_math_type
from opserve_kernels.errors import invalid_argument
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.checks import (
    check_bias_format,
    check_bias_size,
    check_bounds,
    check_format,
    check_has_elements,
    check_kernel_fits,
    check_kind_of_dtype,
    check_output,
    check_rank,
    check_same_dtype,
    check_steps,
)
from opserve_kernels.forward.plan import plan_forward
from opserve_kernels.forward.sizes import RANK_2D, Steps
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.conv_depthwise2d.contract import (
    BOUNDS,
    CUBE_MATH_TYPES,
    DOCUMENTED_RULES,
    PRODUCTS,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.conv_depthwise2d.schema import ConvDepthwise2d
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import check_dtype, check_length, check_page_profile, required
from opserve_kernels.tensor import DataType, Format, Tensor, check_tensor

_TENSORS = ("self", "weight", "bias", "out")
_SELF, _WEIGHT, _BIAS, _OUT = range(len(_TENSORS))
_FORMATS = {RANK_2D: (Format.NCHW,)}
_BIAS_DTYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)
_WITHOUT_BF16_BIAS = "ascend310p"
_PAIR = 2


def plan(arguments: ConvDepthwise2d, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call and plans it; an empty one needs no workspace and no work.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    # Malformed tensors are rejected (161002) before any rule of the vendor: rules rely on their
    # shapes.
    for name in _TENSORS:
        tensor: Tensor | None = getattr(arguments, name)
        if tensor is not None:
            check_tensor(name, tensor, buffer_bytes=None)
    page = PageRules(RULES, profile.name, DOCUMENTED_RULES, options.documented_rules)
    call = _check(arguments, profile.name)
    _check_page(call, profile.name, page)
    places = (_SELF, _WEIGHT, _BIAS, _OUT)
    return page.with_warnings(plan_forward(call, profile, options, places))


def _check(arguments: ConvDepthwise2d, profile: str) -> Call:
    """Checks the rules of the source, in its order."""
    call = _call_of(arguments)
    kernel_size = required("kernel_size", arguments.kernel_size)
    _check_dtypes(call, profile)
    for name, tensor in _images(call):
        check_rank(name, tensor, (RANK_2D,))
    if call.bias is not None:
        check_rank("bias", call.bias, (1,))
    for name in ("stride", "dilation", "padding"):
        check_length(name, getattr(call.steps, name), allowed=_PAIR)
    for name, tensor in _images(call):
        check_format(name, tensor, _FORMATS)
    check_steps(call)
    check_kernel_fits(call)
    _check_channels(call)
    check_bias_size(call)
    check_output(call)
    kind = call.cube_math_type
    check_cube_math_type(kind, call.promoted, CUBE_MATH_TYPES, profile, tuple(SUPPORT))
    if tuple(kernel_size) != call.weight.shape[2:]:
        raise invalid_argument(
            "kernel_size", given=list(kernel_size), allowed=list(call.weight.shape[2:])
        )
    return call


def _call_of(arguments: ConvDepthwise2d) -> Call:
    image, weight = required("self", arguments.self), required("weight", arguments.weight)
    stride = required("stride", arguments.stride)
    padding = required("padding", arguments.padding)
    dilation = required("dilation", arguments.dilation)
    channels = image.shape[1] if image.rank == RANK_2D else 1
    # Each channel is a group of its own; without channels there is nothing to group.
    groups = max(channels, 1)
    return Call(
        input=image,
        weight=weight,
        bias=arguments.bias,
        output=required("out", arguments.out),
        steps=Steps(stride=stride, padding=padding, dilation=dilation, groups=groups),
        cube_math_type=required("cube_math_type", arguments.cube_math_type),
        input_name="self",
        output_name="out",
    )


def _check_dtypes(call: Call, profile: str) -> None:
    bias, is_product = call.bias, profile in PRODUCTS
    if bias is not None:
        dtypes = _BIAS_DTYPES if is_product else SUPPORT[profile].dtypes
        if profile == _WITHOUT_BF16_BIAS:
            dtypes = SUPPORT[profile].dtypes
        if bias.dtype not in dtypes:
            raise invalid_argument(
                "bias", given=f"dtype {bias.dtype}", allowed=f"dtypes {', '.join(dtypes)}"
            )
        if is_product:
            check_same_dtype("bias", bias, "self", call.input)
    for name, tensor in _images(call):
        check_dtype(name, tensor, support=SUPPORT, profile=profile)
    if is_product:
        check_same_dtype("weight", call.weight, "self", call.input)
        check_same_dtype("out", call.output, "weight", call.weight)


def _check_channels(call: Call) -> None:
    filters, of_each, *_ = call.weight.shape
    if of_each > 1:
        raise invalid_argument(
            "weight", given=f"shape {list(call.weight.shape)}", allowed="1 channel in dimension 1"
        )
    if filters % call.steps.groups != 0:
        raise invalid_argument(
            "weight",
            given=f"{filters} filters in dimension 0",
            allowed=f"a multiple of the {call.input.shape[1]} channels of self",
        )


def _check_page(call: Call, profile: str, page: PageRules) -> None:
    """Notes the rules that only the page states."""
    check_bounds(call, profile, BOUNDS, tuple(SUPPORT), page)
    if profile not in PRODUCTS:
        return
    for only in PRODUCTS[1:]:
        with page.rule(f"{only}, {UNLISTED}"):
            check_page_profile(profile, only, SUPPORT)
    with page.rule("format is not ND"):
        check_bias_format(call)
    with page.rule("no channels"):
        _check_page_channels(call)
    with page.rule("a size is 0"):
        check_has_elements("weight", call.weight)
    with page.rule("2 with BF16"):
        check_kind_of_dtype(call, USE_FP16, DataType.BF16)
    with page.rule("H or W is not below that of self"):
        _check_page_sizes(call)
    with page.rule("4"):
        if call.cube_math_type == USE_FP32_ADD:
            raise invalid_argument("cube_math_type", given=USE_FP32_ADD, allowed="0, 1, 2 or 3")


def _check_page_channels(call: Call) -> None:
    if call.input.shape[1] == 0:
        raise invalid_argument(
            "self", given=f"shape {list(call.input.shape)}", allowed="at least 1 channel"
        )


def _check_page_sizes(call: Call) -> None:
    sizes = zip(call.weight.shape[2:], call.input.shape[2:], strict=True)
    if any(taps >= size for taps, size in sizes):
        raise invalid_argument(
            "weight",
            given=f"shape {list(call.weight.shape)}",
            allowed=f"H and W below those of self, {list(call.input.shape[2:])}",
        )


def _images(call: Call) -> tuple[tuple[str, Tensor], ...]:
    return ("self", call.input), ("weight", call.weight), ("out", call.output)
