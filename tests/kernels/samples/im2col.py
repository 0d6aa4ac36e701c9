"""Calls of aclnnIm2col: those that must succeed, and one for every row of its error table."""

from dataclasses import replace
from typing import Any

from kernels.samples.sample import ErrorSample, Sample, TensorSample, Values
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
DOUBLE = DataType.DOUBLE
Shape = tuple[int, ...]
Pair = tuple[int, int]


def unfold(name: str, image: Shape, kernel_size: Pair, **changes: Any) -> Sample:
    """A call with stride 1 and no padding, in float32, unless changed.

    Args:
        name: Of the sample.
        image: Shape of self.
        kernel_size: Of a block.
        changes: Scalars, `dtypes` of self and out, `values`, the `layout` of either, and `profile`.
    """
    dtypes = changes.pop("dtypes", (FLOAT, FLOAT))
    values = changes.pop("values", Values.NORMAL)
    profile = changes.pop("profile", "ascend910b")
    layout: dict[str, Any] = changes.pop("layout", {})
    scalars: dict[str, Any] = {
        "kernel_size": kernel_size,
        "dilation": (1, 1),
        "padding": (0, 0),
        "stride": (1, 1),
        **changes,
    }
    length = 1
    for axis in range(2):
        reach = scalars["dilation"][axis] * (kernel_size[axis] - 1) + 1
        free = image[axis - 2] + 2 * scalars["padding"][axis] - reach
        length *= free // scalars["stride"][axis] + 1
    columns = (*image[:-3], image[-3] * kernel_size[0] * kernel_size[1], length)
    tensors: dict[str, TensorSample | None] = {
        "self": TensorSample(shape=image, dtype=dtypes[0], values=values),
        "out": TensorSample(shape=columns, dtype=dtypes[1]),
    }
    for tensor_name, steps in layout.items():
        tensor = tensors[tensor_name]
        assert tensor is not None
        tensors[tensor_name] = replace(tensor, **steps)
    return Sample(name=name, operator="im2col", tensors=tensors, scalars=scalars, profile=profile)


_FAR = 2**60  # beyond every image, within 64 bits
_ALL: dict[str, Any] = {"stride": (2, 3), "padding": (2, 1), "dilation": (3, 2)}
_BASE = unfold("4-D form", (2, 3, 6, 7), (3, 2))
_IMAGE = (2, 3, 6, 7)

SAMPLES: tuple[Sample, ...] = (
    _BASE,
    unfold("3-D form", (3, 6, 7), (3, 2)),
    unfold("vendor's", (2, 2, 3), (2, 2), padding=(1, 1), stride=(2, 2), values=Values.TENTHS),
    unfold("one of everything", (1, 1, 1, 1), (1, 1)),
    unfold("kernel of 1", (2, 3, 4, 5), (1, 1)),
    unfold("block as large as the image", (2, 2, 5, 4), (5, 4)),
    unfold("stride", (2, 2, 9, 10), (3, 3), stride=(2, 3)),
    unfold("stride leaves a rest", (1, 2, 9, 9), (2, 3), stride=(4, 5)),
    unfold("stride beyond the block", (1, 2, 9, 9), (1, 2), stride=(3, 4)),
    unfold("stride of the block", (2, 3, 8, 6), (4, 3), stride=(4, 3)),
    unfold("padding", (2, 2, 5, 6), (3, 3), padding=(1, 2)),
    unfold("padding beyond the block", (1, 2, 3, 4), (2, 2), padding=(3, 4)),
    unfold("dilation", (2, 2, 9, 11), (3, 3), dilation=(2, 3)),
    unfold("dilation beyond the image", (1, 2, 3, 3), (2, 2), dilation=(5, 4), padding=(2, 2)),
    unfold("all of them", (2, 3, 11, 9), (3, 2), **_ALL),
    unfold("one row", (2, 3, 1, 9), (1, 3), padding=(0, 1)),
    unfold("one column", (2, 3, 9, 1), (3, 1), padding=(1, 0)),
    unfold("a wide image", (1, 2, 20, 150), (3, 3), padding=(1, 1)),
    unfold("large blocks", (1, 1, 24, 24), (9, 9), padding=(4, 4)),
    unfold("steps beyond all", (2, 3, 4), (1, 1), stride=(_FAR, _FAR), dilation=(_FAR, _FAR)),
    unfold("more than a unit", (1, 2, 40, 45), (5, 5), padding=(2, 2)),
    unfold("FLOAT16", _IMAGE, (3, 2), dtypes=(FLOAT16, FLOAT16)),
    unfold("BF16", _IMAGE, (3, 2), dtypes=(BF16, BF16)),
    unfold("FLOAT16 into FLOAT", _IMAGE, (3, 2), dtypes=(FLOAT16, FLOAT), padding=(1, 1)),
    unfold("FLOAT into FLOAT16", _IMAGE, (3, 2), dtypes=(FLOAT, FLOAT16), padding=(1, 1)),
    unfold("BF16 into FLOAT16", _IMAGE, (3, 2), dtypes=(BF16, FLOAT16)),
    unfold("FLOAT into BF16", _IMAGE, (3, 2), dtypes=(FLOAT, BF16)),
    unfold("FLOAT16 into FLOAT, 3-D form", (3, 6, 7), (3, 2), dtypes=(FLOAT16, FLOAT)),
    unfold(
        "more than a unit into BF16", (1, 2, 40, 45), (5, 5), padding=(2, 2), dtypes=(FLOAT, BF16)
    ),
    unfold("FLOAT16 overflows", _IMAGE, (3, 2), values=Values.LARGE, dtypes=(FLOAT, FLOAT16)),
    unfold(
        "image with gaps",
        _IMAGE,
        (3, 2),
        layout={"self": {"strides": (300, 100, 15, 2), "offset": 1}},
    ),
    unfold(
        "image channels last",
        _IMAGE,
        (3, 2),
        layout={"self": {"strides": (126, 1, 21, 3), "offset": 2}},
        dtypes=(BF16, BF16),
        padding=(1, 0),
    ),
    unfold(
        "image repeated over the batch", _IMAGE, (3, 2), layout={"self": {"strides": (0, 42, 7, 1)}}
    ),
    unfold(
        "image of one element",
        (3, 6, 7),
        (3, 2),
        layout={"self": {"strides": (0, 0, 0), "offset": 1}},
    ),
    unfold(
        "columns with gaps",
        _IMAGE,
        (3, 2),
        layout={"out": {"strides": (1000, 50, 2), "offset": 3}},
        dtypes=(FLOAT16, FLOAT16),
    ),
    unfold("columns transposed", _IMAGE, (3, 2), layout={"out": {"strides": (432, 1, 18)}}),
    unfold(
        "columns transposed into BF16",
        _IMAGE,
        (3, 2),
        layout={"out": {"strides": (432, 1, 18), "offset": 2}},
        dtypes=(FLOAT, BF16),
        stride=(1, 1),
    ),
    unfold("image in format NHWC", _IMAGE, (3, 2), layout={"self": {"format": Format.NHWC}}),
    unfold("no entries", (0, 3, 6, 7), (3, 2)),
    unfold("integers", (2, 3, 8, 8), (3, 3), padding=(1, 1), values=Values.INTEGERS),
    unfold("NaN and infinity", (2, 3, 8, 8), (3, 3), padding=(1, 1), values=Values.SPECIAL),
    unfold(
        "NaN and infinity into FLOAT16",
        (2, 3, 8, 8),
        (3, 3),
        values=Values.SPECIAL,
        dtypes=(FLOAT, FLOAT16),
    ),
    unfold("FLOAT on 910", _IMAGE, (3, 2), profile="ascend910"),
    unfold("BF16 on 910", _IMAGE, (3, 2), dtypes=(BF16, BF16), profile="ascend910"),
    unfold("no entries on 910", (0, 3, 6, 7), (3, 2), profile="ascend910"),
    unfold(
        "FLOAT saturates in FLOAT16",
        _IMAGE,
        (3, 2),
        values=Values.SPECIAL,
        dtypes=(FLOAT, FLOAT16),
        profile="ascend910",
    ),
    unfold(
        "infinity of FLOAT16 stays",
        _IMAGE,
        (3, 2),
        values=Values.SPECIAL,
        dtypes=(FLOAT16, FLOAT16),
        profile="ascend910",
    ),
    unfold("DOUBLE", _IMAGE, (3, 2), dtypes=(DOUBLE, DOUBLE), profile="reference"),
    unfold("DOUBLE, 3-D form", (3, 6, 7), (3, 2), dtypes=(DOUBLE, DOUBLE), profile="reference"),
    unfold("DOUBLE into BF16", _IMAGE, (3, 2), dtypes=(DOUBLE, BF16), profile="reference"),
    unfold(
        "FLOAT16 into DOUBLE",
        (2, 3, 11, 9),
        (3, 2),
        dtypes=(FLOAT16, DOUBLE),
        profile="reference",
        **_ALL,
    ),
    unfold(
        "all of them in DOUBLE",
        (2, 3, 11, 9),
        (3, 2),
        dtypes=(DOUBLE, DOUBLE),
        profile="reference",
        **_ALL,
    ),
    unfold(
        "DOUBLE with gaps",
        _IMAGE,
        (3, 2),
        dtypes=(DOUBLE, DOUBLE),
        layout={
            "self": {"strides": (300, 100, 15, 2), "offset": 1},
            "out": {"strides": (1000, 50, 2), "offset": 3},
        },
        profile="reference",
    ),
)

_ARRAYS = ("kernel_size", "dilation", "padding", "stride")


def _broken(rule: str, parameter: str, **changes: Any) -> ErrorSample:
    return ErrorSample(
        rule=rule,
        sample=_BASE.but(f"{parameter}: {rule}", **changes),
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
    )


def _tensor(name: str, **changes: Any) -> TensorSample:
    tensor = _BASE.tensors[name]
    assert tensor is not None
    return replace(tensor, **changes)


ERROR_SAMPLES: tuple[ErrorSample, ...] = (
    *(
        replace(_broken("missing", name, **{name: None}), status=Status.ACLNN_ERR_PARAM_NULLPTR)
        for name in ("self", *_ARRAYS, "out")
    ),
    *(
        _broken(
            "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE",
            name,
            **{name: _tensor(name, dtype=dtype)},
        )
        for name, dtype in (("self", DataType.INT32), ("out", DOUBLE))
    ),
    _broken("not 3 or 4 dimensions", "self", self=_tensor("self", shape=(2, 3, 6, 7, 1))),
    _broken(
        "a size but the number of entries is 0",
        "self",
        self=_tensor("self", shape=(2, 3, 0, 7)),
        padding=(3, 0),
    ),
    *(_broken("not two values", name, **{name: (1, 1, 1)}) for name in _ARRAYS),
    _broken("a value below 1", "kernel_size", kernel_size=(0, 2)),
    _broken("a value below 1", "stride", stride=(1, 0)),
    _broken("a value below 1", "dilation", dilation=(0, 1)),
    _broken("a negative value", "padding", padding=(-1, 0)),
    _broken("a block does not fit on the padded image", "kernel_size", dilation=(3, 1)),
    _broken("shape is not that of the columns", "out", out=_tensor("out", shape=(2, 18, 25))),
)
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = (
    *(
        _broken("format is not ND", name, **{name: _tensor(name, format=Format.NCHW)})
        for name in ("self", "out")
    ),
    ErrorSample(
        rule="ascend910, a product that the page does not list",
        sample=replace(_BASE, name="profile: not on the page", profile="ascend910"),
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter="profile",
    ),
)
"""Calls that break a rule of the page, which is a warning by default."""
