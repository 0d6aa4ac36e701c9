"""The rules of conv2d_backprop_input, in the order of the vendor's source; opserve's own come last.

Two of opserve's stand earlier, for others rest on them: that channels are at least 1, and that
groups divide them.
"""

from opserve_kernels.conv2d_backprop_input.call import Call, result_dtype, result_shape
from opserve_kernels.conv2d_backprop_input.contract import (
    DILATION,
    HEIGHT,
    HEIGHT_ON_GRID,
    RESULTS,
    SUPPORT,
    WIDTH,
    WIDTH_OF_A_ROW,
    WIDTH_ON_GRID,
    WIDTH_ON_GRID_OF_A_ROW,
)
from opserve_kernels.conv2d_backprop_input.schema import Conv2dBackpropInput, GroupDict
from opserve_kernels.convolution import output_size
from opserve_kernels.errors import invalid_argument
from opserve_kernels.formats import group_dict
from opserve_kernels.profiles import Profile
from opserve_kernels.status import TbeStatus
from opserve_kernels.tbe_rules import (
    BLOCK,
    check_bytes,
    check_equal,
    check_format,
    check_least,
    check_length,
    check_limit,
    check_rank,
    check_result,
    check_supported,
    required,
)
from opserve_kernels.tensor import Format

_GROUP_DICT = "para_dict.group_dict"
_FILTERS_RANK, _IMAGE_RANK = 4, 5
_PAIR, _QUAD = 2, 4


def check(arguments: Conv2dBackpropInput, profile: Profile) -> Call:
    """Refuses arguments that break a rule; the codes are in README.md."""
    call = _check_given(arguments)
    _check_dtypes(call, profile)
    _check_lengths(call)
    _check_sizes(call)
    _check_spatial(call)
    _check_groups(call)
    _check_filters(call)
    _check_dilations(call)
    _check_bytes(call)
    _check_rows(call)
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


def _check_dtypes(call: Call, profile: Profile) -> None:
    dtypes = SUPPORT[profile.name].dtypes
    check_supported("filters", call.filters, dtypes, status=TbeStatus.E60011)
    check_supported("out_backprop", call.out_backprop, dtypes, status=TbeStatus.E60011)
    check_result(call.res_dtype, RESULTS[profile.name], status=TbeStatus.E60011)
    check_equal(
        "out_backprop",
        "dtype",
        call.out_backprop.dtype,
        call.filters.dtype,
        status=TbeStatus.E65002,
    )


def _check_lengths(call: Call) -> None:
    check_rank("filters", call.filters, _FILTERS_RANK, status=TbeStatus.E65003)
    check_rank("out_backprop", call.out_backprop, _IMAGE_RANK, status=TbeStatus.E65003)
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


def _check_sizes(call: Call) -> None:
    """A stride below 1 is found here, for out_backprop is as high and as wide as it says."""
    _, _, height, width, lanes = call.out_backprop.shape
    check_equal("out_backprop", "C0", lanes, BLOCK, status=TbeStatus.E65007)
    on_grid = width * call.strides[1]
    if call.filter_sizes[2:] == (1, 1):
        on_grid *= call.strides[0]
    one_row = call.has_one_row
    check_limit(HEIGHT_ON_GRID, (height * call.strides[0],), status=TbeStatus.E60011)
    width_limit = WIDTH_ON_GRID_OF_A_ROW if one_row else WIDTH_ON_GRID
    check_limit(width_limit, (on_grid,), status=TbeStatus.E60011)
    check_limit(HEIGHT, call.input_sizes[2:3], status=TbeStatus.E60011)
    width_limit = WIDTH_OF_A_ROW if one_row else WIDTH
    check_limit(width_limit, call.input_sizes[3:], status=TbeStatus.E60011)


def _check_spatial(call: Call) -> None:
    """The padded image holds the kernel, for out_backprop is at least 1 high and wide."""
    batch, _, *sizes, _ = call.out_backprop.shape
    check_equal("out_backprop", "N", batch, call.input_sizes[0], status=TbeStatus.E65007)
    for axis, name in enumerate(("height", "width")):
        expected = output_size(
            call.input_sizes[2 + axis],
            kernel=call.filter_sizes[2 + axis],
            stride=call.strides[axis],
            padding=sum(call.padding[2 * axis : 2 * axis + 2]),
            dilation=call.dilations[2 + axis],
        )
        check_equal("out_backprop", name, sizes[axis], expected, status=TbeStatus.E65007)


def _check_groups(call: Call) -> None:
    """Every key of a group_dict, against the formulas."""
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
    _, blocks, *lanes = call.filters.shape
    check_equal("filters", "[Cout0, Cin0]", lanes, [BLOCK, BLOCK], status=TbeStatus.E65007)
    check_equal(
        "filters", "dimension 1", blocks, call.blocks.output_blocks, status=TbeStatus.E65007
    )
    check_least("filter_sizes", call.filter_sizes[2:], 1, status=TbeStatus.E60114)


def _check_dilations(call: Call) -> None:
    check_equal(
        "para_dict.dilations",
        "N and C of dilations",
        call.dilations[:2],
        (1, 1),
        status=TbeStatus.E60023,
    )
    check_limit(DILATION, call.dilations[2:], status=TbeStatus.E60011)


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
            given=f"dimension 0 {rows}",
            allowed=f"multiples of the {taps} taps of the kernel",
            status=TbeStatus.E60108,
        )


def _check_unchecked_by_the_source(call: Call) -> None:
    if call.offset_x != 0:
        raise invalid_argument(
            "para_dict.offset_x",
            given=call.offset_x,
            allowed="0 for floating dtypes",
            status=TbeStatus.E60011,
        )
    check_format("filters", call.filters, Format.FRACTAL_Z, status=TbeStatus.E65003)
    check_format("out_backprop", call.out_backprop, Format.NC1HWC0, status=TbeStatus.E65003)
    check_least("input_sizes", call.input_sizes[:1], 1, status=TbeStatus.E60011)
    blocks = call.blocks
    channels = blocks.groups * blocks.input_channels
    check_equal("input_sizes", "Cin", call.input_sizes[1], channels, status=TbeStatus.E60002)
    check_equal(
        "out_backprop",
        "C1",
        call.out_backprop.shape[1],
        -(-call.filter_sizes[0] // BLOCK),
        status=TbeStatus.E60002,
    )
    check_equal(
        "filters",
        "dimension 0",
        call.filters.shape[0],
        blocks.count * blocks.input_blocks * call.taps,
        status=TbeStatus.E65007,
    )


def _check_result(call: Call) -> None:
    result = required("res_tensor", call.res_tensor)
    check_equal(
        "res_tensor", "dtype", result.dtype, result_dtype(call.res_dtype), status=TbeStatus.E65002
    )
    check_format("res_tensor", result, Format.NC1HWC0, status=TbeStatus.E65003)
    check_equal(
        "res_tensor",
        "shape",
        result.shape,
        result_shape(call.input_sizes),
        status=TbeStatus.E65007,
    )
