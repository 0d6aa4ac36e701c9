"""The rules of deconv_grad_filter, in the order in which they are checked.

The original checks nothing, so the order is opserve's: missing arguments, the function and its
cores, dtypes, formats, shapes, then the numbers and their relations, dw_data last.
"""

from collections.abc import Mapping

from opserve_kernels.errors import InvalidArgument, invalid_argument
from opserve_kernels.operators.deconv_grad_filter.call import (
    OC_KH_KW,
    ROW_ORDERS,
    Call,
)
from opserve_kernels.operators.deconv_grad_filter.contract import (
    FUNCTION_DTYPES,
    LIMITS,
    MOST,
    SUPPORT,
)
from opserve_kernels.operators.deconv_grad_filter.schema import (
    DY_SIZES,
    FUNCTIONS,
    IMAGE_RANK,
    PARAM_FIELDS,
    X_SIZES,
    DeconvGradFilter,
    numbers_of,
    weight_shape,
)
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import check_supported
from opserve_kernels.status import AnyStatus, DeconvStatus
from opserve_kernels.tensor import DataType, Format, Tensor, check_tensor

_FORMATS = (Format.NHWC, Format.ND)
_PARAM_LENGTHS = (18, 20)
_Tensors = Mapping[str, Tensor]


def check(arguments: DeconvGradFilter, profile: Profile, page: PageRules) -> Call:
    """Returns the arguments of a call that breaks no rule.

    Raises:
        InvalidArgument: DECONV_PARAM_NULL, DECONV_DTYPE_NOT_SUPPORTED or DECONV_PARAM_INVALID;
            see README.md.
    """
    tensors = _check_given(arguments)
    _check_function(arguments, page)
    _check_core_mask(arguments.core_mask, profile)
    _check_dtypes(arguments.function, tensors, profile)
    _check_formats(tensors, page)
    _check_images(tensors)
    _check_param(arguments)
    numbers = numbers_of(arguments)
    _check_limits(numbers)
    _check_sizes(numbers, tensors)
    _check_group(numbers)
    _check_rows(numbers)
    return Call(
        dy_data=tensors["dy_data"],
        x_data=tensors["x_data"],
        row_order=_checked_row_order(arguments),
        dw_data=_checked_weight(numbers, tensors.get("dw_data")),
        **numbers,
    )


def _refused(
    parameter: str,
    *,
    given: object,
    allowed: object,
    status: AnyStatus = DeconvStatus.DECONV_PARAM_INVALID,
) -> InvalidArgument:
    return invalid_argument(parameter, given=given, allowed=allowed, status=status)


def _missing(parameter: str, allowed: str = "a value") -> InvalidArgument:
    status = DeconvStatus.DECONV_PARAM_NULL
    return _refused(parameter, given="nothing", allowed=allowed, status=status)


def _check_given(arguments: DeconvGradFilter) -> _Tensors:
    """Checks that tensors are given; dw_data last, as it is inferred unless a number is wrong."""
    given = {name: getattr(arguments, name) for name in ("dy_data", "x_data", "dw_data")}
    tensors: _Tensors = {name: tensor for name, tensor in given.items() if tensor is not None}
    for name in ("dy_data", "x_data"):
        if name not in tensors:
            raise _missing(name)
    if arguments.param is None:
        if not _given_fields(arguments):
            raise _missing("param", "kernel_h and kernel_w, or an array of 18 to 20 entries")
        for name in ("kernel_h", "kernel_w"):
            if getattr(arguments, name) is None:
                raise _missing(name, "a value, or param")
    return tensors


def _given_fields(arguments: DeconvGradFilter) -> list[str]:
    """The fields of param that are given by name."""
    return [name for name in PARAM_FIELDS if getattr(arguments, name) is not None]


def _check_function(arguments: DeconvGradFilter, page: PageRules) -> None:
    function, core_mask = arguments.function, arguments.core_mask
    if function is None:
        return
    if function not in FUNCTIONS:
        raise _refused("function", given=function, allowed=", ".join(FUNCTIONS))
    if function.endswith("_s") and core_mask is None:
        raise _missing("core_mask", f"a mask of cores, which {function} needs")
    if function.endswith("_p") and core_mask is not None:
        with page.rule("given to a _p function"):
            raise _refused("core_mask", given=core_mask, allowed=f"nothing: {function} has no mask")


def _check_core_mask(core_mask: int | None, profile: Profile) -> None:
    most = 2**profile.cores - 1
    if core_mask is not None and not 1 <= core_mask <= most:
        raise _refused(
            "core_mask",
            given=core_mask,
            allowed=f"1 to {most}: some of the {profile.cores} cores of {profile.name}",
        )


def _check_dtypes(function: str | None, tensors: _Tensors, profile: Profile) -> None:
    computed = FUNCTION_DTYPES[function[:2]] if function else None
    dtype = tensors["dy_data"].dtype
    if computed:
        _check_supported("function", computed, profile, what=f"{function}, which computes in")
    _check_supported("dy_data", dtype, profile, what="dtype")
    for name, tensor in tensors.items():
        if tensor.dtype != dtype:
            raise _refused(
                name, given=f"dtype {tensor.dtype}", allowed=f"dtype {dtype}, as dy_data has"
            )
    if computed and computed != dtype:
        raise _refused(
            "function",
            given=f"{function} for tensors of dtype {dtype}",
            allowed=f"tensors of dtype {computed}, or another function",
        )


def _check_supported(parameter: str, dtype: DataType, profile: Profile, *, what: str) -> None:
    check_supported(
        parameter,
        dtype,
        {name: support.dtypes for name, support in SUPPORT.items()},
        profile=profile.name,
        status=DeconvStatus.DECONV_DTYPE_NOT_SUPPORTED,
        what=what,
    )


def _check_formats(tensors: _Tensors, page: PageRules) -> None:
    for name, tensor in tensors.items():
        if tensor.format not in _FORMATS:
            with page.rule("format is neither NHWC nor ND"):
                raise _refused(name, given=f"format {tensor.format}", allowed="formats NHWC, ND")


def _check_images(tensors: _Tensors) -> None:
    for name in ("dy_data", "x_data"):
        shape = tensors[name].shape
        if len(shape) != IMAGE_RANK:
            raise _refused(name, given=f"shape {list(shape)}", allowed=f"{IMAGE_RANK} dimensions")
        if 0 in shape:
            raise _refused(name, given=f"shape {list(shape)}", allowed="sizes >= 1")


def _check_param(arguments: DeconvGradFilter) -> None:
    if arguments.param is None:
        return
    given, (least, most) = _given_fields(arguments), _PARAM_LENGTHS
    if given:
        raise _refused("param", given=f"param and {', '.join(given)}", allowed="one of the two")
    if not least <= len(arguments.param) <= most:
        raise _refused(
            "param", given=f"{len(arguments.param)} entries", allowed=f"{least} to {most} entries"
        )


def _check_limits(numbers: Mapping[str, int]) -> None:
    for limit in LIMITS:
        number = numbers[limit.parameter]
        if not limit.holds(number):
            raise _refused(limit.parameter, given=number, allowed=f"{limit.least} to {limit.most}")


def _check_sizes(numbers: Mapping[str, int], tensors: _Tensors) -> None:
    for tensor_name, names in (("x_data", X_SIZES), ("dy_data", DY_SIZES)):
        shape = tensors[tensor_name].shape
        for name, size in zip(names, shape, strict=True):
            if numbers[name] != size:
                raise _refused(
                    name,
                    given=numbers[name],
                    allowed=f"{size}: {tensor_name} has shape {list(shape)}",
                )
    if numbers["batch"] != numbers["input_batch"]:
        raise _refused(
            "batch", given=numbers["batch"], allowed=f"{numbers['input_batch']}, input_batch"
        )


def _check_group(numbers: Mapping[str, int]) -> None:
    for name in ("in_c", "out_c"):
        if numbers[name] % numbers["group"] != 0:
            raise _refused(
                "group", given=numbers["group"], allowed=f"divisors of {name}, {numbers[name]}"
            )


def _check_rows(numbers: Mapping[str, int]) -> None:
    """Checks the rows of dw_data; the error names the number that makes them too many."""
    rows = 1
    for name in ("out_c", "kernel_h", "kernel_w"):
        rows *= numbers[name] // numbers["group"] if name == "out_c" else numbers[name]
        if rows > MOST:
            raise _refused(
                name, given=numbers[name], allowed=f"at most {MOST} rows of dw_data, not {rows}"
            )


def _checked_row_order(arguments: DeconvGradFilter) -> str:
    row_order = OC_KH_KW if arguments.row_order is None else arguments.row_order
    if row_order not in ROW_ORDERS:
        raise _refused("row_order", given=row_order, allowed=", ".join(ROW_ORDERS))
    return row_order


def _checked_weight(numbers: Mapping[str, int], dw_data: Tensor | None) -> Tensor:
    if dw_data is None:
        raise _missing("dw_data")
    check_tensor("dw_data", dw_data, buffer_bytes=None)
    shape = weight_shape(numbers)
    if dw_data.shape != shape:
        raise _refused(
            "dw_data", given=f"shape {list(dw_data.shape)}", allowed=f"shape {list(shape)}"
        )
    return dw_data
