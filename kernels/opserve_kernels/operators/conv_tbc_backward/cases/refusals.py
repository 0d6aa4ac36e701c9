"""A breach of each rule of conv_tbc_backward, in FLOAT16, which all profiles have."""

from collections.abc import Mapping
from dataclasses import replace

from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.refusals.changes import Breach, Row
from opserve_kernels.operators.conv_tbc_backward.cases.calls import TbcCall
from opserve_kernels.operators.conv_tbc_backward.contract import GRADIENT_OF, IMAGES, TENSORS
from opserve_kernels.tensor import DataType, Format

_CALL = TbcCall(image=(7, 2, 3), weight=(3, 3, 5), pad=1).in_dtype(DataType.FLOAT16)
_BASE = _CALL.case()
_OLDER = Setting(profile="ascend910")
_VECTORS = ("bias", "grad_bias")
_DTYPE = "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"


def breaches() -> Mapping[Row, Breach]:
    """Breaches by parameter and words of the rule that are errors."""
    changes = {**_tensors(), **_shapes()}
    found = {row: Breach(case=_BASE, changes=change) for row, change in changes.items()}
    return found | _on_older() | _on_products()


def _tensors() -> dict[Row, dict[str, object]]:
    return {
        **{(name, "missing"): {name: None} for name in (*TENSORS, "pad", "cube_math_type")},
        **{(name, _DTYPE): {f"{name}.dtype": DataType.INT8} for name in TENSORS},
        **{(name, "format is not ND or NCL"): {f"{name}.format": Format.NCHW} for name in IMAGES},
        **{(name, "format is not ND"): {f"{name}.format": Format.NCL} for name in _VECTORS},
        **{(name, "not 3 dimensions"): {f"{name}.shape": (7, 15)} for name in IMAGES},
        **{(name, "not 1 dimension"): {f"{name}.shape": (1, 5)} for name in _VECTORS},
    }


def _shapes() -> dict[Row, dict[str, object]]:
    return {
        ("self", "empty"): {"self.shape": (7, 0, 5)},
        ("weight", "dimension 1 is not the channels of input"): _both("weight", (3, 4, 5)),
        ("bias", "size is not weight's dimension 2"): _both("bias", (4,)),
        ("pad", "negative"): {"pad": -1},
        ("weight", "more taps than the padded input has positions, and one more"): _both(
            "weight", (11, 3, 5)
        ),
        ("self", "shape is not that of the convolution's output"): {"self.shape": (6, 2, 5)},
        ("grad_input", "shape is not that of input"): {"grad_input.shape": (7, 3, 2)},
        ("grad_weight", "shape is not that of weight"): {"grad_weight.shape": (3, 5, 3)},
        ("grad_bias", "shape is not that of bias"): {"grad_bias.shape": (4,)},
        ("cube_math_type", "not 0, 1, 2 or 3"): {"cube_math_type": 4},
    }


def _on_older() -> dict[Row, Breach]:
    older = _CALL.case(_OLDER)
    as_float = replace(_CALL.in_dtype(DataType.FLOAT), cube_math_type=1).case(_OLDER)
    found = {
        (name, "dtype is BF16 on ascend910"): Breach(
            case=older, changes={f"{name}.dtype": DataType.BF16}
        )
        for name in TENSORS
    }
    return found | {
        ("cube_math_type", "0 or 3 with FLOAT on ascend910"): Breach(
            case=as_float, changes={"cube_math_type": 3}
        )
    }


def _on_products() -> dict[Row, Breach]:
    return {
        (gradient, f"dtype is not that of {tensor} on ascend910b and ascend910"): Breach(
            case=_BASE, changes={f"{gradient}.dtype": DataType.FLOAT}
        )
        for gradient, tensor in GRADIENT_OF.items()
    }


def _both(name: str, shape: tuple[int, ...]) -> dict[str, object]:
    """A tensor and its gradient in another shape."""
    return {f"{name}.shape": shape, f"grad_{name}.shape": shape}
