"""The contract of ConvTbc as data: revision, support by profile, error table, limits."""

from collections.abc import Mapping

from opserve_kernels.aclnn_rules import contradicted, invalid, null, on_page, unlisted
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
    "reference": Support(
        dtypes=(*_WIDE, DataType.DOUBLE),
        notes="summed in float64 with the bias and rounded once",
    ),
}
SOURCE_ONLY_PROFILES = ("ascend910", "ascend310p")
PRODUCTS = ("ascend910b", *SOURCE_ONLY_PROFILES)
"""Profiles that represent a product, which the vendor's rules on equal dtypes are about."""

PAD = Limit(parameter="pad", least=0, most=255, profiles=("ascend910b",))
CUBE_MATH_TYPES = Limit(parameter="cube_math_type", least=0, most=4)
LIMITS: tuple[Limit, ...] = (PAD, CUBE_MATH_TYPES)

_IMAGES = ("self", "weight", "out")
_DTYPE = "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"
_SOURCE, _OPSERVE = RuleOrigin.SOURCE, RuleOrigin.OPSERVE
RULES: tuple[Rule, ...] = (
    *(null(parameter) for parameter in ("self", "weight", "bias", "out")),
    *(null(parameter, origin=_OPSERVE) for parameter in ("pad", "cube_math_type")),
    *(invalid(parameter, "not 3 dimensions") for parameter in _IMAGES),
    invalid("bias", _DTYPE),
    invalid("bias", "dtype is BF16", "ascend310p"),
    *(invalid(parameter, _DTYPE) for parameter in _IMAGES),
    *(invalid(parameter, "dtype is BF16", *SOURCE_ONLY_PROFILES) for parameter in _IMAGES),
    invalid("weight", "dtype is not that of self", *PRODUCTS),
    invalid("out", "dtype is not that of weight", *PRODUCTS),
    invalid("bias", "not 1 dimension"),
    *(invalid(parameter, "format is not ND or NCL") for parameter in _IMAGES),
    invalid("bias", "size is not weight's dimension 2"),
    invalid("weight", "no taps", origin=_SOURCE),
    invalid("pad", "negative, no tensor is empty"),
    invalid("weight", "more taps than times and one pad", *PRODUCTS, origin=_SOURCE),
    invalid("weight", "more taps than the padded input has times"),
    invalid("weight", "dimension 1 is not the channels of self"),
    invalid("out", "shape is not that of the convolution"),
    invalid("cube_math_type", "not 0, 1, 2, 3 or 4"),
    invalid("cube_math_type", "0, 3 or 4 with FLOAT", *SOURCE_ONLY_PROFILES),
    *(unlisted(profile, "Atlas A2、A3 以外的产品 不支持") for profile in SOURCE_ONLY_PROFILES),
    contradicted("bias", "dtype is not that of self", "self、weight、bias 数据类型一致", *PRODUCTS),
    on_page("bias", "format is not ND", "bias 数据格式 ND"),
    on_page("pad", f"not in [{PAD.least}, {PAD.most}]", "pad [0,255]", *PAD.profiles),
    # The plugin for PyTorch passes 0 where HF32 is off.
    contradicted("cube_math_type", "0 with FLOAT", "cubeMathType 0: FLOAT 暂不支持", *PAD.profiles),
    on_page("cube_math_type", "2 with BF16", "cubeMathType 2: BFLOAT16 不支持", *PAD.profiles),
    on_page("cube_math_type", "4", "cubeMathType 0、1、2、3", *PRODUCTS),
)
