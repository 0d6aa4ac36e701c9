"""Calls of conv2d_backprop_input: those that must succeed, and one for each row of its errors."""

from dataclasses import replace
from typing import Any

from kernels.samples.para_dicts import refused
from kernels.samples.sample import ErrorSample, Sample, TensorSample, Values
from opserve_kernels.formats import fractal_z_shape, group_dict
from opserve_kernels.operators.conv2d_backprop_input.schema import (
    Conv2dBackpropInputParaDict,
    GroupDict,
)
from opserve_kernels.status import TbeStatus
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
_DTYPES = {"float16": FLOAT16, "float32": FLOAT, "bfloat16": BF16, "float64": DOUBLE}
Sizes = tuple[int, int, int, int]


def gradient(name: str, input_sizes: Sizes, filter_sizes: Sizes, **changes: Any) -> Sample:
    """A call with stride 1, no padding and one group, in FLOAT16, unless changed.

    Args:
        name: Of the sample.
        input_sizes: N, Cin, H, W.
        filter_sizes: Cout, Cin/groups, KH, KW.
        changes: Keys of para_dict; `groups`, `dtype` of the operands, `values`, `profile`, and the
            `layout` of any tensor.
    """
    dtype, values = changes.pop("dtype", FLOAT16), changes.pop("values", Values.NORMAL)
    layout: dict[str, Any] = changes.pop("layout", {})
    profile: str = changes.pop("profile", "ascend910b")
    groups: int | None = changes.pop("groups", None)
    if groups is not None:
        changes["group_dict"] = GroupDict(**group_dict(filter_sizes, groups))  # type: ignore[arg-type]
    steps: dict[str, Any] = {"strides": (1, 1), "padding": (0,) * 4, "dilations": (1,) * 4}
    scalars = steps | changes
    para_dict = Conv2dBackpropInputParaDict(**scalars)
    batch, channels, *sizes = input_sizes
    output = output_sizes(sizes, filter_sizes, scalars)
    weight = fractal_z_shape(filter_sizes, groups or 1)
    tensors: dict[str, TensorSample | None] = {
        "filters": TensorSample(shape=weight, dtype=dtype, format=Format.FRACTAL_Z, values=values),
        "out_backprop": TensorSample(
            shape=(batch, -(-filter_sizes[0] // 16), *output, 16),
            dtype=dtype,
            format=Format.NC1HWC0,
            values=values,
        ),
        "res_tensor": TensorSample(
            shape=(batch, -(-channels // 16), *sizes, 16),
            dtype=_DTYPES[scalars.get("res_dtype") or "float16"],
            format=Format.NC1HWC0,
        ),
    }
    for field, places in layout.items():
        tensor = tensors[field]
        assert tensor is not None
        tensors[field] = replace(tensor, **places)
    return Sample(
        name=name,
        operator="conv2d_backprop_input",
        tensors=tensors,
        scalars={"filter_sizes": filter_sizes, "input_sizes": input_sizes, "para_dict": para_dict},
        profile=profile,
    )


def output_sizes(sizes: list[int], filter_sizes: Sizes, scalars: dict[str, Any]) -> tuple[int, ...]:
    """Height and width of the convolution's output."""
    found: list[int] = []
    for axis, size in enumerate(sizes):
        reach = scalars["dilations"][2 + axis] * (filter_sizes[2 + axis] - 1) + 1
        padding = scalars["padding"][2 * axis] + scalars["padding"][2 * axis + 1]
        found.append((size + padding - reach) // scalars["strides"][axis] + 1)
    return tuple(found)


_VENDORS: tuple[Sizes, Sizes] = ((1, 16, 7, 7), (16, 16, 1, 1))
_SMALL: tuple[Sizes, Sizes] = ((2, 20, 5, 6), (24, 20, 3, 2))
_ONE_BLOCK: tuple[Sizes, Sizes] = ((2, 16, 5, 6), (16, 16, 3, 2))
_GROUPED: tuple[Sizes, Sizes] = ((2, 16, 5, 6), (32, 4, 3, 3))

SAMPLES: tuple[Sample, ...] = (
    gradient("vendor's", *_VENDORS, groups=1, res_dtype="float32", offset_x=0, kernel_name="conv2d_backprop_input_dx"),
    gradient("without a group_dict", *_VENDORS),
    gradient("one of everything", (1, 1, 1, 1), (1, 1, 1, 1)),
    gradient("several blocks of channels", (2, 20, 5, 6), (40, 20, 3, 3), res_dtype="float32"),
    gradient("stride", (2, 16, 9, 8), (16, 16, 3, 2), strides=(2, 3)),
    gradient("stride leaves a rest", (1, 16, 9, 11), (16, 16, 2, 3), strides=(4, 5)),
    gradient("stride beyond the kernel", (1, 16, 9, 9), (16, 16, 1, 2), strides=(3, 4)),
    gradient("padding on all sides", (2, 16, 5, 6), (16, 16, 3, 3), padding=(1, 1, 1, 1)),
    gradient("padding that differs by side", (2, 16, 5, 6), (16, 16, 3, 3), padding=(0, 2, 1, 0)),
    gradient("padding beyond the kernel", (1, 16, 3, 4), (16, 16, 2, 2), padding=(3, 4, 0, 5)),
    gradient("dilation", (2, 16, 9, 11), (16, 16, 3, 3), dilations=(1, 1, 2, 3)),
    gradient("all of them", (2, 16, 11, 9), (16, 16, 3, 2), strides=(2, 3), padding=(2, 1, 0, 3), dilations=(1, 1, 3, 2)),
    gradient("kernel of 1 with a stride", (2, 16, 7, 8), (16, 16, 1, 1), strides=(2, 3)),
    gradient("kernel of 1 with stride and padding", (2, 16, 7, 8), (16, 16, 1, 1), strides=(2, 3), padding=(0, 1, 0, 2)),
    gradient("kernel as large as the image", (1, 16, 5, 4), (16, 16, 5, 4)),
    gradient("one row", (2, 16, 1, 9), (16, 16, 1, 3), padding=(0, 0, 1, 0)),
    gradient("one column", (2, 16, 9, 1), (16, 16, 3, 1), padding=(1, 1, 0, 0)),
    gradient("a wide image", (1, 16, 20, 60), (16, 16, 3, 3), padding=(1, 1, 1, 1)),
    gradient("groups in one superblock", *_GROUPED, groups=4, res_dtype="float32"),
    gradient("groups that fill their blocks", (2, 32, 5, 6), (32, 16, 3, 3), groups=2),
    gradient("groups of more blocks than the image has", (1, 72, 4, 4), (24, 24, 2, 2), groups=3, padding=(1, 0, 0, 1)),
    gradient("depthwise", (2, 32, 5, 6), (32, 1, 3, 3), groups=32, res_dtype="float32"),
    gradient("depthwise of 33", (1, 33, 5, 6), (33, 1, 3, 3), groups=33, strides=(2, 1), padding=(1, 1, 1, 1)),
    gradient("groups of one input channel", (1, 3, 5, 6), (48, 1, 2, 2), groups=3),
    gradient("BF16", *_SMALL, dtype=BF16, res_dtype="bfloat16"),
    gradient("BF16 into FLOAT", *_SMALL, dtype=BF16, res_dtype="float32"),
    gradient("BF16 into FLOAT16", *_SMALL, dtype=BF16),
    gradient("FLOAT16 into BF16", *_SMALL, res_dtype="bfloat16"),
    *(gradient(f"on {profile}", *_SMALL, profile=profile) for profile in ("ascend910", "ascend310p", "ascend310b", "ascend310")),
    *(gradient(f"exact, FLOAT into {spelling}", *_SMALL, dtype=FLOAT, res_dtype=spelling, profile="reference") for spelling in ("float64", "float32", "float16", "bfloat16")),
    *(gradient(f"exact, DOUBLE into {spelling}", *_SMALL, dtype=DOUBLE, res_dtype=spelling, profile="reference") for spelling in ("float64", "float32", "float16", "bfloat16")),
    gradient("exact, FLOAT16 with groups", *_GROUPED, groups=4, profile="reference"),
    gradient("exact, DOUBLE with groups and all of them", (1, 72, 7, 9), (24, 24, 3, 2), dtype=DOUBLE, res_dtype="float64", groups=3, strides=(2, 3), padding=(2, 1, 0, 3), dilations=(1, 1, 3, 2), profile="reference"),
    gradient("exact, DOUBLE with gaps", *_SMALL, dtype=DOUBLE, res_dtype="float64", profile="reference", layout={"filters": {"strides": (1100, 530, 33, 2), "offset": 3}, "out_backprop": {"strides": (480, 240, 5, 1, 15), "offset": 1}}),
    gradient("exact, a row beyond 4096", (1, 16, 2, 5000), (16, 16, 2, 1), res_dtype="float32", profile="reference"),
    gradient("exact, a dilation beyond 255", (1, 16, 3, 260), (16, 16, 2, 2), dilations=(1, 1, 2, 256), res_dtype="float32", profile="reference"),
    gradient("exact, padding beyond 255", (1, 16, 3, 4), (16, 16, 2, 2), padding=(0, 1, 256, 257), strides=(1, 3), res_dtype="float32", profile="reference"),
    gradient("exact, BF16 with all of them", (1, 20, 11, 9), (24, 20, 3, 2), dtype=BF16, res_dtype="float64", strides=(2, 3), padding=(2, 1, 0, 3), dilations=(1, 1, 3, 2), profile="reference"),
    gradient("formats of ND", *_SMALL, layout={name: {"format": Format.ND} for name in ("filters", "out_backprop", "res_tensor")}),
    gradient("filters with gaps", *_GROUPED, groups=4, layout={"filters": {"strides": (1100, 530, 33, 2), "offset": 3}}),
    gradient("filters with their axes reversed", *_SMALL, layout={"filters": {"strides": (1, 12, 24, 384)}}),
    gradient("out_backprop channels first", *_SMALL, layout={"out_backprop": {"strides": (480, 240, 5, 1, 15), "offset": 1}}),
    gradient("out_backprop repeated over the batch", *_SMALL, layout={"out_backprop": {"strides": (0, 240, 80, 16, 1)}}),
    gradient("res_tensor with gaps", *_SMALL, layout={"res_tensor": {"strides": (2200, 1050, 201, 33, 2), "offset": 5}}),
    gradient("res_tensor channels first", *_SMALL, layout={"res_tensor": {"strides": (960, 480, 6, 1, 30)}}),
    gradient("integers", *_SMALL, values=Values.INTEGERS),
    gradient("NaN and infinity", *_ONE_BLOCK, values=Values.SPECIAL),
    gradient("beyond FLOAT16", *_ONE_BLOCK, values=Values.LARGE),
    gradient("beyond FLOAT16, kept in FLOAT", *_ONE_BLOCK, values=Values.LARGE, res_dtype="float32"),
    gradient("beyond FLOAT16, exact", *_ONE_BLOCK, values=Values.LARGE, profile="reference"),
)  # fmt: skip

BASE = gradient("base", (2, 16, 5, 6), (32, 4, 3, 3), groups=4)
_ROW = gradient("row", (1, 16, 1, 9), (16, 16, 1, 3))
_HUGE = 2**59
_ONE = {"strides": (0,) * 5}
_ONE_FILTER = {"strides": (0,) * 4}

_E = TbeStatus
_GROUPS = "para_dict.group_dict"
_VAST = gradient("vast", (_HUGE, 16, 1, 1), (16, 16, 1, 1), layout={"out_backprop": _ONE, "res_tensor": _ONE})  # fmt: skip
_VAST_FILTER = gradient("vast", (1, 2**31, 1, 1), (2**31, 2**31, 1, 1), layout={"filters": _ONE_FILTER, "out_backprop": _ONE, "res_tensor": _ONE})  # fmt: skip
_VAST_RESULT = gradient("vast", (_HUGE // 16, 16, 4, 4), (16, 16, 1, 1), strides=(4, 4), layout={"out_backprop": _ONE, "res_tensor": _ONE})  # fmt: skip
_HIGH = gradient("high", (1, 16, 200001, 1), (16, 16, 2, 1), layout={"out_backprop": _ONE, "res_tensor": _ONE})  # fmt: skip
_WIDE = gradient("wide", (1, 16, 2, 4097), (16, 16, 1, 2), layout={"out_backprop": _ONE, "res_tensor": _ONE})  # fmt: skip
_UNSUPPORTED = "dtype is none that the profile supports"
_KEYS = ("g_extend", "multiple_extend", "dx_c1_extend", "dy_c1_extend", "dx_c_ori", "dy_c_ori", "filter_batch_ori", "filter_c_ori")  # fmt: skip
_ARRAYS = {"filter_sizes": "four", "para_dict.strides": "two", "para_dict.dilations": "four", "input_sizes": "four", "para_dict.padding": "four"}  # fmt: skip
_REQUIRED = ("filters", "out_backprop", "filter_sizes", "input_sizes", "para_dict", "para_dict.strides", "para_dict.padding", "para_dict.dilations", "res_tensor")  # fmt: skip

_IN_BF16 = {name: {"dtype": BF16} for name in ("filters", "out_backprop")}
ERROR_SAMPLES: tuple[ErrorSample, ...] = (
    *(refused(_E.E60038, name, "missing", BASE, {name: None}) for name in _REQUIRED),
    *(refused(_E.E60011, name, _UNSUPPORTED, BASE, {name: {"dtype": DataType.INT8}}) for name in ("filters", "out_backprop")),
    refused(_E.E60011, "para_dict.res_dtype", "none that the profile supports", BASE, {"para_dict.res_dtype": "int32"}),
    refused(_E.E65002, "out_backprop", "dtype is not that of filters", BASE, {"out_backprop": {"dtype": BF16}}),
    refused(_E.E65003, "filters", "not four dimensions", BASE, {"filters": {"shape": (9, 2, 256)}}),
    refused(_E.E65003, "out_backprop", "not five dimensions", BASE, {"out_backprop": {"shape": (2, 32, 3, 4)}}),
    *(refused(_E.E60006, name, f"not {count} values", BASE, {name: (1,) * 3}) for name, count in _ARRAYS.items()),
    refused(_E.E65004, "para_dict.offset_w", "given", BASE, {"para_dict.offset_w": 0}),
    refused(_E.E65007, "out_backprop", "C0 is not 16", BASE, {"out_backprop": {"shape": (2, 4, 3, 4, 8)}}),
    refused(_E.E60011, "out_backprop", "height times its stride is outside the limit", BASE, {"para_dict.strides": (0, 1)}),
    refused(_E.E60011, "out_backprop", "width times its stride is outside the limit", BASE, {"para_dict.strides": (1, 1025)}),
    refused(_E.E60011, "input_sizes", "height is outside the limit", _HIGH, {}),
    refused(_E.E60011, "input_sizes", "width is outside the limit", _WIDE, {}),
    refused(_E.E65007, "out_backprop", "N is not that of input_sizes", BASE, {"input_sizes": (3, 16, 5, 6)}),
    refused(_E.E65007, "out_backprop", "height is not that of the convolution", BASE, {"input_sizes": (2, 16, 6, 6)}),
    refused(_E.E65007, "out_backprop", "width is not that of the convolution", BASE, {"para_dict.padding": (0, 0, 1, 0)}),
    refused(_E.E60011, "filter_sizes", "Cout or Cin/groups is below 1", BASE, {"filter_sizes": (32, 0, 3, 3)}),
    refused(_E.E65007, f"{_GROUPS}.groups", "missing", BASE, {f"{_GROUPS}.groups": None}),
    refused(_E.E60108, f"{_GROUPS}.groups", "below 1, or does not divide Cout", BASE, {f"{_GROUPS}.groups": 3}),
    *(refused(_E.E65007, f"{_GROUPS}.{key}", "missing, or not what the formulas give", BASE, {f"{_GROUPS}.{key}": 99}) for key in _KEYS),
    refused(_E.E65007, f"{_GROUPS}.filter_ori_format", "missing, or not what the formulas give", BASE, {f"{_GROUPS}.filter_ori_format": None}),
    refused(_E.E60114, "para_dict.padding", "a negative value", BASE, {"para_dict.padding": (-1, 1, 0, 0)}),
    refused(_E.E65007, "filters", "Cout0 or Cin0 is not 16", BASE, {"filters": {"shape": (9, 2, 16, 8)}}),
    refused(_E.E65007, "filters", "dimension 1 is not dy_c1_extend", BASE, {"filters": {"shape": (9, 1, 16, 16)}}),
    refused(_E.E60114, "filter_sizes", "KH or KW is below 1", BASE, {"filter_sizes": (32, 4, 0, 3), "input_sizes": (2, 16, 2, 6)}),
    refused(_E.E60023, "para_dict.dilations", "not 1 in N or C", BASE, {"para_dict.dilations": (1, 2, 1, 1)}),
    refused(_E.E60011, "para_dict.dilations", "height or width is outside the limit", _ROW, {"para_dict.dilations": (1, 1, 256, 1)}),
    refused(_E.E60020, "filters", "more than 2^63-1 bytes", _VAST_FILTER, {}),
    refused(_E.E60020, "out_backprop", "more than 2^63-1 bytes", _VAST, {}),
    refused(_E.E60020, "input_sizes", "more than 2^63-1 bytes", _VAST_RESULT, {"res_tensor": {"shape": (1, 1, 1, 1, 16)}}),
    refused(_E.E60108, "filters", "dimension 0 is not a multiple of the kernel's taps", BASE, {"filters": {"shape": (10, 2, 16, 16)}}),
    refused(_E.E60011, "para_dict.offset_x", "not 0", BASE, {"para_dict.offset_x": 1}),
    refused(_E.E65003, "filters", "format is neither FRACTAL_Z nor ND", BASE, {"filters": {"format": Format.NCHW}}),
    refused(_E.E65003, "out_backprop", "format is neither NC1HWC0 nor ND", BASE, {"out_backprop": {"format": Format.NCHW}}),
    refused(_E.E60011, "input_sizes", "N is below 1", BASE, {"input_sizes": (0, 16, 5, 6), "out_backprop": {"shape": (0, 2, 3, 4, 16)}}),
    refused(_E.E60002, "input_sizes", "Cin is not groups times Cin/groups of filter_sizes", BASE, {"input_sizes": (2, 15, 5, 6)}),
    refused(_E.E60002, "out_backprop", "C1 is not that of Cout", BASE, {"out_backprop": {"shape": (2, 3, 3, 4, 16)}}),
    refused(_E.E65007, "filters", "dimension 0 is not what filter_sizes and groups give", BASE, {"filters": {"shape": (18, 2, 16, 16)}}),
    refused(_E.E65002, "res_tensor", "dtype is not res_dtype", BASE, {"res_tensor": {"dtype": FLOAT}}),
    refused(_E.E65003, "res_tensor", "format is neither NC1HWC0 nor ND", BASE, {"res_tensor": {"format": Format.NCHW}}),
    refused(_E.E65007, "res_tensor", "shape is not that of input_sizes", BASE, {"res_tensor": {"shape": (2, 2, 5, 6, 16)}}),
)  # fmt: skip
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = tuple(
    refused(_E.E60011, name, "dtype is BF16 on ascend910b", BASE, _IN_BF16)
    for name in ("filters", "out_backprop")
)
"""Calls that break a page's rule which the vendor's own tests break: accepted with a warning."""
