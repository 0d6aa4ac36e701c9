"""The contract of Im2col as data: revision, support, error table, bounds."""

from collections.abc import Mapping

from opserve_kernels.aclnn_rules import invalid, null, on_page, unlisted
from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
from opserve_kernels.tensor import DataType

REVISION = 1
DOCUMENTED_RULES = DocumentedRules.WARN

_DTYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)
SUPPORT: Mapping[str, Support] = {
    "ascend910b": Support(dtypes=_DTYPES),
    "ascend910": Support(dtypes=_DTYPES, source_only=_DTYPES),
    "reference": Support(dtypes=(*_DTYPES, DataType.DOUBLE)),
}
SOURCE_ONLY_PROFILE = "ascend910"

_ARRAYS = ("kernel_size", "dilation", "padding", "stride")

LEAST: Mapping[str, int] = dict(zip(_ARRAYS, (1, 1, 0, 1), strict=True))
LIMITS: tuple[Limit, ...] = tuple(
    Limit(parameter=parameter, least=least, most=None) for parameter, least in LEAST.items()
)

_PRODUCTS_SENTENCE = "Atlas 训练系列产品 不支持"
_FORMAT_SENTENCE = "数据格式 ND"

RULES: tuple[Rule, ...] = (
    *(null(parameter) for parameter in ("self", *_ARRAYS, "out")),
    invalid("self", "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"),
    invalid("self", "not 3 or 4 dimensions"),
    invalid("self", "a size but the number of entries is 0", origin=RuleOrigin.SOURCE),
    *(invalid(parameter, "not two values") for parameter in _ARRAYS),
    invalid("kernel_size", "a value below 1"),
    invalid("stride", "a value below 1"),
    invalid("dilation", "a value below 1"),
    invalid("padding", "a negative value"),
    invalid(
        "kernel_size",
        "a block does not fit on the padded image",
        origin=RuleOrigin.SOURCE,
    ),
    invalid("out", "shape is not that of the columns"),
    invalid(
        "out",
        "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE",
        origin=RuleOrigin.OPSERVE,
    ),
    unlisted(SOURCE_ONLY_PROFILE, _PRODUCTS_SENTENCE),
    invalid(
        "self",
        "format is not ND",
        origin=RuleOrigin.CONTRADICTED,
        sentence=_FORMAT_SENTENCE,
    ),
    on_page("out", "format is not ND", _FORMAT_SENTENCE),
)
