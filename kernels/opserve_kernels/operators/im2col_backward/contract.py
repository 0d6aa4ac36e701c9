"""The contract of Im2colBackward as data: revision, support, error table, bounds."""

from collections.abc import Mapping

from opserve_kernels.aclnn_rules import invalid, null, on_page
from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
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

RULES: tuple[Rule, ...] = (
    *(null(parameter) for parameter in ("grad_output", *_ARRAYS, "out")),
    *(
        invalid(parameter, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE")
        for parameter in _TENSORS
    ),
    *(invalid(parameter, "dtype is BF16", "ascend910") for parameter in _TENSORS),
    invalid("grad_output", "not 2 or 3 dimensions"),
    invalid("out", "not one dimension more than grad_output"),
    *(invalid(parameter, "not two values") for parameter in _ARRAYS),
    invalid("kernel_size", "a value below 1"),
    invalid("stride", "a value below 1"),
    invalid("dilation", "a value below 1"),
    invalid("padding", "a negative value"),
    invalid("grad_output", "rows are not a multiple of a block's elements"),
    invalid("kernel_size", "a block does not fit on the padded image"),
    invalid("grad_output", "columns are not the positions of the blocks"),
    invalid("out", "shape is not that of the image"),
    on_page("input_size", "a value below 1", _INPUT_SIZE_SENTENCE),
    *(
        invalid(
            parameter,
            "format is not ND",
            origin=RuleOrigin.CONTRADICTED,
            sentence=_FORMAT_SENTENCE,
        )
        for parameter in _TENSORS
    ),
    *(
        invalid(
            parameter,
            "dtype is BF16",
            "ascend910b",
            origin=RuleOrigin.CONTRADICTED,
            sentence=_DTYPE_SENTENCE,
        )
        for parameter in _TENSORS
    ),
)
