"""Features of deconv_grad_filter in a full suite."""

from collections.abc import Iterator
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.tensor import Format

Row = tuple[int, ...]
FEATURES = (
    *("groups", "depthwise", "limit", "array of numbers", "taps first"),
    *(f"format {tag}" for tag in (Format.ND, Format.NHWC)),
    *(f"function {letters}_{memory}" for letters in ("fp", "hp") for memory in "sp"),
)


def steps_of(case: Case) -> tuple[Row, Row, Row]:
    """Stride, padding and dilation, from the array or from the fields."""
    given = case.arguments
    param = cast("Row", given.get("param", ()))
    if param:
        return param[10:12], param[12:14], param[14:16]
    names = (("stride_h", "stride_w"), ("pad_u", "pad_l"), ("dilation_h", "dilation_w"))
    stride, padding, dilation = (tuple(cast("int", given[name]) for name in row) for row in names)
    return stride, padding, dilation


def groups_of(case: Case) -> tuple[int, int]:
    """Groups, and the input channels of one of them."""
    groups, _, channels = case.tensors["dw_data"].shape
    return groups, channels


def tried(case: Case) -> Iterator[str]:
    """Features that the arguments decide."""
    given = case.arguments
    if isinstance(function := given.get("function"), str):
        yield f"function {function[:2]}_{function[-1]}"
    if "param" in given:
        yield "array of numbers"
    if given.get("row_order") == "kh_kw_oc":
        yield "taps first"
