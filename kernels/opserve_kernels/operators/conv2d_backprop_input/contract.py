"""The contract of conv2d_backprop_input as data: revision, support, limits, error table."""

from collections.abc import Mapping

from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
from opserve_kernels.status import TbeStatus
from opserve_kernels.tensor import DataType

REVISION = 3
DOCUMENTED_RULES = DocumentedRules.ERROR

_FLOAT, _FLOAT16, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_REFERENCE = "reference"
PAGE_DTYPES = (_FLOAT16,)
_PAGE = Support(dtypes=PAGE_DTYPES, notes="results FLOAT16, FLOAT")
SUPPORT: Mapping[str, Support] = {
    "ascend910b": Support(
        dtypes=(_FLOAT16, _BF16), source_only=(_BF16,), notes="results FLOAT16, BF16, FLOAT"
    ),
    "ascend910": _PAGE,
    "ascend310p": _PAGE,
    "ascend310b": _PAGE,
    "ascend310": _PAGE,
    _REFERENCE: Support(
        dtypes=(_FLOAT, _FLOAT16, _BF16, DataType.DOUBLE),
        notes="results FLOAT, FLOAT16, BF16, DOUBLE; no upper limits",
    ),
}
DEFAULT_RESULT = "float16"
"""Dtype of the result of a call without res_dtype."""
RESULTS: Mapping[str, tuple[str, ...]] = {
    "ascend910b": ("float16", "float32", "bfloat16"),
    "ascend910": ("float16", "float32"),
    "ascend310p": ("float16", "float32"),
    "ascend310b": ("float16", "float32"),
    "ascend310": ("float16", "float32"),
    _REFERENCE: ("float16", "float32", "bfloat16", "float64"),
}
"""Values of res_dtype, by profile."""

_DEVICES = tuple(profile for profile in SUPPORT if profile != _REFERENCE)
_ON_GRID = "width times its stride, and times the height's stride for a kernel of 1 x 1"
_ONE_ROW = "where padded image, dilated kernel and out_backprop have one row"


def _limit(parameter: str, where: str, most: int) -> Limit:
    return Limit(parameter=parameter, where=where, least=1, most=most, profiles=_DEVICES)


_MOST_HEIGHT, _MOST_WIDTH, _MOST_WIDTH_OF_A_ROW = 200000, 4096, 2**31 - 1
HEIGHT_ON_GRID = _limit("out_backprop", "height times its stride", _MOST_HEIGHT)
WIDTH_ON_GRID = _limit("out_backprop", _ON_GRID, _MOST_WIDTH)
WIDTH_ON_GRID_OF_A_ROW = _limit("out_backprop", f"{_ON_GRID}, {_ONE_ROW}", _MOST_WIDTH_OF_A_ROW)
HEIGHT = _limit("input_sizes", "height", _MOST_HEIGHT)
WIDTH = _limit("input_sizes", "width", _MOST_WIDTH)
WIDTH_OF_A_ROW = _limit("input_sizes", f"width, {_ONE_ROW}", _MOST_WIDTH_OF_A_ROW)
DILATION = _limit("para_dict.dilations", "height and width", 255)
LIMITS = (
    *(HEIGHT_ON_GRID, WIDTH_ON_GRID, WIDTH_ON_GRID_OF_A_ROW),
    *(HEIGHT, WIDTH, WIDTH_OF_A_ROW, DILATION),
)

_REQUIRED = (
    *("filters", "out_backprop", "filter_sizes", "input_sizes", "para_dict"),
    *("para_dict.strides", "para_dict.padding", "para_dict.dilations", "res_tensor"),
)
_LENGTHS = (
    ("filter_sizes", "four"),
    ("para_dict.strides", "two"),
    ("para_dict.dilations", "four"),
    ("input_sizes", "four"),
    ("para_dict.padding", "four"),
)
_KEYS = (
    *("g_extend", "multiple_extend", "dx_c1_extend", "dy_c1_extend", "dx_c_ori", "dy_c_ori"),
    *("filter_batch_ori", "filter_c_ori", "filter_ori_format"),
)
_UNSUPPORTED = "dtype is none that the profile supports"
_GROUPS = "para_dict.group_dict.groups"


_BOTH, _SOURCE, _OPSERVE = RuleOrigin.BOTH, RuleOrigin.SOURCE, RuleOrigin.OPSERVE
_5HD = "out_backprop Tensor 的shape是 5HD,即(N, C1, H, W, C0);"
_DTYPES = {
    "filters": "filters:2d卷积的Weight,tensor,FracZ格式,目前支持float16类型",
    "out_backprop": "out_backprop:2d卷积的输出反向,目前支持float16类型",
}
_FRACTAL_Z = "Weight Tensor的shape是FracZ,即(C1*KH*KW,Cout//C0_out,C0_out,C0)。"


def _rule(
    status: TbeStatus, parameter: str, broken: str, origin: RuleOrigin, sentence: str = ""
) -> Rule:
    return Rule(status=status, parameter=parameter, broken=broken, origin=origin, sentence=sentence)


_E = TbeStatus
RULES: tuple[Rule, ...] = (
    *(_rule(_E.E60038, name, "missing", _BOTH) for name in _REQUIRED),
    _rule(_E.E60011, "filters", _UNSUPPORTED, _BOTH),
    _rule(_E.E60011, "out_backprop", _UNSUPPORTED, _BOTH),
    _rule(_E.E60011, "para_dict.res_dtype", "none that the profile supports", _BOTH),
    _rule(_E.E65002, "out_backprop", "dtype is not that of filters", _SOURCE),
    _rule(_E.E65003, "filters", "not four dimensions", _BOTH),
    _rule(_E.E65003, "out_backprop", "not five dimensions", _BOTH),
    *(_rule(_E.E60006, name, f"not {count} values", _BOTH) for name, count in _LENGTHS),
    _rule(_E.E65004, "para_dict.offset_w", "given", _BOTH),
    _rule(_E.E65007, "out_backprop", "C0 is not 16", _BOTH),
    _rule(_E.E60011, "out_backprop", "height times its stride is outside the limit", _SOURCE),
    _rule(_E.E60011, "out_backprop", "width times its stride is outside the limit", _SOURCE),
    _rule(_E.E60011, "input_sizes", "height is outside the limit", _SOURCE),
    _rule(_E.E60011, "input_sizes", "width is outside the limit", _SOURCE),
    _rule(_E.E65007, "out_backprop", "N is not that of input_sizes", _BOTH),
    _rule(_E.E65007, "out_backprop", "height is not that of the convolution", _BOTH),
    _rule(_E.E65007, "out_backprop", "width is not that of the convolution", _BOTH),
    _rule(_E.E60011, "filter_sizes", "Cout or Cin/groups is below 1", _OPSERVE),
    _rule(_E.E65007, _GROUPS, "missing", _OPSERVE),
    _rule(_E.E60108, _GROUPS, "below 1, or does not divide Cout", _OPSERVE),
    *(
        _rule(
            _E.E65007,
            f"para_dict.group_dict.{key}",
            "missing, or not what the formulas give",
            _OPSERVE,
        )
        for key in _KEYS
    ),
    _rule(_E.E60114, "para_dict.padding", "a negative value", _SOURCE),
    _rule(_E.E65007, "filters", "Cout0 or Cin0 is not 16", _BOTH),
    _rule(_E.E65007, "filters", "dimension 1 is not dy_c1_extend", _SOURCE),
    _rule(_E.E60114, "filter_sizes", "KH or KW is below 1", _SOURCE),
    _rule(_E.E60023, "para_dict.dilations", "not 1 in N or C", _SOURCE),
    _rule(_E.E60011, "para_dict.dilations", "height or width is outside the limit", _SOURCE),
    _rule(_E.E60020, "filters", "more than 2^63-1 bytes", _SOURCE),
    _rule(_E.E60020, "out_backprop", "more than 2^63-1 bytes", _SOURCE),
    _rule(_E.E60020, "input_sizes", "more than 2^63-1 bytes", _SOURCE),
    _rule(_E.E60108, "filters", "dimension 0 is not a multiple of the kernel's taps", _SOURCE),
    _rule(_E.E60011, "para_dict.offset_x", "not 0", _OPSERVE),
    _rule(_E.E65003, "filters", "format is neither FRACTAL_Z nor ND", RuleOrigin.PAGE, _FRACTAL_Z),
    _rule(_E.E65003, "out_backprop", "format is neither NC1HWC0 nor ND", RuleOrigin.PAGE, _5HD),
    *(
        Rule(
            status=_E.E60011,
            parameter=name,
            broken="dtype is BF16 on ascend910b",
            origin=RuleOrigin.CONTRADICTED,
            sentence=sentence,
            profiles=("ascend910b",),
        )
        for name, sentence in _DTYPES.items()
    ),
    _rule(_E.E60011, "input_sizes", "N is below 1", _OPSERVE),
    _rule(_E.E60002, "input_sizes", "Cin is not groups times Cin/groups of filter_sizes", _OPSERVE),
    _rule(_E.E60002, "out_backprop", "C1 is not that of Cout", _OPSERVE),
    _rule(_E.E65007, "filters", "dimension 0 is not what filter_sizes and groups give", _OPSERVE),
    _rule(_E.E65002, "res_tensor", "dtype is not res_dtype", _OPSERVE),
    _rule(_E.E65003, "res_tensor", "format is neither NC1HWC0 nor ND", _OPSERVE),
    _rule(_E.E65007, "res_tensor", "shape is not that of input_sizes", _OPSERVE),
)
