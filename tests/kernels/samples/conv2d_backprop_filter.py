"""Calls of conv2d_backprop_filter: those that must succeed, and one for each row of its errors."""

from dataclasses import replace
from typing import Any

from kernels.samples.para_dicts import refused
from kernels.samples.sample import ErrorSample, Sample, TensorSample, Values
from opserve_kernels.formats import fractal_z_shape
from opserve_kernels.operators.conv2d_backprop_filter.schema import Conv2dBackpropFilterParaDict
from opserve_kernels.status import TbeStatus
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
_DTYPES = {"float16": FLOAT16, "float32": FLOAT, "bfloat16": BF16, "float64": DOUBLE}
Sizes = tuple[int, int, int, int]


def gradient(name: str, image: Sizes, filter_sizes: Sizes, **changes: Any) -> Sample:
    """A call with the defaults of para_dict, in FLOAT16 into FLOAT, unless changed.

    Args:
        name: Of the sample.
        image: N, Cin, H, W of input_x.
        filter_sizes: Cout, Cin/groups, KH, KW.
        changes: Keys of para_dict; `raw`, `dtype` of the operands, `values`, `profile`, and the
            `layout` of any tensor.
    """
    dtype, values = changes.pop("dtype", FLOAT16), changes.pop("values", Values.NORMAL)
    layout: dict[str, Any] = changes.pop("layout", {})
    profile: str = changes.pop("profile", "ascend910b")
    raw: bool | None = changes.pop("raw", None)
    batch, channels, *sizes = image
    output = output_sizes(sizes, filter_sizes, changes)
    tensors: dict[str, TensorSample | None] = {
        "input_x": TensorSample(
            shape=(batch, -(-channels // 16), *sizes, 16),
            dtype=dtype,
            format=Format.NC1HWC0,
            values=values,
        ),
        "out_backprop": TensorSample(
            shape=(batch, -(-filter_sizes[0] // 16), *output, 16),
            dtype=dtype,
            format=Format.NC1HWC0,
            values=values,
        ),
        "res_tensor": TensorSample(
            shape=fractal_z_shape(filter_sizes, changes.get("groups", 1)),
            dtype=_DTYPES[changes.get("res_dtype") or "float32"],
            format=Format.FRACTAL_Z,
        ),
    }
    for field, steps in layout.items():
        tensor = tensors[field]
        assert tensor is not None
        tensors[field] = replace(tensor, **steps)
    para_dict = Conv2dBackpropFilterParaDict(**changes) if changes else None
    scalars = {"filter_sizes": filter_sizes, "para_dict": para_dict, "raw": raw}
    return Sample(
        name=name,
        operator="conv2d_backprop_filter",
        tensors=tensors,
        scalars=scalars,
        profile=profile,
    )


def output_sizes(sizes: list[int], filter_sizes: Sizes, scalars: dict[str, Any]) -> tuple[int, ...]:
    """Height and width of the convolution's output."""
    found: list[int] = []
    padding, strides = scalars.get("padding", (0,) * 4), scalars.get("strides", (1, 1))
    dilations = scalars.get("dilations", (1,) * 4)
    for axis, size in enumerate(sizes):
        reach = dilations[2 + axis] * (filter_sizes[2 + axis] - 1) + 1
        free = size + padding[2 * axis] + padding[2 * axis + 1] - reach
        found.append(free // strides[axis] + 1)
    return tuple(found)


_SMALL: tuple[Sizes, Sizes] = ((2, 20, 5, 6), (24, 20, 3, 2))
_ONE_BLOCK: tuple[Sizes, Sizes] = ((2, 16, 5, 6), (16, 16, 3, 2))
_GROUPED: tuple[Sizes, Sizes] = ((2, 16, 5, 6), (32, 4, 3, 3))
_ODD: tuple[Sizes, Sizes] = ((1, 72, 4, 4), (24, 24, 2, 2))
_33: tuple[Sizes, Sizes] = ((1, 33, 5, 6), (33, 1, 3, 3))

SAMPLES: tuple[Sample, ...] = (
    gradient("vendor's", (1, 16, 7, 7), (16, 16, 1, 1), strides=(1, 1), padding=(0,) * 4, dilations=(1,) * 4, groups=1, res_dtype="float32", kernel_name="conv2d_backprop_filter_dx"),
    gradient("without a para_dict", *_ONE_BLOCK),
    gradient("one of everything", (1, 1, 1, 1), (1, 1, 1, 1)),
    gradient("several blocks of channels", (2, 20, 5, 6), (40, 20, 3, 3)),
    gradient("stride", (2, 16, 9, 8), (16, 16, 3, 2), strides=(2, 3)),
    gradient("stride leaves a rest", (1, 16, 9, 11), (16, 16, 2, 3), strides=(4, 5)),
    gradient("stride beyond the kernel", (1, 16, 9, 9), (16, 16, 1, 2), strides=(3, 4)),
    gradient("padding on all sides", (2, 16, 5, 6), (16, 16, 3, 3), padding=(1, 1, 1, 1)),
    gradient("padding that differs by side", (2, 16, 5, 6), (16, 16, 3, 3), padding=(0, 2, 1, 0)),
    gradient("padding beyond the kernel", (1, 16, 3, 4), (16, 16, 2, 2), padding=(3, 4, 0, 5)),
    gradient("dilation", (2, 16, 9, 11), (16, 16, 3, 3), dilations=(1, 1, 2, 3)),
    gradient("all of them", (2, 16, 11, 9), (16, 16, 3, 2), strides=(2, 3), padding=(2, 1, 0, 3), dilations=(1, 1, 3, 2)),
    gradient("kernel of 1 with a stride", (2, 16, 7, 8), (16, 16, 1, 1), strides=(2, 3)),
    gradient("kernel as large as the image", (1, 16, 5, 4), (16, 16, 5, 4)),
    gradient("one row", (2, 16, 1, 9), (16, 16, 1, 3), padding=(0, 0, 1, 0)),
    gradient("one column", (2, 16, 9, 1), (16, 16, 3, 1), padding=(1, 1, 0, 0)),
    gradient("a wide image", (1, 16, 20, 60), (16, 16, 3, 3), padding=(1, 1, 1, 1)),
    gradient("groups in one superblock", *_GROUPED, groups=4),
    gradient("groups in one superblock, raw", *_GROUPED, groups=4, raw=True),
    gradient("groups that fill their blocks", (2, 32, 5, 6), (32, 16, 3, 3), groups=2, raw=False),
    gradient("groups of more blocks than the image has", *_ODD, groups=3, padding=(1, 0, 0, 1)),
    gradient("groups of more blocks than the image has, raw", *_ODD, groups=3, raw=True),
    gradient("depthwise", (2, 32, 5, 6), (32, 1, 3, 3), groups=32),
    gradient("depthwise, raw", (2, 32, 5, 6), (32, 1, 3, 3), groups=32, raw=True),
    gradient("depthwise of 33", *_33, groups=33, strides=(2, 1), padding=(1, 1, 1, 1)),
    gradient("depthwise of 33, raw", *_33, groups=33, raw=True),
    gradient("groups of one input channel", (1, 3, 5, 6), (48, 1, 2, 2), groups=3),
    gradient("lanes beyond the channels, raw", *_SMALL, raw=True),
    gradient("BF16", *_SMALL, dtype=BF16),
    *(gradient(f"on {profile}", *_SMALL, profile=profile) for profile in ("ascend910", "ascend310")),
    *(gradient(f"exact, FLOAT into {spelling}", *_SMALL, dtype=FLOAT, res_dtype=spelling, profile="reference") for spelling in ("float64", "float32", "float16", "bfloat16")),
    *(gradient(f"exact, DOUBLE into {spelling}", *_SMALL, dtype=DOUBLE, res_dtype=spelling, profile="reference") for spelling in ("float64", "float32", "float16", "bfloat16")),
    gradient("exact, FLOAT16 with groups", *_GROUPED, groups=4, profile="reference"),
    gradient("exact, DOUBLE with groups, all of them and raw", (1, 72, 7, 9), (24, 24, 3, 2), dtype=DOUBLE, res_dtype="float64", groups=3, raw=True, strides=(2, 3), padding=(2, 1, 0, 3), dilations=(1, 1, 3, 2), profile="reference"),
    gradient("exact, DOUBLE with gaps", *_SMALL, dtype=DOUBLE, res_dtype="float64", profile="reference", layout={"input_x": {"strides": (960, 480, 6, 1, 30), "offset": 1}, "out_backprop": {"strides": (2200, 1050, 201, 33, 2), "offset": 5}}),
    gradient("exact, a row beyond 4096", (1, 16, 2, 5000), (16, 16, 2, 1), profile="reference"),
    gradient("exact, a dilation beyond 255", (1, 16, 3, 260), (16, 16, 2, 2), dilations=(1, 1, 2, 256), profile="reference"),
    gradient("exact, padding beyond 255", (1, 16, 3, 4), (16, 16, 2, 2), padding=(0, 1, 256, 257), strides=(1, 3), profile="reference"),
    gradient("exact, kernel and stride beyond their limits, dilated", (1, 16, 2, 600), (16, 16, 2, 256), strides=(1, 64), dilations=(1, 1, 1, 2), profile="reference"),
    gradient("exact, BF16 with all of them", (1, 20, 11, 9), (24, 20, 3, 2), dtype=BF16, res_dtype="float64", strides=(2, 3), padding=(2, 1, 0, 3), dilations=(1, 1, 3, 2), profile="reference"),
    gradient("exact, FLOAT16 with groups, raw", *_GROUPED, groups=4, raw=True, profile="reference"),
    gradient("formats of ND", *_SMALL, layout={name: {"format": Format.ND} for name in ("input_x", "out_backprop", "res_tensor")}),
    gradient("input_x channels first", *_SMALL, layout={"input_x": {"strides": (960, 480, 6, 1, 30), "offset": 1}}),
    gradient("input_x repeated over the batch", *_SMALL, layout={"input_x": {"strides": (0, 480, 96, 16, 1)}}),
    gradient("out_backprop with gaps", *_SMALL, layout={"out_backprop": {"strides": (2200, 1050, 201, 33, 2), "offset": 5}}),
    gradient("res_tensor with gaps", *_GROUPED, groups=4, layout={"res_tensor": {"strides": (1100, 530, 33, 2), "offset": 3}}),
    gradient("res_tensor with its axes reversed", *_SMALL, layout={"res_tensor": {"strides": (1, 12, 24, 384)}}),
    gradient("a kernel beyond 255", (1, 16, 2, 259), (16, 16, 1, 257)),
    gradient("a stride beyond 63", (1, 16, 2, 130), (16, 16, 1, 1), strides=(1, 64)),
    gradient("integers", *_SMALL, values=Values.INTEGERS),
    gradient("NaN and infinity", *_ONE_BLOCK, values=Values.SPECIAL, padding=(1, 1, 1, 1)),
    gradient("beyond FLOAT16", *_ONE_BLOCK, values=Values.LARGE),
)  # fmt: skip

BASE = gradient(
    "base",
    (2, 16, 5, 6),
    (32, 4, 3, 3),
    strides=(1, 1),
    padding=(0,) * 4,
    dilations=(1,) * 4,
    groups=4,
    res_dtype="float32",
)
_DILATED = gradient("dilated", (1, 16, 1, 600), (16, 16, 1, 2), strides=(1, 1), padding=(0,) * 4, dilations=(1, 1, 1, 2))  # fmt: skip
_ONE = {"strides": (0,) * 5}
_BOTH = {"input_x": _ONE, "out_backprop": _ONE}
_ONE_FILTER = {"strides": (0,) * 4}
_HUGE = 2**59


def _vast(image: Sizes, filter_sizes: Sizes, **changes: Any) -> Sample:
    """The same with one element behind each tensor."""
    layout = {**_BOTH, "res_tensor": _ONE_FILTER}
    return gradient("vast", image, filter_sizes, layout=layout, **changes)


_E = TbeStatus
_REQUIRED = ("input_x", "out_backprop", "filter_sizes", "res_tensor")
_IMAGES = ("out_backprop", "input_x")
_LENGTHS = {"filter_sizes": "four", "para_dict.strides": "two", "para_dict.dilations": "four"}
_ZEROS = {"filter_sizes": (32, 4, 0, 3), "para_dict.strides": (0, 1), "para_dict.dilations": (1, 1, 0, 1)}  # fmt: skip

_IN_BF16 = {name: {"dtype": BF16} for name in _IMAGES}
ERROR_SAMPLES: tuple[ErrorSample, ...] = (
    *(refused(_E.E60038, name, "missing", BASE, {name: None}) for name in _REQUIRED),
    refused(_E.E60038, "out_backprop", "dtype is not that of input_x", BASE, {"out_backprop": {"dtype": BF16}}),
    refused(_E.E60005, "input_x", "dtype is none that the profile supports", BASE, {"input_x": {"dtype": FLOAT}, "out_backprop": {"dtype": FLOAT}}),
    refused(_E.E60005, "para_dict.res_dtype", "none that the profile supports", BASE, {"para_dict.res_dtype": "float16"}),
    *(refused(_E.E64003, name, f"not {count} values", BASE, {name: (1,) * 3}) for name, count in _LENGTHS.items()),
    *(refused(_E.E64004, name, "a value below 1", BASE, {name: zeros}) for name, zeros in _ZEROS.items()),
    refused(_E.E64003, "para_dict.padding", "not four values", BASE, {"para_dict.padding": (0, 0)}),
    *(refused(_E.E64003, name, "not five dimensions", BASE, {name: {"shape": (2, 16, 5, 6)}}) for name in _IMAGES),
    refused(_E.E64002, "out_backprop", "C0 is not 16", BASE, {"out_backprop": {"shape": (2, 2, 3, 4, 32)}}),
    refused(_E.E64002, "input_x", "C0 is not 16", BASE, {"input_x": {"shape": (2, 1, 5, 6, 32)}}),
    refused(_E.E64002, "para_dict.groups", "below 1", BASE, {"para_dict.groups": 0}),
    refused(_E.E64002, "out_backprop", "C1 is not that of Cout", BASE, {"out_backprop": {"shape": (2, 3, 3, 4, 16)}}),
    refused(_E.E64002, "input_x", "C1 is not that of groups times Cin/groups", BASE, {"para_dict.groups": 8}),
    refused(_E.E64002, "out_backprop", "N is not that of input_x", BASE, {"out_backprop": {"shape": (3, 2, 3, 4, 16)}}),
    refused(_E.E64001, "filter_sizes", "height or width is outside the limit", _DILATED, {"filter_sizes": (16, 16, 1, 256), "out_backprop": {"shape": (1, 1, 1, 90, 16)}}),
    refused(_E.E64001, "para_dict.strides", "outside the limit", _DILATED, {"para_dict.strides": (1, 64), "out_backprop": {"shape": (1, 1, 1, 10, 16)}}),
    refused(_E.E60023, "para_dict.dilations", "not 1 in N or C", BASE, {"para_dict.dilations": (1, 2, 1, 1)}),
    refused(_E.E64001, "para_dict.dilations", "height or width is outside the limit", _DILATED, {"para_dict.dilations": (1, 1, 256, 2)}),
    refused(_E.E60108, "para_dict.groups", "does not divide Cout", BASE, {"para_dict.groups": 3}),
    refused(_E.E60024, "out_backprop", "height is not that of the convolution", BASE, {"out_backprop": {"shape": (2, 2, 4, 4, 16)}}),
    refused(_E.E60025, "out_backprop", "width is not that of the convolution", BASE, {"out_backprop": {"shape": (2, 2, 3, 5, 16)}}),
    refused(_E.E60020, "out_backprop", "more than 2^63-1 bytes", _vast((_HUGE, 16, 1, 1), (16, 16, 1, 1)), {}),
    refused(_E.E60020, "input_x", "more than 2^63-1 bytes", _vast((_HUGE // 4, 16, 4, 4), (16, 16, 1, 1), strides=(4, 4)), {}),
    refused(_E.E60020, "filter_sizes", "more than 2^63-1 bytes", _vast((1, 2**31, 1, 1), (2**31, 2**31, 1, 1)), {}),
    refused(_E.E64004, "out_backprop", "a size below 1", gradient("empty", (0, 16, 5, 6), (16, 16, 3, 3)), {}),
    refused(_E.E64004, "input_x", "a size below 1", gradient("no height", (1, 16, 0, 6), (16, 16, 1, 3), padding=(1, 1, 0, 0)), {}),
    refused(_E.E64004, "para_dict.padding", "a negative value", BASE, {"para_dict.padding": (-1, 1, 0, 0)}),
    refused(_E.E64001, "out_backprop", "height is outside the limit", _vast((1, 16, 200001, 1), (16, 16, 1, 1)), {}),
    refused(_E.E64001, "out_backprop", "width is outside the limit", _vast((1, 16, 2, 4097), (16, 16, 1, 1)), {}),
    refused(_E.E64001, "input_x", "height is outside the limit", _vast((1, 16, 200001, 1), (16, 16, 2, 1)), {}),
    refused(_E.E64001, "input_x", "width is outside the limit", _vast((1, 16, 2, 4097), (16, 16, 1, 2)), {}),
    refused(_E.E64001, "para_dict.padding", "outside the limit", gradient("padded", (1, 16, 5, 6), (16, 16, 3, 3), padding=(0, 256, 0, 0)), {}),
    *(refused(_E.E64003, name, "format is neither NC1HWC0 nor ND", BASE, {name: {"format": Format.NCHW}}) for name in _IMAGES),
    refused(_E.E60005, "res_tensor", "dtype is not res_dtype", BASE, {"res_tensor": {"dtype": FLOAT16}}),
    refused(_E.E64003, "res_tensor", "format is neither FRACTAL_Z nor ND", BASE, {"res_tensor": {"format": Format.NC1HWC0}}),
    refused(_E.E64002, "res_tensor", "shape is not that of filter_sizes and groups", BASE, {"res_tensor": {"shape": (18, 2, 16, 16)}}),
)  # fmt: skip
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = (
    ErrorSample(
        rule="ascend910b, a product that the page does not list",
        sample=BASE,
        status=_E.E60005,
        parameter="profile",
    ),
    *(refused(_E.E60005, name, "dtype is BF16 on ascend910b", BASE, _IN_BF16) for name in _IMAGES),
)
"""Calls that break a page's rule which the vendor's own tests break: accepted with a warning."""
