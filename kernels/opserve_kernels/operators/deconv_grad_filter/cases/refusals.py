"""A breach of each rule of deconv_grad_filter."""

from collections.abc import Mapping
from dataclasses import replace

from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import Breach
from opserve_kernels.operators.deconv_grad_filter.cases.calls import DeconvolutionCall
from opserve_kernels.operators.deconv_grad_filter.contract import LIMITS, MOST
from opserve_kernels.operators.deconv_grad_filter.schema import DY_SIZES, X_SIZES
from opserve_kernels.tensor import DataType, Format

_CALL = DeconvolutionCall(x=(2, 3, 4, 4), dy=(2, 5, 5, 6), kernel=(3, 2), group=2)
_FT, _MT = Setting(profile="ft78ne"), Setting(profile="mt7004")
_BASE = _CALL.case(_FT)
_TENSORS = ("dy_data", "x_data", "dw_data")
_ROWS = f"more than {MOST} rows of dw_data"
_PARAM = (2, 3, 4, 4, 2, 5, 5, 6, 3, 2, 1, 1, 0, 0, 1, 1, 2, 0)  # the numbers of _CALL
_FP_S, _FP_P = "fp_deconv_grad_filter_s", "fp_deconv_grad_filter_p"


def breaches() -> Mapping[tuple[str, str], Breach]:
    """Breaches by parameter and words of the rule."""
    changes = {**_given(), **_tensors(), **_numbers()}
    found = {row: Breach(case=_BASE, changes=change) for row, change in changes.items()}
    half = replace(_CALL, dtype=DataType.FLOAT16).case(_FT)
    on_mt = Breach(case=_CALL.case(_MT), changes={"function": "hp_deconv_grad_filter_p"})
    with_param = replace(_BASE, arguments={"param": _PARAM})
    return found | {
        ("dy_data", "dtype is not one of the profile's"): Breach(case=half),
        ("function", "its dtype is not dy_data's"): on_mt,
        ("param", "given beside a field that it holds"): _breach(with_param, {"stride_h": 1}),
        ("param", "not 18 to 20 entries"): _breach(with_param, {"param": _PARAM[:17]}),
    }


def _breach(case: Case, changes: Mapping[str, object]) -> Breach:
    return Breach(case=case, changes=changes)


def _given() -> dict[tuple[str, str], dict[str, object]]:
    numbers: dict[str, object] = {}
    numbers.update(dict.fromkeys(_BASE.arguments))
    return {
        **{(name, "missing"): {name: None} for name in _TENSORS},
        ("param", "missing, and no field in its place"): numbers,
        **{
            (name, "missing, and no param in its place"): {name: None}
            for name in ("kernel_h", "kernel_w")
        },
        ("core_mask", "missing in a call of an _s function"): {"function": _FP_S},
        ("function", "not a function of the library"): {"function": "dp_deconv_grad_filter_p"},
        ("function", "hp on a profile that has only fp"): {"function": "hp_deconv_grad_filter_p"},
        ("core_mask", "given to a _p function"): {"function": _FP_P, "core_mask": 1},
        ("core_mask", "names no core"): {"core_mask": 0},
        ("core_mask", "names a core that the profile does not have"): {"core_mask": 0x101},
        ("row_order", "neither oc_kh_kw nor kh_kw_oc"): {"row_order": "kh_oc_kw"},
    }


def _tensors() -> dict[tuple[str, str], dict[str, object]]:
    words = "format is neither NHWC nor ND"
    return {
        **{
            (name, "dtype is not dy_data's"): {f"{name}.dtype": DataType.FLOAT16}
            for name in ("x_data", "dw_data")
        },
        **{(name, words): {f"{name}.format": Format.NCHW} for name in _TENSORS},
        ("dy_data", "not 4 dimensions"): {"dy_data.shape": (2, 25, 6)},
        ("x_data", "not 4 dimensions"): {"x_data.shape": (2, 1, 3, 4, 4)},
        ("dy_data", "a size of 0"): {"dy_data.shape": (2, 0, 5, 6)},
        ("x_data", "a size of 0"): {"x_data.shape": (2, 3, 4, 0)},
        ("dw_data", "shape is not [group, out_c/group*kernel_h*kernel_w, in_c/group]"): {
            "dw_data.shape": (18, 4)
        },
    }


def _numbers() -> dict[tuple[str, str], dict[str, object]]:
    outside = {
        (limit.parameter, f"outside {limit.least} to {limit.most}"): limit.least - 1
        for limit in LIMITS
    }
    wide: dict[str, object] = {"dy_data.shape": (2, 5, 5, 2**32), "dy_data.strides": (0,) * 4}
    return {
        **{row: {row[0]: value} for row, value in outside.items()},
        **{(name, "not that size of x_data"): {name: 7} for name in X_SIZES},
        **{(name, "not that size of dy_data"): {name: 7} for name in DY_SIZES},
        ("batch", "not input_batch"): {"dy_data.shape": (3, 5, 5, 6)},
        ("group", "does not divide in_c"): {"group": 3},
        ("group", "does not divide out_c"): {"group": 4},
        ("out_c", _ROWS): wide,
        **{(name, _ROWS): {name: MOST} for name in ("kernel_h", "kernel_w")},
    }
