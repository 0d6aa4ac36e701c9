"""The rules of conv2d_backprop_filter, in the order of the vendor's source; opserve's come last."""

from opserve_kernels.convolution import output_size
from opserve_kernels.errors import invalid_argument
from opserve_kernels.formats import BLOCK, fractal_z_shape
from opserve_kernels.operators.conv2d_backprop_filter.call import (
    ONE_BY_ONE,
    ONES,
    ZEROS,
    Call,
)
from opserve_kernels.operators.conv2d_backprop_filter.contract import (
    DILATION,
    IMAGE_HEIGHT,
    IMAGE_LONG_ROW,
    IMAGE_WIDTH,
    KERNEL,
    OUTPUT_HEIGHT,
    OUTPUT_LONG_ROW,
    OUTPUT_WIDTH,
    PADDING,
    PAGE_DTYPES,
    PAGE_PROFILES,
    RESULTS,
    STRIDE,
    SUPPORT,
)
from opserve_kernels.operators.conv2d_backprop_filter.schema import (
    Conv2dBackpropFilter,
    Conv2dBackpropFilterParaDict,
    result_dtype,
)
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import check_dtype, check_page_dtype
from opserve_kernels.status import TbeStatus
from opserve_kernels.tbe_rules import (
    check_bytes,
    check_equal,
    check_format,
    check_lanes,
    check_least,
    check_length,
    check_limit,
    check_rank,
    check_result,
    check_undilated,
    required,
)
from opserve_kernels.tensor import Format

_PAIR, _QUAD = 2, 4


def check(arguments: Conv2dBackpropFilter, profile: Profile, page: PageRules) -> Call:
    """Rejects arguments that break a rule; the codes are in README.md."""
    call = _check_given(arguments)
    _check_dtypes(call, profile.name)
    _check_lengths(call)
    _check_channels(call)
    _check_kernel(call, profile.name)
    _check_spatial(call)
    _check_bytes(call)
    _check_positive(call)
    _check_limits(call, profile.name)
    _check_formats(call, page)
    _check_page_support(call, profile.name, page)
    _check_result(call)
    return call


def _check_given(arguments: Conv2dBackpropFilter) -> Call:
    para_dict = arguments.para_dict or Conv2dBackpropFilterParaDict()
    return Call(
        input_x=required("input_x", arguments.input_x),
        out_backprop=required("out_backprop", arguments.out_backprop),
        filter_sizes=required("filter_sizes", arguments.filter_sizes),
        strides=ONE_BY_ONE if para_dict.strides is None else para_dict.strides,
        padding=ZEROS if para_dict.padding is None else para_dict.padding,
        dilations=ONES if para_dict.dilations is None else para_dict.dilations,
        groups=1 if para_dict.groups is None else para_dict.groups,
        res_dtype="float32" if para_dict.res_dtype is None else para_dict.res_dtype,
        raw=bool(arguments.raw),
        res_tensor=arguments.res_tensor,
    )


def _check_dtypes(call: Call, profile: str) -> None:
    check_equal(
        "out_backprop",
        "dtype",
        call.out_backprop.dtype,
        call.input_x.dtype,
        source="that of input_x",
        status=TbeStatus.E60038,
    )
    check_dtype("input_x", call.input_x, support=SUPPORT, profile=profile, status=TbeStatus.E60005)
    check_result(call.res_dtype, RESULTS, profile=profile, status=TbeStatus.E60005)


def _check_lengths(call: Call) -> None:
    """Checks lengths; the vendor's source fails without a code on a short padding or image."""
    for name, values, length in (
        ("filter_sizes", call.filter_sizes, _QUAD),
        ("para_dict.strides", call.strides, _PAIR),
        ("para_dict.dilations", call.dilations, _QUAD),
    ):
        check_length(name, values, length, status=TbeStatus.E64003)
        check_least(name, values, 1, status=TbeStatus.E64004)
    check_length("para_dict.padding", call.padding, _QUAD, status=TbeStatus.E64003)
    check_rank("out_backprop", call.out_backprop, Format.NC1HWC0, status=TbeStatus.E64003)
    check_rank("input_x", call.input_x, Format.NC1HWC0, status=TbeStatus.E64003)


def _check_channels(call: Call) -> None:
    output, image = call.out_backprop, call.input_x
    check_lanes("out_backprop", output, Format.NC1HWC0, status=TbeStatus.E64002)
    check_lanes("input_x", image, Format.NC1HWC0, status=TbeStatus.E64002)
    check_least("para_dict.groups", (call.groups,), 1, status=TbeStatus.E64002)
    held = "the blocks of 16 that hold"
    output_blocks = -(-call.filter_sizes[0] // BLOCK)
    image_blocks = -(-call.groups * call.filter_sizes[1] // BLOCK)
    inputs = f"{held} groups times Cin/groups of filter_sizes"
    for name, what, given, allowed, source in (
        ("out_backprop", "C1", output.shape[1], output_blocks, f"{held} Cout of filter_sizes"),
        ("input_x", "C1", image.shape[1], image_blocks, inputs),
        ("out_backprop", "N", output.shape[0], image.shape[0], "that of input_x"),
    ):
        check_equal(name, what, given, allowed, source=source, status=TbeStatus.E64002)


def _check_kernel(call: Call, profile: str) -> None:
    """Checks the kernel; without dilation, the vendor computes beyond the limits by DMA."""
    if call.dilations != ONES:
        check_limit(KERNEL, call.filter_sizes[2:], profile=profile, status=TbeStatus.E64001)
        check_limit(STRIDE, call.strides, profile=profile, status=TbeStatus.E64001)
    check_undilated(call.dilations, status=TbeStatus.E60023)
    check_limit(DILATION, call.dilations[2:], profile=profile, status=TbeStatus.E64001)
    if call.filter_sizes[0] % call.groups != 0:
        raise invalid_argument(
            "para_dict.groups",
            given=call.groups,
            allowed=f"divisors of the {call.filter_sizes[0]} output channels",
            status=TbeStatus.E60108,
        )


def _check_spatial(call: Call) -> None:
    codes = (("height", TbeStatus.E60024), ("width", TbeStatus.E60025))
    for axis, (name, status) in enumerate(codes):
        expected = output_size(
            call.input_x.shape[2 + axis],
            kernel=call.filter_sizes[2 + axis],
            stride=call.strides[axis],
            padding=sum(call.padding[2 * axis : 2 * axis + 2]),
            dilation=call.dilations[2 + axis],
        )
        check_equal(
            "out_backprop",
            name,
            call.out_backprop.shape[2 + axis],
            expected,
            source="as input_x, filter_sizes and para_dict give it",
            status=status,
        )


def _check_bytes(call: Call) -> None:
    """Checks the bytes of the weight as the source counts them: whole blocks, in res_dtype."""
    output, image = call.out_backprop, call.input_x
    check_bytes("out_backprop", output.shape, output.dtype.size_bytes)
    check_bytes("input_x", image.shape, image.dtype.size_bytes)
    weight = (image.shape[1] * call.taps, output.shape[1] * BLOCK, BLOCK)
    result = result_dtype(call.res_dtype)
    assert result is not None
    check_bytes("filter_sizes", weight, result.size_bytes)


def _check_positive(call: Call) -> None:
    check_least("out_backprop", call.out_backprop.shape, 1, status=TbeStatus.E64004)
    check_least("input_x", call.input_x.shape, 1, status=TbeStatus.E64004)
    check_least("para_dict.padding", call.padding, 0, status=TbeStatus.E64004)


def _check_limits(call: Call, profile: str) -> None:
    output, image = call.out_backprop.shape, call.input_x.shape
    long_row = call.has_one_row or _is_beyond_the_limits(call)
    for limit, name, size in (
        (OUTPUT_HEIGHT, "height", output[2]),
        (OUTPUT_LONG_ROW if long_row else OUTPUT_WIDTH, "width", output[3]),
        (IMAGE_HEIGHT, "height", image[2]),
        (IMAGE_LONG_ROW if long_row else IMAGE_WIDTH, "width", image[3]),
    ):
        given = f"{name} {size}"
        check_limit(limit, (size,), profile=profile, status=TbeStatus.E64001, given=given)
    check_limit(PADDING, call.padding, profile=profile, status=TbeStatus.E64001)


def _is_beyond_the_limits(call: Call) -> bool:
    """Whether the vendor computes by DMA; with dilation, such a call was rejected before."""
    fits = KERNEL.holds(max(call.filter_sizes[2:])) and STRIDE.holds(max(call.strides))
    return not fits


def _check_formats(call: Call, page: PageRules) -> None:
    with page.rule("format is neither NC1HWC0 nor ND"):
        check_format("out_backprop", call.out_backprop, Format.NC1HWC0, status=TbeStatus.E64003)
    with page.rule("format is neither NC1HWC0 nor ND"):
        check_format("input_x", call.input_x, Format.NC1HWC0, status=TbeStatus.E64003)


def _check_page_support(call: Call, profile: str, page: PageRules) -> None:
    with page.rule("ascend910b, a product that the page does not list"):
        _check_page_profile(profile)
    for name, tensor in (("out_backprop", call.out_backprop), ("input_x", call.input_x)):
        with page.rule("dtype is BF16"):
            check_page_dtype(name, tensor, PAGE_DTYPES, status=TbeStatus.E60005)


def _check_page_profile(profile: str) -> None:
    if profile not in PAGE_PROFILES:
        raise invalid_argument(
            "profile",
            given=profile,
            allowed=" or ".join(PAGE_PROFILES),
            status=TbeStatus.E60005,
        )


def _check_result(call: Call) -> None:
    result = required("res_tensor", call.res_tensor)
    check_equal(
        "res_tensor",
        "dtype",
        result.dtype,
        result_dtype(call.res_dtype),
        source="that of para_dict.res_dtype",
        status=TbeStatus.E60005,
    )
    check_format("res_tensor", result, Format.FRACTAL_Z, status=TbeStatus.E64003)
    check_equal(
        "res_tensor",
        "shape",
        list(result.shape),
        list(fractal_z_shape(call.filter_sizes, call.groups)),
        source="that of filter_sizes and groups in FRACTAL_Z",
        status=TbeStatus.E64002,
    )
