"""A breach of each rule of conv2d_backprop_input."""

from collections.abc import Mapping

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.refusals.changes import Breach, changed, thin
from opserve_kernels.formats import group_dict
from opserve_kernels.operators.conv2d_backprop_input.cases.calls import InputCall
from opserve_kernels.tensor import DataType, Format

_WEIGHT = (32, 4, 3, 3)
_BASE = InputCall(BlockCall(image=(2, 16, 5, 6), weight=_WEIGHT, groups=4)).case()
_MEMBERS = ("strides", "padding", "dilations")
_TENSORS = ("filters", "out_backprop", "res_tensor")
_GROUP_DICT = "para_dict.group_dict"
_LENGTHS = {
    "filter_sizes": "four",
    "para_dict.strides": "two",
    "para_dict.dilations": "four",
    "input_sizes": "four",
    "para_dict.padding": "four",
}
_HUGE = 2**59
_MOST_BYTES = "more than 2^63-1 bytes"


def breaches() -> Mapping[tuple[str, str], Breach]:
    """Breaches by parameter and words of the rule."""
    changes = {**_given(), **_sizes(), **_blocks(), **_results()}
    return {row: Breach(case=_BASE, changes=change) for row, change in changes.items()} | _limits()


def _given() -> dict[tuple[str, str], dict[str, object]]:
    required = (
        *_TENSORS,
        *("filter_sizes", "input_sizes", "para_dict"),
        *(f"para_dict.{name}" for name in _MEMBERS),
    )
    unsupported = "dtype is none that the profile supports"
    return {
        **{(name, "missing"): {name: None} for name in required},
        **{(name, unsupported): {f"{name}.dtype": DataType.INT8} for name in _TENSORS[:2]},
        ("para_dict.res_dtype", "none that the profile supports"): {"para_dict.res_dtype": "int32"},
        ("out_backprop", "dtype is not that of filters"): {"out_backprop.dtype": DataType.BF16},
        ("para_dict.offset_w", "given"): {"para_dict.offset_w": 0},
        ("para_dict.offset_x", "not 0"): {"para_dict.offset_x": 1},
    }


def _sizes() -> dict[tuple[str, str], dict[str, object]]:
    return {
        ("filters", "not four dimensions"): {"filters.shape": (9, 2, 256)},
        ("out_backprop", "not five dimensions"): {"out_backprop.shape": (2, 32, 3, 4)},
        **{(name, f"not {count} values"): {name: (1, 1, 1)} for name, count in _LENGTHS.items()},
        ("out_backprop", "C0 is not 16"): {"out_backprop.shape": (2, 4, 3, 4, 8)},
        ("out_backprop", "height times its stride is outside the limit"): {
            "para_dict.strides": (0, 1)
        },
        ("out_backprop", "width times its stride is outside the limit"): {
            "para_dict.strides": (1, 1025)
        },
        ("out_backprop", "N is not that of input_sizes"): {"input_sizes": (3, 16, 5, 6)},
        ("out_backprop", "height is not that of the convolution"): {"input_sizes": (2, 16, 6, 6)},
        ("out_backprop", "width is not that of the convolution"): {
            "para_dict.padding": (0, 0, 1, 0)
        },
        ("filter_sizes", "Cout or Cin/groups is below 1"): {"filter_sizes": (32, 0, 3, 3)},
        ("filter_sizes", "KH or KW is below 1"): {
            "filter_sizes": (32, 4, 0, 3),
            "input_sizes": (2, 16, 2, 6),
        },
        ("para_dict.padding", "a negative value"): {"para_dict.padding": (-1, 1, 0, 0)},
        ("para_dict.dilations", "not 1 in N or C"): {"para_dict.dilations": (1, 2, 1, 1)},
        ("input_sizes", "N is below 1"): {
            "input_sizes": (0, 16, 5, 6),
            "out_backprop.shape": (0, 2, 3, 4, 16),
        },
    }


def _blocks() -> dict[tuple[str, str], dict[str, object]]:
    keys = [key for key in group_dict(_WEIGHT, 4) if key not in {"groups", "filter_ori_format"}]
    words = "missing, or not what the formulas give"
    return {
        (f"{_GROUP_DICT}.groups", "missing"): {f"{_GROUP_DICT}.groups": None},
        (f"{_GROUP_DICT}.groups", "below 1, or does not divide Cout"): {f"{_GROUP_DICT}.groups": 3},
        **{(f"{_GROUP_DICT}.{key}", words): {f"{_GROUP_DICT}.{key}": 99} for key in keys},
        (f"{_GROUP_DICT}.filter_ori_format", words): {f"{_GROUP_DICT}.filter_ori_format": "NHWC"},
        ("filters", "Cout0 or Cin0 is not 16"): {"filters.shape": (9, 2, 16, 8)},
        ("filters", "dimension 1 is not dy_c1_extend"): {"filters.shape": (9, 1, 16, 16)},
        ("filters", "dimension 0 is not a multiple of the kernel's taps"): {
            "filters.shape": (10, 2, 16, 16)
        },
        ("filters", "dimension 0 is not what filter_sizes and groups give"): {
            "filters.shape": (18, 2, 16, 16)
        },
        ("filters", "format is neither FRACTAL_Z nor ND"): {"filters.format": Format.NCHW},
        ("out_backprop", "format is neither NC1HWC0 nor ND"): {"out_backprop.format": Format.NCHW},
        ("input_sizes", "Cin is not groups times Cin/groups of filter_sizes"): {
            "input_sizes": (2, 15, 5, 6)
        },
        ("out_backprop", "C1 is not that of Cout"): {"out_backprop.shape": (2, 3, 3, 4, 16)},
    }


def _results() -> dict[tuple[str, str], dict[str, object]]:
    return {
        ("res_tensor", "dtype is not res_dtype"): {"res_tensor.dtype": DataType.FLOAT},
        ("res_tensor", "format is neither NC1HWC0 nor ND"): {"res_tensor.format": Format.NCHW},
        ("res_tensor", "shape is not that of input_sizes"): {"res_tensor.shape": (2, 2, 5, 6, 16)},
    }


def _limits() -> dict[tuple[str, str], Breach]:
    """Calls with tensors too large for any device."""
    row = InputCall(BlockCall(image=(1, 16, 1, 9), weight=(16, 16, 1, 3))).case()
    calls = {
        ("input_sizes", "height is outside the limit"): BlockCall(
            image=(1, 16, 200001, 1), weight=(16, 16, 2, 1)
        ),
        ("input_sizes", "width is outside the limit"): BlockCall(
            image=(1, 16, 2, 4097), weight=(16, 16, 1, 2)
        ),
        ("filters", _MOST_BYTES): BlockCall(image=(1, 2**31, 1, 1), weight=(2**31, 2**31, 1, 1)),
        ("out_backprop", _MOST_BYTES): BlockCall(image=(_HUGE, 16, 1, 1), weight=(16, 16, 1, 1)),
    }
    found = {name: Breach(case=thin(InputCall(call).case())) for name, call in calls.items()}
    vast = BlockCall(image=(_HUGE // 16, 16, 4, 4), weight=(16, 16, 1, 1), strides=(4, 4))
    small = {"res_tensor.shape": (1, 1, 1, 1, 16)}
    found["input_sizes", _MOST_BYTES] = Breach(case=changed(thin(InputCall(vast).case()), small))
    found["para_dict.dilations", "height or width is outside the limit"] = Breach(
        case=row, changes={"para_dict.dilations": (1, 1, 256, 1)}
    )
    return found
