"""A breach of each rule of conv_tbc, in FLOAT16, which all profiles have."""

from collections.abc import Mapping
from dataclasses import replace

from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import Breach, Row
from opserve_kernels.operators.conv_tbc.cases.calls import TbcLayerCall
from opserve_kernels.tensor import DataType, Format

_CALL = TbcLayerCall(image=(7, 2, 3), weight=(3, 3, 4), pad=1).in_dtype(DataType.FLOAT16)
_BASE = _CALL.case()
_ON_910, _ON_310P = (_CALL.case(Setting(profile=name)) for name in ("ascend910", "ascend310p"))
_FLOAT_CALL = replace(_CALL.in_dtype(DataType.FLOAT), cube_math_type=1)
_IN_FLOAT = _FLOAT_CALL.case(Setting(profile="ascend910"))
_IMAGES = ("self", "weight", "out")
_ON_OLDER = "on ascend910 and ascend310p"
_ON_PRODUCTS = "on ascend910b and ascend910 and ascend310p"
_DTYPE = "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"


def breaches() -> Mapping[Row, Breach]:
    """Breaches by parameter and words of the rule."""
    return {**_tensors(), **_values()}


def _breach(changes: Mapping[str, object], case: Case = _BASE) -> Breach:
    return Breach(case=case, changes=changes)


def _tensors() -> dict[Row, Breach]:
    names = (*_IMAGES, "bias", "pad", "cube_math_type")
    found = {(name, "missing"): _breach({name: None}) for name in names}
    for name in (*_IMAGES, "bias"):
        found[name, _DTYPE] = _breach({f"{name}.dtype": DataType.INT8})
    for name in _IMAGES:
        narrow = _breach({f"{name}.dtype": DataType.BF16}, _ON_910)
        found[name, f"dtype is BF16 {_ON_OLDER}"] = narrow
        found[name, "not 3 dimensions"] = _breach({f"{name}.shape": (7, 2, 3, 1)})
        found[name, "format is not ND or NCL"] = _breach({f"{name}.format": Format.NCHW})
    for name, other in (("weight", "self"), ("out", "weight")):
        wide = _breach({f"{name}.dtype": DataType.FLOAT})
        found[name, f"dtype is not that of {other} {_ON_PRODUCTS}"] = wide
    return found | {
        ("bias", "dtype is BF16 on ascend310p"): _breach({"bias.dtype": DataType.BF16}, _ON_310P),
        ("bias", "not 1 dimension"): _breach({"bias.shape": (1, 4)}),
    }


def _values() -> dict[Row, Breach]:
    once = TbcLayerCall(image=(2, 2, 3), weight=(4, 3, 4), pad=1).in_dtype(DataType.FLOAT16)
    far = {"self.shape": (0, 2, 3), "weight.shape": (4, 3, 4)}
    return {
        ("bias", "size is not weight's dimension 2"): _breach({"bias.shape": (3,)}),
        ("weight", "no taps"): _breach({"weight.shape": (0, 3, 4)}),
        ("pad", "negative, no tensor is empty"): _breach({"pad": -1}),
        ("weight", f"more taps than times and one pad {_ON_PRODUCTS}"): Breach(case=once.case()),
        ("weight", "more taps than the padded input has times"): _breach(far),
        ("weight", "dimension 1 is not the channels of self"): _breach({"weight.shape": (3, 2, 4)}),
        ("out", "shape is not that of the convolution"): _breach({"out.shape": (2, 7, 4)}),
        ("cube_math_type", "not 0, 1, 2, 3 or 4"): _breach({"cube_math_type": 5}),
        ("cube_math_type", f"0, 3 or 4 with FLOAT {_ON_OLDER}"): _breach(
            {"cube_math_type": 3}, _IN_FLOAT
        ),
    }
