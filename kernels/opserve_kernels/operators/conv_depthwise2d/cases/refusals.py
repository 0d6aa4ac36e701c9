"""A breach of each rule of conv_depthwise2d, in FLOAT16, which all profiles have."""

from collections.abc import Mapping
from dataclasses import replace

from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import Breach, Row
from opserve_kernels.operators.conv_depthwise2d.cases.calls import DepthwiseCall
from opserve_kernels.tensor import DataType, Format

_CALL = DepthwiseCall(image=(2, 3, 6, 7), kernel=(3, 2), multiplier=2, dtype=DataType.FLOAT16)
_BASE = _CALL.case()
_ON_910, _ON_310P = (_CALL.case(Setting(profile=name)) for name in ("ascend910", "ascend310p"))
_FLOAT_CALL = replace(_CALL.in_dtype(DataType.FLOAT), cube_math_type=1)
_IN_FLOAT = _FLOAT_CALL.case(Setting(profile="ascend910"))
_TENSORS = ("self", "weight", "out")
_STEPS = ("stride", "padding", "dilation")
_ON_OLDER = "on ascend910 and ascend310p"
_ON_PRODUCTS = "on ascend910b and ascend910 and ascend310p and ascend310b"
_DTYPE = "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"


def breaches() -> Mapping[Row, Breach]:
    """Breaches by parameter and words of the rule."""
    return {**_tensors(), **_values()}


def _breach(changes: Mapping[str, object], case: Case = _BASE) -> Breach:
    return Breach(case=case, changes=changes)


def _tensors() -> dict[Row, Breach]:
    names = (*_TENSORS, *_STEPS, "kernel_size", "cube_math_type")
    found = {(name, "missing"): _breach({name: None}) for name in names}
    # The bias is checked first, and must have self's dtype.
    without = {"bias": None}
    found["bias", _DTYPE] = _breach({"bias.dtype": DataType.INT8})
    for name in _TENSORS:
        found[name, _DTYPE] = _breach({f"{name}.dtype": DataType.INT8, **without})
        narrow = _breach({f"{name}.dtype": DataType.BF16, **without}, _ON_910)
        found[name, f"dtype is BF16 {_ON_OLDER}"] = narrow
        found[name, "not 4 dimensions"] = _breach({f"{name}.shape": (2, 6, 7)})
        found[name, "format is not NCHW"] = _breach({f"{name}.format": Format.ND})
    for name, other in (("bias", "self"), ("weight", "self"), ("out", "weight")):
        wide = _breach({f"{name}.dtype": DataType.FLOAT})
        found[name, f"dtype is not that of {other} {_ON_PRODUCTS}"] = wide
    for name in _STEPS:
        found[name, "not two values"] = _breach({name: (1, 1, 1, 1)})
    return found | {
        ("bias", "dtype is BF16 on ascend310p"): _breach({"bias.dtype": DataType.BF16}, _ON_310P),
        ("bias", "not 1 dimension"): _breach({"bias.shape": (1, 6)}),
    }


def _values() -> dict[Row, Breach]:
    return {
        ("weight", "a spatial size is 0"): _breach({"weight.shape": (6, 1, 0, 2)}),
        ("stride", "a value below 1"): _breach({"stride": (1, 0)}),
        ("dilation", "a value below 1"): _breach({"dilation": (0, 1)}),
        ("padding", "a negative value, no tensor is empty"): _breach({"padding": (0, -1)}),
        ("self", "smaller than the dilated kernel"): _breach({"dilation": (3, 1)}),
        ("weight", "dimension 1 is above 1"): _breach({"weight.shape": (6, 3, 3, 2)}),
        ("weight", "dimension 0 is not a multiple of the channels of self"): _breach(
            {"weight.shape": (5, 1, 3, 2)}
        ),
        ("bias", "size is not weight's dimension 0"): _breach({"bias.shape": (3,)}),
        ("out", "shape is not that of the convolution"): _breach({"out.shape": (2, 6, 6, 4)}),
        ("out", "not empty, though self or weight is"): _breach({"weight.shape": (6, 0, 3, 2)}),
        ("cube_math_type", "not 0, 1, 2, 3 or 4"): _breach({"cube_math_type": 5}),
        ("cube_math_type", f"0, 3 or 4 with FLOAT {_ON_OLDER}"): _breach(
            {"cube_math_type": 3}, _IN_FLOAT
        ),
        ("kernel_size", "not weight's dimensions 2 and 3"): _breach({"kernel_size": (2, 3)}),
    }
