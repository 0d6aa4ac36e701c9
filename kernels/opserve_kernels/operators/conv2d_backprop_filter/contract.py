"""The contract of conv2d_backprop_filter as data: revision, support, limits, error table."""

from collections.abc import Mapping

from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
from opserve_kernels.status import TbeStatus
from opserve_kernels.tensor import DataType

REVISION = 3
DOCUMENTED_RULES = DocumentedRules.ERROR

_FLOAT, _FLOAT16, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_REFERENCE = "reference"
PAGE_DTYPES = (_FLOAT16,)
PAGE_PROFILES = ("ascend910", "ascend310")
_A2 = ("ascend910b",)
SUPPORT: Mapping[str, Support] = {
    "ascend910b": Support(
        dtypes=(_FLOAT16, _BF16), source_only=(_FLOAT16, _BF16), notes="results FLOAT"
    ),
    **dict.fromkeys(PAGE_PROFILES, Support(dtypes=PAGE_DTYPES, notes="results FLOAT")),
    _REFERENCE: Support(
        dtypes=(_FLOAT, _FLOAT16, _BF16, DataType.DOUBLE),
        notes="results FLOAT, FLOAT16, BF16, DOUBLE; no upper limits",
    ),
}
DEFAULT_RESULT = "float32"
"""Dtype of the result of a call without res_dtype."""
RESULTS: Mapping[str, tuple[str, ...]] = {
    "ascend910b": ("float32",),
    "ascend910": ("float32",),
    "ascend310": ("float32",),
    _REFERENCE: ("float32", "float16", "bfloat16", "float64"),
}
"""Values of res_dtype, by profile."""

_MOST_HEIGHT, _MOST_WIDTH, _MOST_WIDTH_OF_A_ROW = 200000, 4096, 2**31 - 1
_DEVICES = tuple(profile for profile in SUPPORT if profile != _REFERENCE)
_LONG_ROW = "width, in one row or where the vendor computes by DMA"
_DILATED = "height and width, unless dilations are ones"


def _limit(parameter: str, where: str, most: int, *, least: int = 1) -> Limit:
    return Limit(parameter=parameter, where=where, least=least, most=most, profiles=_DEVICES)


KERNEL = _limit("filter_sizes", _DILATED, 255)
STRIDE = _limit("para_dict.strides", _DILATED, 63)
DILATION = _limit("para_dict.dilations", "height and width", 255)
PADDING = _limit("para_dict.padding", "all four sides", 255, least=0)
OUTPUT_HEIGHT = _limit("out_backprop", "height", _MOST_HEIGHT)
OUTPUT_WIDTH = _limit("out_backprop", "width", _MOST_WIDTH)
OUTPUT_LONG_ROW = _limit("out_backprop", _LONG_ROW, _MOST_WIDTH_OF_A_ROW)
IMAGE_HEIGHT = _limit("input_x", "height", _MOST_HEIGHT)
IMAGE_WIDTH = _limit("input_x", "width", _MOST_WIDTH)
IMAGE_LONG_ROW = _limit("input_x", _LONG_ROW, _MOST_WIDTH_OF_A_ROW)
LIMITS = (
    *(KERNEL, STRIDE, DILATION, PADDING),
    *(OUTPUT_HEIGHT, OUTPUT_WIDTH, OUTPUT_LONG_ROW),
    *(IMAGE_HEIGHT, IMAGE_WIDTH, IMAGE_LONG_ROW),
)

_REQUIRED = ("input_x", "out_backprop", "filter_sizes", "res_tensor")
_POSITIVE = (
    ("filter_sizes", "four"),
    ("para_dict.strides", "two"),
    ("para_dict.dilations", "four"),
)
_IMAGES = ("out_backprop", "input_x")


_E = TbeStatus


_BOTH, _SOURCE, _OPSERVE = RuleOrigin.BOTH, RuleOrigin.SOURCE, RuleOrigin.OPSERVE
_DTYPES = {
    "out_backprop": "Currently, the float16 type is supported.",
    "input_x": "input_x: a 5HD tensor of type float16, for the feature map.",
}
_PRODUCTS = "Applicability: Atlas 200/300/500 Inference Product, Atlas Training Series Product"
_SENTENCES = {
    "out_backprop": "The shape of the out_backprop tensor is 5HD, that is, (N, C1, H, W, C0).",
    "input_x": "The shape of the data tensor is 5HD, that is, (N, C1, H, W, C0).",
}


def _rule(
    status: TbeStatus, parameter: str, broken: str, origin: RuleOrigin, sentence: str = ""
) -> Rule:
    return Rule(status=status, parameter=parameter, broken=broken, origin=origin, sentence=sentence)


def _beyond(parameter: str, broken: str = "outside the limit") -> Rule:
    """A rule of a limit; least values are rules of their own, which hold on every profile."""
    return Rule(
        status=_E.E64001,
        parameter=parameter,
        broken=broken,
        origin=_SOURCE,
        profiles=_DEVICES,
    )


RULES: tuple[Rule, ...] = (
    *(_rule(_E.E60038, name, "missing", _BOTH) for name in _REQUIRED),
    _rule(_E.E60038, "out_backprop", "dtype is not that of input_x", _SOURCE),
    _rule(_E.E60005, "input_x", "dtype is none that the profile supports", _BOTH),
    _rule(_E.E60005, "para_dict.res_dtype", "none that the profile supports", _SOURCE),
    *(
        rule
        for name, count in _POSITIVE
        for rule in (
            _rule(_E.E64003, name, f"not {count} values", _BOTH),
            _rule(_E.E64004, name, "a value below 1", _SOURCE),
        )
    ),
    _rule(_E.E64003, "para_dict.padding", "not four values", _BOTH),
    *(_rule(_E.E64003, name, "not five dimensions", _BOTH) for name in _IMAGES),
    *(_rule(_E.E64002, name, "C0 is not 16", _BOTH) for name in _IMAGES),
    _rule(_E.E64002, "para_dict.groups", "below 1", _SOURCE),
    _rule(_E.E64002, "out_backprop", "C1 is not that of Cout", _SOURCE),
    _rule(_E.E64002, "input_x", "C1 is not that of groups times Cin/groups", _SOURCE),
    _rule(_E.E64002, "out_backprop", "N is not that of input_x", _SOURCE),
    _beyond("filter_sizes", "height or width is outside the limit"),
    _beyond("para_dict.strides"),
    _rule(_E.E60023, "para_dict.dilations", "not 1 in N or C", _SOURCE),
    _beyond("para_dict.dilations", "height or width is outside the limit"),
    _rule(_E.E60108, "para_dict.groups", "does not divide Cout", _SOURCE),
    _rule(_E.E60024, "out_backprop", "height is not that of the convolution", _BOTH),
    _rule(_E.E60025, "out_backprop", "width is not that of the convolution", _BOTH),
    *(
        _rule(_E.E60020, name, "more than 2^63-1 bytes", _SOURCE)
        for name in (*_IMAGES, "filter_sizes")
    ),
    *(_rule(_E.E64004, name, "a size below 1", _SOURCE) for name in _IMAGES),
    _rule(_E.E64004, "para_dict.padding", "a negative value", _SOURCE),
    *(
        _beyond(name, f"{size} is outside the limit")
        for name in _IMAGES
        for size in ("height", "width")
    ),
    _beyond("para_dict.padding"),
    *(
        _rule(
            _E.E64003,
            name,
            "format is neither NC1HWC0 nor ND",
            RuleOrigin.PAGE,
            _SENTENCES[name],
        )
        for name in _IMAGES
    ),
    Rule(
        status=_E.E60005,
        parameter="profile",
        broken="ascend910b, a product that the page does not list",
        origin=RuleOrigin.CONTRADICTED,
        sentence=_PRODUCTS,
        profiles=_A2,
    ),
    *(
        Rule(
            status=_E.E60005,
            parameter=name,
            broken="dtype is BF16 on ascend910b",
            origin=RuleOrigin.CONTRADICTED,
            sentence=_DTYPES[name],
            profiles=_A2,
        )
        for name in _IMAGES
    ),
    _rule(_E.E60005, "res_tensor", "dtype is not res_dtype", _OPSERVE),
    _rule(_E.E64003, "res_tensor", "format is neither FRACTAL_Z nor ND", _OPSERVE),
    _rule(_E.E64002, "res_tensor", "shape is not that of filter_sizes and groups", _OPSERVE),
)
