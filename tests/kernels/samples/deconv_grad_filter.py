"""Calls of deconv_grad_filter: those that must succeed, and one for every row of its error table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernels.samples.sample import ErrorSample, Sample, TensorSample, Values
from opserve_kernels.status import DeconvStatus
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
Shape = tuple[int, int, int, int]
Pair = tuple[int, int]
ALL_CORES = 0b1111_1111


def deconvolution(name: str, x_data: Shape, dy_data: Shape, kernel: Pair, **changes: Any) -> Sample:
    """A call on ft78ne in FLOAT with the numbers as fields, unless changed.

    Args:
        name: Of the sample.
        x_data: NHWC.
        dy_data: NHWC.
        kernel: Height and width.
        changes: Scalars by field, `profile`, `dtype`, `values`, `format`, the `layout` of any
            tensor; `entries` gives the numbers as a param array of that length.
    """
    profile = changes.pop("profile", "ft78ne")
    dtype, values = changes.pop("dtype", FLOAT), changes.pop("values", Values.NORMAL)
    format_, entries = changes.pop("format", Format.NHWC), changes.pop("entries", None)
    layout: Mapping[str, Any] = changes.pop("layout", {})
    group = changes.get("group", 1)
    rows = dy_data[3] // group * kernel[0] * kernel[1]
    shapes = {
        "dy_data": dy_data,
        "x_data": x_data,
        "dw_data": (group, rows, x_data[3] // group),
    }
    tensors = {
        tensor: TensorSample(
            shape=shape, dtype=dtype, format=format_, values=values, **layout.get(tensor, {})
        )
        for tensor, shape in shapes.items()
    }
    scalars = {"kernel_h": kernel[0], "kernel_w": kernel[1], **changes}
    if entries is not None:
        scalars = _with_param(scalars, x_data, dy_data, entries)
    return Sample(
        name=name,
        operator="deconv_grad_filter",
        tensors=tensors,
        scalars=scalars,
        profile=profile,
    )


def _with_param(
    scalars: Mapping[str, Any], x_data: Shape, dy_data: Shape, entries: int
) -> dict[str, Any]:
    """The numbers as an array, in the order of the vendor's page."""
    ones, zeros = ("stride_h", "stride_w", "dilation_h", "dilation_w", "group"), ("pad_u", "pad_l")
    numbers = {**dict.fromkeys(ones, 1), **dict.fromkeys((*zeros, "temp_space"), 0), **scalars}
    names = (
        *("kernel_h", "kernel_w", "stride_h", "stride_w", "pad_u", "pad_l"),
        *("dilation_h", "dilation_w", "group", "temp_space"),
    )
    ignored = (-7,) * (entries - 18)
    param = (*x_data, *dy_data, *(numbers[name] for name in names), *ignored)
    rest = {name: value for name, value in scalars.items() if name not in names}
    return {**rest, "param": param}


_VENDORS = deconvolution(
    "vendor's, ones",
    (16, 4, 4, 4),
    (16, 4, 4, 4),
    (4, 4),
    entries=20,
    core_mask=0b1111,
    function="fp_deconv_grad_filter_s",
    values=Values.ONES,
)
_FIELDS = {
    "input_batch": 2,
    "in_h": 3,
    "in_w": 4,
    "in_c": 4,
    "batch": 2,
    "out_h": 6,
    "out_w": 9,
    "out_c": 6,
}
_ALL_OF_THEM: dict[str, Any] = {
    "stride_h": 2,
    "stride_w": 3,
    "pad_u": 2,
    "pad_l": 1,
    "dilation_h": 3,
    "dilation_w": 2,
}

SAMPLES: tuple[Sample, ...] = (
    _VENDORS,
    _VENDORS.but("vendor's, private storage", core_mask=None, function="fp_deconv_grad_filter_p"),
    _VENDORS.but("vendor's, older mask", core_mask=ALL_CORES),
    deconvolution("plain", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2)),
    deconvolution("one of everything", (1, 1, 1, 1), (1, 1, 1, 1), (1, 1)),
    deconvolution("18 entries", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), entries=18),
    deconvolution("19 entries", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), entries=19, core_mask=1),
    deconvolution("20 entries, all of them", (2, 3, 4, 4), (2, 6, 9, 6), (3, 2), entries=20, group=2, **_ALL_OF_THEM),
    deconvolution("every field", (2, 3, 4, 4), (2, 6, 9, 6), (3, 2), group=2, temp_space=0, **_ALL_OF_THEM, **_FIELDS),
    deconvolution("the last core", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), core_mask=0b1000_0000),
    deconvolution("kernel of 1", (3, 4, 5, 3), (3, 4, 5, 2), (1, 1)),
    deconvolution("stride", (2, 3, 4, 2), (2, 7, 11, 3), (3, 2), stride_h=2, stride_w=3),
    deconvolution("stride beyond the kernel", (2, 3, 3, 2), (2, 9, 13, 3), (1, 2), stride_h=4, stride_w=5),
    deconvolution("dilation", (2, 3, 4, 2), (2, 9, 8, 3), (3, 3), dilation_h=3, dilation_w=2),
    deconvolution("padding", (2, 4, 5, 2), (2, 5, 4, 3), (3, 4), pad_u=1, pad_l=2),
    deconvolution("padding beyond the kernel", (2, 4, 5, 2), (2, 2, 2, 3), (2, 2), pad_u=3, pad_l=4),
    deconvolution("padding beyond everything", (1, 2, 2, 2), (1, 3, 3, 2), (2, 2), pad_u=9),
    deconvolution("output smaller than implied", (2, 4, 4, 2), (2, 2, 3, 3), (3, 3)),
    deconvolution("output larger than implied", (2, 3, 3, 2), (2, 9, 8, 3), (2, 2)),
    deconvolution("output of one pixel", (2, 4, 4, 2), (2, 1, 1, 3), (2, 3)),
    deconvolution("one row", (2, 1, 7, 2), (2, 1, 9, 3), (1, 3)),
    deconvolution("one column", (2, 7, 1, 2), (2, 9, 1, 3), (3, 1)),
    deconvolution("groups", (2, 3, 4, 6), (2, 5, 5, 9), (3, 2), group=3),
    deconvolution("depthwise", (2, 3, 4, 5), (2, 5, 5, 5), (3, 2), group=5),
    deconvolution("depthwise with a multiplier", (2, 3, 4, 3), (2, 5, 5, 6), (3, 2), group=3),
    deconvolution("taps first", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), row_order="kh_kw_oc"),
    deconvolution("taps last, by name", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), row_order="oc_kh_kw"),
    deconvolution("taps first, groups", (2, 3, 4, 4), (2, 6, 9, 6), (3, 2), group=2, row_order="kh_kw_oc", **_ALL_OF_THEM),
    deconvolution("format ND", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), format=Format.ND),
    deconvolution("dy_data with gaps", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), layout={"dy_data": {"strides": (400, 70, 11, 2), "offset": 5}}),
    deconvolution("x_data channels first", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), layout={"x_data": {"strides": (24, 4, 1, 12)}}),
    deconvolution("x_data repeated over the batch", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), layout={"x_data": {"strides": (0, 8, 2, 1)}}),
    deconvolution("dw_data with gaps", (2, 3, 4, 4), (2, 5, 5, 6), (3, 2), group=2, layout={"dw_data": {"strides": (200, 5, 2), "offset": 3}}),
    deconvolution("dw_data transposed, taps first", (2, 3, 4, 4), (2, 5, 5, 6), (3, 2), group=2, row_order="kh_kw_oc", layout={"dw_data": {"strides": (18, 1, 36)}}),
    deconvolution("many channels", (2, 6, 6, 33), (2, 8, 8, 40), (3, 3)),
    deconvolution("a large batch", (64, 5, 5, 3), (64, 11, 11, 2), (3, 3), stride_h=2, stride_w=2),
    deconvolution("integers", (2, 4, 4, 3), (2, 6, 6, 4), (3, 3), values=Values.INTEGERS),
    deconvolution("NaN and infinity", (2, 4, 4, 3), (2, 4, 4, 4), (3, 3), values=Values.SPECIAL),
    deconvolution("fp on mt7004", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), profile="mt7004", function="fp_deconv_grad_filter_p"),
    deconvolution("hp", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), profile="mt7004", dtype=FLOAT16),
    deconvolution("hp, shared storage", (2, 3, 4, 4), (2, 6, 9, 6), (3, 2), profile="mt7004", dtype=FLOAT16, entries=18, group=2, function="hp_deconv_grad_filter_s", core_mask=0b11, **_ALL_OF_THEM),
    deconvolution("hp, private storage", (16, 4, 4, 4), (16, 4, 4, 4), (4, 4), profile="mt7004", dtype=FLOAT16, function="hp_deconv_grad_filter_p"),
    deconvolution("hp, taps first", (2, 3, 4, 4), (2, 5, 5, 6), (3, 2), profile="mt7004", dtype=FLOAT16, group=2, row_order="kh_kw_oc", layout={"dw_data": {"strides": (100, 5, 2)}}),
    deconvolution("hp overflows", (2, 4, 4, 2), (2, 4, 4, 3), (2, 2), profile="mt7004", dtype=FLOAT16, values=Values.LARGE),
    deconvolution("reference, fp", (2, 3, 4, 4), (2, 6, 9, 6), (3, 2), profile="reference", group=2, function="fp_deconv_grad_filter_s", core_mask=1, **_ALL_OF_THEM),
    deconvolution("reference, hp", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), profile="reference", dtype=FLOAT16, function="hp_deconv_grad_filter_p"),
    deconvolution("reference, BF16", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), profile="reference", dtype=BF16, row_order="kh_kw_oc"),
    deconvolution("reference, DOUBLE", (2, 3, 4, 4), (2, 6, 9, 6), (3, 2), profile="reference", dtype=DOUBLE, group=2, **_ALL_OF_THEM),
)  # fmt: skip

BASE = deconvolution("base", (2, 3, 4, 4), (2, 5, 5, 6), (3, 2), group=2)
BASE_PARAM = deconvolution("base", (2, 3, 4, 4), (2, 5, 5, 6), (3, 2), group=2, entries=18)
BASE_HP = deconvolution("base", (2, 3, 4, 4), (2, 5, 5, 6), (3, 2), group=2, dtype=FLOAT16)
MOST = 2**31 - 1


def tensor_of(name: str, **changes: Any) -> TensorSample:
    """A tensor of BASE, changed."""
    tensor = BASE.tensors[name]
    assert tensor is not None
    return replace(tensor, **changes)


def _refused(rule: str, parameter: str, **changes: Any) -> ErrorSample:
    return _error(rule, parameter, BASE.but("changed", **changes))


def _missing(rule: str, parameter: str, **changes: Any) -> ErrorSample:
    status = DeconvStatus.DECONV_PARAM_NULL
    return _error(rule, parameter, BASE.but("changed", **changes), status)


def _error(
    rule: str,
    parameter: str,
    sample: Sample,
    status: DeconvStatus = DeconvStatus.DECONV_PARAM_INVALID,
) -> ErrorSample:
    named = replace(sample, name=f"{parameter}: {rule}")
    return ErrorSample(rule=rule, sample=named, status=status, parameter=parameter)


_ROWS = f"more than {MOST} rows of dw_data"
_POSITIVE = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "group")

ERROR_SAMPLES: tuple[ErrorSample, ...] = (
    *(_missing("missing", name, **{name: None}) for name in ("dy_data", "x_data", "dw_data")),
    _missing("missing, and no field in its place", "param", kernel_h=None, kernel_w=None, group=None),
    *(_missing("missing, and no param in its place", name, **{name: None}) for name in ("kernel_h", "kernel_w")),
    _missing("missing in a call of an _s function", "core_mask", function="fp_deconv_grad_filter_s"),
    _refused("not a function of the library", "function", function="dp_deconv_grad_filter_s", core_mask=1),
    _refused("given to a _p function", "core_mask", function="fp_deconv_grad_filter_p", core_mask=1),
    _refused("names no core", "core_mask", core_mask=0),
    _refused("names a core that the profile does not have", "core_mask", core_mask=0b1_0000_0001),
    _error("hp on a profile that has only fp", "function", BASE.but("hp", function="hp_deconv_grad_filter_p"), DeconvStatus.DECONV_DTYPE_NOT_SUPPORTED),
    _error("dtype is not one of the profile's", "dy_data", BASE_HP, DeconvStatus.DECONV_DTYPE_NOT_SUPPORTED),
    *(_refused("dtype is not dy_data's", name, **{name: tensor_of(name, dtype=FLOAT16)}) for name in ("x_data", "dw_data")),
    _error("its dtype is not dy_data's", "function", replace(BASE, profile="mt7004").but("hp", function="hp_deconv_grad_filter_p")),
    *(_refused("format is neither NHWC nor ND", name, **{name: tensor_of(name, format=Format.NCHW)}) for name in ("dy_data", "x_data", "dw_data")),
    _refused("not 4 dimensions", "dy_data", dy_data=tensor_of("dy_data", shape=(2, 25, 6))),
    _refused("not 4 dimensions", "x_data", x_data=tensor_of("x_data", shape=(2, 1, 3, 4, 4))),
    _refused("a size of 0", "dy_data", dy_data=tensor_of("dy_data", shape=(2, 0, 5, 6))),
    _refused("a size of 0", "x_data", x_data=tensor_of("x_data", shape=(2, 3, 4, 0))),
    _error("given beside a field that it holds", "param", BASE_PARAM.but("both", stride_h=1)),
    _error("not 18 to 20 entries", "param", BASE_PARAM.but("short", param=BASE_PARAM.scalars["param"][:17])),
    *(_refused(f"outside 1 to {MOST}", name, **{name: 0}) for name in _POSITIVE),
    *(_refused(f"outside 0 to {MOST}", name, **{name: -1}) for name in ("pad_u", "pad_l")),
    *(_refused("not that size of x_data", name, **{name: 7}) for name in ("input_batch", "in_h", "in_w", "in_c")),
    *(_refused("not that size of dy_data", name, **{name: 7}) for name in ("batch", "out_h", "out_w", "out_c")),
    _refused("not input_batch", "batch", dy_data=tensor_of("dy_data", shape=(3, 5, 5, 6))),
    _refused("does not divide in_c", "group", group=3),
    _refused("does not divide out_c", "group", group=4),
    _refused(_ROWS, "out_c", dy_data=tensor_of("dy_data", shape=(2, 5, 5, 2**32), strides=(0,) * 4)),
    *(_refused(_ROWS, name, **{name: MOST}) for name in ("kernel_h", "kernel_w")),
    _refused("neither oc_kh_kw nor kh_kw_oc", "row_order", row_order="kh_oc_kw"),
    _refused("shape is not [group, out_c/group*kernel_h*kernel_w, in_c/group]", "dw_data", dw_data=tensor_of("dw_data", shape=(18, 4))),
)  # fmt: skip
