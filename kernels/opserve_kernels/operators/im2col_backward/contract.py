"""The contract of Im2colBackward as data: revision, support, error table, bounds."""

from collections.abc import Mapping

from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType

REVISION = 3
DOCUMENTED_RULES = DocumentedRules.ERROR

_BF16 = (DataType.BF16,)
PAGE_DTYPES = (DataType.FLOAT, DataType.FLOAT16)
SUPPORT: Mapping[str, Support] = {
    "ascend910b": Support(dtypes=(*PAGE_DTYPES, *_BF16), source_only=_BF16),
    "ascend910": Support(dtypes=PAGE_DTYPES),
    "reference": Support(
        dtypes=(*PAGE_DTYPES, *_BF16, DataType.DOUBLE), notes="summed in float64 and rounded once"
    ),
}

_ARRAYS = ("input_size", "kernel_size", "dilation", "padding", "stride")
_TENSORS = ("grad_output", "out")

LEAST: Mapping[str, int] = dict(zip(_ARRAYS, (1, 1, 1, 0, 1), strict=True))
LIMITS: tuple[Limit, ...] = tuple(
    Limit(parameter=parameter, least=least, most=None) for parameter, least in LEAST.items()
)


_DTYPE_SENTENCE = "数据类型支持FLOAT、FLOAT16。"
_FORMAT_SENTENCE = "数据格式支持ND。"
_INPUT_SIZE_SENTENCE = "值大于0。"  # of the newer page, hicann/ops-cv


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
    *(_null(parameter) for parameter in ("grad_output", *_ARRAYS, "out")),
    *(
        _invalid(parameter, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE")
        for parameter in _TENSORS
    ),
    *(_invalid(parameter, "dtype is BF16 on ascend910", "ascend910") for parameter in _TENSORS),
    _invalid("grad_output", "not 2 or 3 dimensions"),
    _invalid("out", "not one dimension more than grad_output"),
    *(_invalid(parameter, "not two values") for parameter in _ARRAYS),
    _invalid("kernel_size", "a value below 1"),
    _invalid("stride", "a value below 1"),
    _invalid("dilation", "a value below 1"),
    _invalid("padding", "a negative value"),
    _invalid("grad_output", "rows are not a multiple of a block's elements"),
    _invalid("kernel_size", "a block does not fit on the padded image"),
    _invalid("grad_output", "columns are not the positions of the blocks"),
    _invalid("out", "shape is not that of the image"),
    _invalid(
        "input_size",
        "a value below 1",
        origin=RuleOrigin.PAGE,
        sentence=_INPUT_SIZE_SENTENCE,
    ),
    *(
        _invalid(
            parameter,
            "format is not ND",
            origin=RuleOrigin.CONTRADICTED,
            sentence=_FORMAT_SENTENCE,
        )
        for parameter in _TENSORS
    ),
    *(
        _invalid(
            parameter,
            "dtype is BF16 on ascend910b",
            "ascend910b",
            origin=RuleOrigin.CONTRADICTED,
            sentence=_DTYPE_SENTENCE,
        )
        for parameter in _TENSORS
    ),
)
