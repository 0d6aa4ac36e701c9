"""The contract of Im2col as data: revision, support, error table, bounds."""

from collections.abc import Mapping

from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
from opserve_kernels.status import Status
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


def _null(parameter: str) -> Rule:
    return Rule(
        status=Status.ACLNN_ERR_PARAM_NULLPTR,
        parameter=parameter,
        broken="missing",
        origin=RuleOrigin.BOTH,
    )


def _invalid(
    parameter: str,
    broken: str,
    *profiles: str,
    origin: RuleOrigin = RuleOrigin.BOTH,
    sentence: str = "",
) -> Rule:
    return Rule(
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
        broken=broken,
        origin=origin,
        sentence=sentence,
        profiles=profiles,
    )


RULES: tuple[Rule, ...] = (
    *(_null(parameter) for parameter in ("self", *_ARRAYS, "out")),
    _invalid("self", "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"),
    _invalid("self", "not 3 or 4 dimensions"),
    _invalid("self", "a size but the number of entries is 0", origin=RuleOrigin.SOURCE),
    *(_invalid(parameter, "not two values") for parameter in _ARRAYS),
    _invalid("kernel_size", "a value below 1"),
    _invalid("stride", "a value below 1"),
    _invalid("dilation", "a value below 1"),
    _invalid("padding", "a negative value"),
    _invalid(
        "kernel_size",
        "a block does not fit on the padded image",
        origin=RuleOrigin.SOURCE,
    ),
    _invalid("out", "shape is not that of the columns"),
    _invalid(
        "out",
        "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE",
        origin=RuleOrigin.OPSERVE,
    ),
    _invalid(
        "profile",
        "ascend910, a product that the page does not list",
        SOURCE_ONLY_PROFILE,
        origin=RuleOrigin.PAGE,
        sentence=_PRODUCTS_SENTENCE,
    ),
    _invalid(
        "self",
        "format is not ND",
        origin=RuleOrigin.CONTRADICTED,
        sentence=_FORMAT_SENTENCE,
    ),
    _invalid("out", "format is not ND", origin=RuleOrigin.PAGE, sentence=_FORMAT_SENTENCE),
)
