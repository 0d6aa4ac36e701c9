"""The contract of deconv_grad_filter as data: revision, support, limits, error table."""

from collections.abc import Mapping

from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
from opserve_kernels.operators.deconv_grad_filter.schema import DY_SIZES, X_SIZES
from opserve_kernels.status import DeconvStatus
from opserve_kernels.tensor import DataType

REVISION = 2
DOCUMENTED_RULES = DocumentedRules.ERROR
SUPPORT: Mapping[str, Support] = {
    "ft78ne": Support(dtypes=(DataType.FLOAT,), notes="fp"),
    "mt7004": Support(dtypes=(DataType.FLOAT16, DataType.FLOAT), notes="hp and fp"),
    "reference": Support(
        dtypes=(DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE),
        notes="hp and fp; BF16 and DOUBLE without a function's name",
    ),
}
FUNCTION_DTYPES: Mapping[str, DataType] = {"fp": DataType.FLOAT, "hp": DataType.FLOAT16}
"""Dtypes by the first letters of a function's name."""
_POSITIVE = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "group")
_PADS = ("pad_u", "pad_l")
MOST = 2**31 - 1  # positions, sums of products of such numbers, then stay within 64 bits
LIMITS: tuple[Limit, ...] = (
    *(Limit(parameter=name, least=1, most=MOST) for name in _POSITIVE),
    *(Limit(parameter=name, least=0, most=MOST) for name in _PADS),
)
_NULL = (
    *((name, "missing") for name in ("dy_data", "x_data", "dw_data")),
    ("param", "missing, and no field in its place"),
    *((name, "missing, and no param in its place") for name in ("kernel_h", "kernel_w")),
    ("core_mask", "missing in a call of an _s function"),
)
_IMAGES = ("dy_data", "x_data")
_TENSORS = (*_IMAGES, "dw_data")
_INVALID = (
    ("function", "not a function of the library"),
    ("core_mask", "names no core"),
    ("core_mask", "names a core that the profile does not have"),
    ("x_data", "dtype is not dy_data's"),
    ("dw_data", "dtype is not dy_data's"),
    ("function", "its dtype is not dy_data's"),
    ("dy_data", "not 4 dimensions"),
    ("x_data", "not 4 dimensions"),
    ("dy_data", "a size of 0"),
    ("x_data", "a size of 0"),
    ("param", "given beside a field that it holds"),
    ("param", "not 18 to 20 entries"),
    *((name, f"outside 1 to {MOST}") for name in _POSITIVE),
    *((name, f"outside 0 to {MOST}") for name in _PADS),
    *((name, "not that size of x_data") for name in X_SIZES),
    *((name, "not that size of dy_data") for name in DY_SIZES),
    ("batch", "not input_batch"),
    ("group", "does not divide in_c"),
    ("group", "does not divide out_c"),
    *((name, f"more than {MOST} rows of dw_data") for name in ("out_c", "kernel_h", "kernel_w")),
    ("row_order", "neither oc_kh_kw nor kh_kw_oc"),
    ("dw_data", "shape is not [group, out_c/group*kernel_h*kernel_w, in_c/group]"),
)
_ON_THE_PAGE = (
    ("core_mask", "given to a _p function", "core_mask - 核掩码(仅适用于共享存储版本)。"),
    *((name, "format is neither NHWC nor ND", "输入与输出数据格式为 NHWC") for name in _TENSORS),
)


def _own(status: DeconvStatus, parameter: str, broken: str) -> Rule:
    """A rule of opserve: the library's source is not public, and its page does not state it."""
    return Rule(status=status, parameter=parameter, broken=broken, origin=RuleOrigin.OPSERVE)


RULES: tuple[Rule, ...] = (
    *(_own(DeconvStatus.DECONV_PARAM_NULL, *row) for row in _NULL),
    _own(DeconvStatus.DECONV_DTYPE_NOT_SUPPORTED, "dy_data", "dtype is not one of the profile's"),
    Rule(
        status=DeconvStatus.DECONV_DTYPE_NOT_SUPPORTED,
        parameter="function",
        broken="hp on a profile that has only fp",
        origin=RuleOrigin.BOTH,  # MindSpore Lite's backend offers hp on MT7004 alone
        profiles=("ft78ne",),
    ),
    *(_own(DeconvStatus.DECONV_PARAM_INVALID, *row) for row in _INVALID),
    *(
        Rule(
            status=DeconvStatus.DECONV_PARAM_INVALID,
            parameter=parameter,
            broken=broken,
            origin=RuleOrigin.PAGE,
            sentence=sentence,
        )
        for parameter, broken, sentence in _ON_THE_PAGE
    ),
)
