"""The rules of conv2d_backprop_input, in the order of the vendor's source; opserve's own come last.

Two of opserve's rules come earlier, as others depend on them: channels are at least 1, and groups
divide them.
"""

from collections.abc import Sequence
from math import prod

from opserve_kernels.convolution import output_size
from opserve_kernels.errors import invalid_argument
from opserve_kernels.formats import BLOCK, group_dict
from opserve_kernels.operators.conv2d_backprop_input.call import Call
from opserve_kernels.operators.conv2d_backprop_input.contract import (
    DILATION,
    HEIGHT,
    HEIGHT_ON_GRID,
    PAGE_DTYPES,
    RESULTS,
    SUPPORT,
    WIDTH,
    WIDTH_OF_A_ROW,
    WIDTH_ON_GRID,
    WIDTH_ON_GRID_OF_A_ROW,
)
from opserve_kernels.operators.conv2d_backprop_input.schema import (
    Conv2dBackpropInput,
    GroupDict,
    result_dtype,
    result_shape,
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

_GROUP_DICT = "para_dict.group_dict"
_PAIR, _QUAD = 2, 4


def check(arguments: Conv2dBackpropInput, profile: Profile, page: PageRules) -> Call:
    """Rejects arguments that break a rule; the codes are in README.md."""
    call = _check_given(arguments)
    _check_dtypes(call, profile.name)
    _check_lengths(call)
    _check_sizes(call, profile.name)
    _check_spatial(call)
    _check_groups(call)
    _check_filters(call)
    check_undilated(call.dilations, status=TbeStatus.E60023)
    check_limit(DILATION, call.dilations[2:], profile=profile.name, status=TbeStatus.E60011)
    _check_bytes(call)
    _check_rows(call)
    _check_offset(call)
    _check_formats(call, page)
    _check_page_dtypes(call, page)
    _check_unchecked_by_the_source(call)
    _check_result(call)
    return call


def _check_given(arguments: Conv2dBackpropInput) -> Call:
    filters = required("filters", arguments.filters)
    out_backprop = required("out_backprop", arguments.out_backprop)
    filter_sizes = required("filter_sizes", arguments.filter_sizes)
    input_sizes = required("input_sizes", arguments.input_sizes)
    para_dict = required("para_dict", arguments.para_dict)
    return Call(
        filters=filters,
        out_backprop=out_backprop,
        filter_sizes=filter_sizes,
        input_sizes=input_sizes,
        strides=required("para_dict.strides", para_dict.strides),
        padding=required("para_dict.padding", para_dict.padding),
        dilations=required("para_dict.dilations", para_dict.dilations),
        res_dtype="float16" if para_dict.res_dtype is None else para_dict.res_dtype,
        offset_x=para_dict.offset_x or 0,
        offset_w=para_dict.offset_w,
        group_dict=para_dict.group_dict,
        res_tensor=arguments.res_tensor,
    )


def _check_dtypes(call: Call, profile: str) -> None:
    for name, tensor in (("filters", call.filters), ("out_backprop", call.out_backprop)):
        check_dtype(name, tensor, support=SUPPORT, profile=profile, status=TbeStatus.E60011)
    check_result(call.res_dtype, RESULTS, profile=profile, status=TbeStatus.E60011)
    check_equal(
        "out_backprop",
        "dtype",
        call.out_backprop.dtype,
        call.filters.dtype,
        source="that of filters",
        status=TbeStatus.E65002,
    )


def _check_lengths(call: Call) -> None:
    check_rank("filters", call.filters, Format.FRACTAL_Z, status=TbeStatus.E65003)
    check_rank("out_backprop", call.out_backprop, Format.NC1HWC0, status=TbeStatus.E65003)
    for name, values, length in (
        ("filter_sizes", call.filter_sizes, _QUAD),
        ("para_dict.strides", call.strides, _PAIR),
        ("para_dict.dilations", call.dilations, _QUAD),
        ("input_sizes", call.input_sizes, _QUAD),
        ("para_dict.padding", call.padding, _QUAD),
    ):
        check_length(name, values, length, status=TbeStatus.E60006)
    if call.offset_w is not None:
        raise invalid_argument(
            "para_dict.offset_w", given=call.offset_w, allowed="nothing", status=TbeStatus.E65004
        )


def _check_sizes(call: Call, profile: str) -> None:
    """Checks sizes; a stride below 1 shows in the height and width that out_backprop must have."""
    _, _, height, width, _ = call.out_backprop.shape
    high, wide = call.strides
    check_lanes("out_backprop", call.out_backprop, Format.NC1HWC0, status=TbeStatus.E65007)
    across = (width, wide, high) if call.filter_sizes[2:] == (1, 1) else (width, wide)
    one_row = call.has_one_row
    for limit, name, factors in (
        (HEIGHT_ON_GRID, "height", (height, high)),
        (WIDTH_ON_GRID_OF_A_ROW if one_row else WIDTH_ON_GRID, "width", across),
        (HEIGHT, "height", call.input_sizes[2:3]),
        (WIDTH_OF_A_ROW if one_row else WIDTH, "width", call.input_sizes[3:]),
    ):
        given = f"{name} {_product(factors)}"
        values = (prod(factors),)
        check_limit(limit, values, profile=profile, status=TbeStatus.E60011, given=given)


def _product(factors: Sequence[int]) -> str:
    """A size, or a size times strides with its product."""
    size, *strides = factors
    times = "".join(f" times stride {stride}" for stride in strides)
    return f"{size}{times} = {prod(factors)}" if strides else f"{size}"


def _check_spatial(call: Call) -> None:
    """Checks sizes; out_backprop of 1 x 1 or more implies that the kernel fits the image."""
    batch, _, *sizes, _ = call.out_backprop.shape
    check_equal(
        "out_backprop",
        "N",
        batch,
        call.input_sizes[0],
        source="that of input_sizes",
        status=TbeStatus.E65007,
    )
    for axis, name in enumerate(("height", "width")):
        expected = output_size(
            call.input_sizes[2 + axis],
            kernel=call.filter_sizes[2 + axis],
            stride=call.strides[axis],
            padding=sum(call.padding[2 * axis : 2 * axis + 2]),
            dilation=call.dilations[2 + axis],
        )
        check_equal(
            "out_backprop",
            name,
            sizes[axis],
            expected,
            source="as input_sizes, filter_sizes and para_dict give it",
            status=TbeStatus.E65007,
        )


def _check_groups(call: Call) -> None:
    """Checks every key of a group_dict against the formulas."""
    output_channels = call.filter_sizes[0]
    check_least("filter_sizes", call.filter_sizes[:2], 1, status=TbeStatus.E60011)
    name = f"{_GROUP_DICT}.groups"
    if call.groups is None:
        raise invalid_argument(name, given="nothing", allowed="a value", status=TbeStatus.E65007)
    if call.groups < 1 or output_channels % call.groups != 0:
        raise invalid_argument(
            name,
            given=call.groups,
            allowed=f"divisors of the {output_channels} output channels",
            status=TbeStatus.E60108,
        )
    if call.group_dict is not None:
        _check_group_dict(call, call.group_dict, call.groups)


def _check_group_dict(call: Call, given: GroupDict, groups: int) -> None:
    for key, allowed in group_dict((*call.filter_sizes[:2], 1, 1), groups).items():
        value: int | str | None = getattr(given, key)
        if value != allowed:
            raise invalid_argument(
                f"{_GROUP_DICT}.{key}",
                given="nothing" if value is None else value,
                allowed=allowed,
                status=TbeStatus.E65007,
            )


def _check_filters(call: Call) -> None:
    check_least("para_dict.padding", call.padding, 0, status=TbeStatus.E60114)
    check_lanes("filters", call.filters, Format.FRACTAL_Z, status=TbeStatus.E65007)
    check_equal(
        "filters",
        "dimension 1 of size",
        call.filters.shape[1],
        call.blocks.output_blocks,
        source="the dy_c1_extend of filter_sizes and groups",
        status=TbeStatus.E65007,
    )
    check_least("filter_sizes", call.filter_sizes[2:], 1, status=TbeStatus.E60114)


def _check_bytes(call: Call) -> None:
    check_bytes("filters", call.filters.shape, call.filters.dtype.size_bytes)
    check_bytes("out_backprop", call.out_backprop.shape, call.out_backprop.dtype.size_bytes)
    result = result_dtype(call.res_dtype)
    assert result is not None
    check_bytes("input_sizes", result_shape(call.input_sizes), result.size_bytes)


def _check_rows(call: Call) -> None:
    rows, taps = call.filters.shape[0], call.taps
    if rows % taps != 0:
        raise invalid_argument(
            "filters",
            given=f"dimension 0 of size {rows}",
            allowed=f"multiples of {taps}, KH times KW of filter_sizes",
            status=TbeStatus.E60108,
        )


def _check_offset(call: Call) -> None:
    if call.offset_x != 0:
        raise invalid_argument(
            "para_dict.offset_x",
            given=call.offset_x,
            allowed="0 for floating dtypes",
            status=TbeStatus.E60011,
        )


def _check_unchecked_by_the_source(call: Call) -> None:
    check_least("input_sizes", call.input_sizes[:1], 1, status=TbeStatus.E60011)
    blocks = call.blocks
    channels = blocks.groups * blocks.input_channels
    check_equal(
        "input_sizes",
        "Cin",
        call.input_sizes[1],
        channels,
        source="groups times Cin/groups of filter_sizes",
        status=TbeStatus.E60002,
    )
    check_equal(
        "out_backprop",
        "C1",
        call.out_backprop.shape[1],
        -(-call.filter_sizes[0] // BLOCK),
        source="the blocks of 16 that hold Cout of filter_sizes",
        status=TbeStatus.E60002,
    )
    check_equal(
        "filters",
        "dimension 0 of size",
        call.filters.shape[0],
        blocks.count * blocks.input_blocks * call.taps,
        source="g_extend*dx_c1_extend*KH*KW of filter_sizes and groups",
        status=TbeStatus.E65007,
    )


def _check_formats(call: Call, page: PageRules) -> None:
    with page.rule("format is neither FRACTAL_Z nor ND"):
        check_format("filters", call.filters, Format.FRACTAL_Z, status=TbeStatus.E65003)
    with page.rule("format is neither NC1HWC0 nor ND"):
        check_format("out_backprop", call.out_backprop, Format.NC1HWC0, status=TbeStatus.E65003)


def _check_page_dtypes(call: Call, page: PageRules) -> None:
    for name, tensor in (("filters", call.filters), ("out_backprop", call.out_backprop)):
        with page.rule("dtype is BF16"):
            check_page_dtype(name, tensor, PAGE_DTYPES, status=TbeStatus.E60011)


def _check_result(call: Call) -> None:
    result = required("res_tensor", call.res_tensor)
    check_equal(
        "res_tensor",
        "dtype",
        result.dtype,
        result_dtype(call.res_dtype),
        source="that of para_dict.res_dtype",
        status=TbeStatus.E65002,
    )
    check_format("res_tensor", result, Format.NC1HWC0, status=TbeStatus.E65003)
    check_equal(
        "res_tensor",
        "shape",
        list(result.shape),
        list(result_shape(call.input_sizes)),
        source="that of input_sizes in NC1HWC0",
        status=TbeStatus.E65007,
    )
