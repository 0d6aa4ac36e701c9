"""A breach of each rule of conv2d_backprop_filter."""

from collections.abc import Mapping

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.refusals.changes import Breach, thin
from opserve_kernels.operators.conv2d_backprop_filter.cases.calls import FilterCall
from opserve_kernels.tensor import DataType, Format

_BASE = FilterCall(BlockCall(image=(2, 16, 5, 6), weight=(32, 4, 3, 3), groups=4)).case()
_DILATED = FilterCall(
    BlockCall(image=(1, 16, 1, 600), weight=(16, 16, 1, 2), dilations=(1, 2))
).case()
_TENSORS = ("input_x", "out_backprop", "res_tensor")
_IMAGES = ("out_backprop", "input_x")
_LENGTHS = {"filter_sizes": "four", "para_dict.strides": "two", "para_dict.dilations": "four"}
_ZEROS: Mapping[str, tuple[int, ...]] = {
    "filter_sizes": (32, 4, 0, 3),
    "para_dict.strides": (0, 1),
    "para_dict.dilations": (1, 1, 0, 1),
}
_HUGE = 2**59
_MOST_BYTES = "more than 2^63-1 bytes"


def breaches() -> Mapping[tuple[str, str], Breach]:
    """Breaches by parameter and words of the rule."""
    changes = {**_given(), **_sizes(), **_results()}
    found = {row: Breach(case=_BASE, changes=change) for row, change in changes.items()}
    return found | _dilated() | _vast()


def _given() -> dict[tuple[str, str], dict[str, object]]:
    float_dtype: dict[str, object] = {f"{name}.dtype": DataType.FLOAT for name in _IMAGES}
    return {
        **{(name, "missing"): {name: None} for name in (*_TENSORS, "filter_sizes")},
        ("out_backprop", "dtype is not that of input_x"): {"out_backprop.dtype": DataType.BF16},
        ("input_x", "dtype is none that the profile supports"): float_dtype,
        ("para_dict.res_dtype", "none that the profile supports"): {
            "para_dict.res_dtype": "float16"
        },
        **{(name, f"not {count} values"): {name: (1, 1, 1)} for name, count in _LENGTHS.items()},
        **{(name, "a value below 1"): {name: zeros} for name, zeros in _ZEROS.items()},
        ("para_dict.padding", "not four values"): {"para_dict.padding": (0, 0)},
        ("para_dict.padding", "a negative value"): {"para_dict.padding": (-1, 1, 0, 0)},
        ("para_dict.groups", "below 1"): {"para_dict.groups": 0},
        ("para_dict.groups", "does not divide Cout"): {"para_dict.groups": 3},
        ("para_dict.dilations", "not 1 in N or C"): {"para_dict.dilations": (1, 2, 1, 1)},
    }


def _sizes() -> dict[tuple[str, str], dict[str, object]]:
    words = "format is neither NC1HWC0 nor ND"
    return {
        **{(name, "not five dimensions"): {f"{name}.shape": (2, 16, 5, 6)} for name in _IMAGES},
        **{(name, words): {f"{name}.format": Format.NCHW} for name in _IMAGES},
        ("out_backprop", "C0 is not 16"): {"out_backprop.shape": (2, 2, 3, 4, 32)},
        ("input_x", "C0 is not 16"): {"input_x.shape": (2, 1, 5, 6, 32)},
        ("out_backprop", "C1 is not that of Cout"): {"out_backprop.shape": (2, 3, 3, 4, 16)},
        ("input_x", "C1 is not that of groups times Cin/groups"): {"para_dict.groups": 8},
        ("out_backprop", "N is not that of input_x"): {"out_backprop.shape": (3, 2, 3, 4, 16)},
        ("out_backprop", "height is not that of the convolution"): {
            "out_backprop.shape": (2, 2, 4, 4, 16)
        },
        ("out_backprop", "width is not that of the convolution"): {
            "out_backprop.shape": (2, 2, 3, 5, 16)
        },
    }


def _results() -> dict[tuple[str, str], dict[str, object]]:
    return {
        ("res_tensor", "dtype is not res_dtype"): {"res_tensor.dtype": DataType.FLOAT16},
        ("res_tensor", "format is neither FRACTAL_Z nor ND"): {"res_tensor.format": Format.NC1HWC0},
        ("res_tensor", "shape is not that of filter_sizes and groups"): {
            "res_tensor.shape": (18, 2, 16, 16)
        },
    }


def _dilated() -> dict[tuple[str, str], Breach]:
    changes: dict[tuple[str, str], dict[str, object]] = {
        ("filter_sizes", "height or width is outside the limit"): {
            "filter_sizes": (16, 16, 1, 256),
            "out_backprop.shape": (1, 1, 1, 90, 16),
        },
        ("para_dict.strides", "outside the limit"): {
            "para_dict.strides": (1, 64),
            "out_backprop.shape": (1, 1, 1, 10, 16),
        },
        ("para_dict.dilations", "height or width is outside the limit"): {
            "para_dict.dilations": (1, 1, 256, 2)
        },
    }
    return {row: Breach(case=_DILATED, changes=change) for row, change in changes.items()}


def _vast() -> dict[tuple[str, str], Breach]:
    """Calls with tensors too large for any device, or without elements."""
    one = (16, 16, 1, 1)
    calls = {
        ("out_backprop", _MOST_BYTES): BlockCall(image=(_HUGE, 16, 1, 1), weight=one),
        ("input_x", _MOST_BYTES): BlockCall(
            image=(_HUGE // 4, 16, 4, 4), weight=one, strides=(4, 4)
        ),
        ("filter_sizes", _MOST_BYTES): BlockCall(
            image=(1, 2**31, 1, 1), weight=(2**31, 2**31, 1, 1)
        ),
        ("out_backprop", "a size below 1"): BlockCall(image=(0, 16, 5, 6), weight=(16, 16, 3, 3)),
        ("input_x", "a size below 1"): BlockCall(
            image=(1, 16, 0, 6), weight=(16, 16, 1, 3), padding=(1, 1, 0, 0)
        ),
        ("out_backprop", "height is outside the limit"): BlockCall(
            image=(1, 16, 200001, 1), weight=one
        ),
        ("out_backprop", "width is outside the limit"): BlockCall(
            image=(1, 16, 2, 4097), weight=one
        ),
        ("input_x", "height is outside the limit"): BlockCall(
            image=(1, 16, 200001, 1), weight=(16, 16, 2, 1)
        ),
        ("input_x", "width is outside the limit"): BlockCall(
            image=(1, 16, 2, 4097), weight=(16, 16, 1, 2)
        ),
        ("para_dict.padding", "outside the limit"): BlockCall(
            image=(1, 16, 5, 6), weight=(16, 16, 3, 3), padding=(0, 256, 0, 0)
        ),
    }
    return {row: Breach(case=thin(FilterCall(call).case())) for row, call in calls.items()}
