"""The contract of ConvDepthwise2d as data: revision, support by profile, error table, limits."""

from collections.abc import Mapping

from opserve_kernels.aclnn_rules import contradicted, invalid, null, on_page, unlisted
from opserve_kernels.bounds import Bound, bound
from opserve_kernels.forward.sizes import RANK_2D
from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
from opserve_kernels.tensor import DataType

REVISION = 1
DOCUMENTED_RULES = DocumentedRules.WARN

_NARROW = (DataType.FLOAT, DataType.FLOAT16)
_WIDE = (*_NARROW, DataType.BF16)
_AS_FLOAT16 = "FLOAT computed as FLOAT16, by cube_math_type 1 or 2"
SUPPORT: Mapping[str, Support] = {
    "ascend910b": Support(dtypes=_WIDE),
    "ascend910": Support(dtypes=_NARROW, source_only=_NARROW, notes=_AS_FLOAT16),
    "ascend310p": Support(dtypes=_NARROW, source_only=_NARROW, notes=_AS_FLOAT16),
    "ascend310b": Support(dtypes=_WIDE, source_only=_WIDE),
    "reference": Support(
        dtypes=(*_WIDE, DataType.DOUBLE),
        notes="no upper limits; summed in float64 with the bias and rounded once",
    ),
}
SOURCE_ONLY_PROFILES = ("ascend910", "ascend310p", "ascend310b")
PRODUCTS = ("ascend910b", *SOURCE_ONLY_PROFILES)
"""Profiles that represent a product, which the vendor's rules on equal dtypes are about."""

_A2, _OLDER = "ascend910b", ("ascend910", "ascend310p")
_ALL, _CHANNELS, _SPATIAL = slice(None), slice(1, 2), slice(2, None)


def _bound(
    parameter: str, allowed: tuple[int, int], where: str, sentence: str, values: slice
) -> Bound:
    return bound(parameter, allowed, where, _A2, ranks=(RANK_2D,), values=values, sentence=sentence)


_SIZES = "各个维度的大小应该小于等于1000000"
BOUNDS: tuple[Bound, ...] = (
    _bound("self", (0, 65535), "C", "self C [0,65535]", _CHANNELS),
    *(
        _bound(parameter, (0, 1_000_000), "a size", _SIZES, _ALL)
        for parameter in ("self", "weight", "bias")
    ),
    _bound("stride", (1, 63), "", "stride [1,63]", _ALL),
    _bound("padding", (0, 255), "", "padding [0,255]", _ALL),
    _bound("dilation", (1, 255), "", "dilation [1,255]", _ALL),
)
CUBE_MATH_TYPES = Limit(parameter="cube_math_type", least=0, most=4)
LIMITS: tuple[Limit, ...] = (CUBE_MATH_TYPES, *(one.limit for one in BOUNDS))

_TENSORS = ("self", "weight", "out")
_STEPS = ("stride", "padding", "dilation")
_DTYPE = "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"
_SOURCE, _OPSERVE = RuleOrigin.SOURCE, RuleOrigin.OPSERVE
RULES: tuple[Rule, ...] = (
    *(null(parameter) for parameter in ("self", "weight", *_STEPS, "out")),
    null("kernel_size", origin=_OPSERVE),  # the source reads from the null pointer
    null("cube_math_type", origin=_OPSERVE),  # in C, no pointer
    invalid("bias", _DTYPE),
    invalid("bias", "dtype is BF16", "ascend310p"),
    invalid("bias", "dtype is not that of self", *PRODUCTS),
    *(invalid(parameter, _DTYPE) for parameter in _TENSORS),
    *(invalid(parameter, "dtype is BF16", *_OLDER) for parameter in _TENSORS),
    invalid("weight", "dtype is not that of self", *PRODUCTS),
    invalid("out", "dtype is not that of weight", *PRODUCTS),
    *(invalid(parameter, "not 4 dimensions") for parameter in _TENSORS),
    invalid("bias", "not 1 dimension"),
    *(invalid(parameter, "not two values") for parameter in _STEPS),
    *(invalid(parameter, "format is not NCHW") for parameter in _TENSORS),
    invalid("weight", "a spatial size is 0", origin=_SOURCE),
    invalid("stride", "a value below 1"),
    invalid("dilation", "a value below 1"),
    invalid("padding", "a negative value, no tensor is empty"),
    invalid("self", "smaller than the dilated kernel"),
    invalid("weight", "dimension 1 is above 1"),
    invalid("weight", "dimension 0 is not a multiple of the channels of self"),
    invalid("bias", "size is not weight's dimension 0"),
    invalid("out", "shape is not that of the convolution"),
    invalid("out", "not empty, though self or weight is", origin=_SOURCE),
    invalid("cube_math_type", "not 0, 1, 2, 3 or 4"),
    invalid("cube_math_type", "0, 3 or 4 with FLOAT", *_OLDER),
    invalid("kernel_size", "not weight's dimensions 2 and 3"),
    *(unlisted(profile, "Atlas A2、A3 以外的产品 不支持") for profile in SOURCE_ONLY_PROFILES),
    contradicted("bias", "format is not ND", "bias 数据格式 ND"),
    on_page("self", "no channels", "self C >= 1", _A2),
    on_page("weight", "a size is 0", "weight 所有维度 >= 1", _A2),
    on_page("cube_math_type", "2 with BF16", "cubeMathType 2: BFLOAT16 不支持", _A2),
    on_page("weight", "H or W is not below that of self", "weight H、W 小于 self H、W", _A2),
    on_page("cube_math_type", "4", "cubeMathType 0、1、2、3", *PRODUCTS),
    *(one.rule for one in BOUNDS),
)
