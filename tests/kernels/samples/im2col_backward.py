"""Calls of aclnnIm2colBackward: those that must succeed, and one for every row of its error table."""

from dataclasses import replace
from typing import Any

from kernels.samples.sample import ErrorSample, Sample, TensorSample, Values
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
DOUBLE = DataType.DOUBLE
Shape = tuple[int, ...]
Pair = tuple[int, int]


def image(name: str, out: Shape, kernel_size: Pair, **changes: Any) -> Sample:
    """A call with stride 1 and no padding, in float32, unless changed.

    Args:
        name: Of the sample.
        out: Shape of the image.
        kernel_size: Of a block.
        changes: Scalars, `dtypes` of grad_output and out, `values`, the `layout` of either, and
            `profile`.
    """
    dtypes = changes.pop("dtypes", (FLOAT, FLOAT))
    values = changes.pop("values", Values.NORMAL)
    profile = changes.pop("profile", "ascend910b")
    layout: dict[str, Any] = changes.pop("layout", {})
    scalars: dict[str, Any] = {
        "input_size": out[-2:],
        "kernel_size": kernel_size,
        "dilation": (1, 1),
        "padding": (0, 0),
        "stride": (1, 1),
        **changes,
    }
    length = 1
    for axis in range(2):
        reach = scalars["dilation"][axis] * (kernel_size[axis] - 1) + 1
        free = out[axis - 2] + 2 * scalars["padding"][axis] - reach
        length *= free // scalars["stride"][axis] + 1
    columns = (*out[:-3], out[-3] * kernel_size[0] * kernel_size[1], length)
    tensors: dict[str, TensorSample | None] = {
        "grad_output": TensorSample(shape=columns, dtype=dtypes[0], values=values),
        "out": TensorSample(shape=out, dtype=dtypes[1]),
    }
    for tensor_name, steps in layout.items():
        tensor = tensors[tensor_name]
        assert tensor is not None
        tensors[tensor_name] = replace(tensor, **steps)
    return Sample(
        name=name, operator="im2col_backward", tensors=tensors, scalars=scalars, profile=profile
    )


_FAR = 2**60  # beyond every image, within 64 bits
_LARGE: dict[str, Any] = {"values": Values.LARGE, "profile": "ascend910"}
_EXACT: dict[str, Any] = {
    "stride": (2, 3),
    "padding": (2, 1),
    "dilation": (2, 2),
    "profile": "reference",
}
_BASE = image("3-D form", (2, 3, 6, 7), (3, 2))

SAMPLES: tuple[Sample, ...] = (
    _BASE,
    image("2-D form", (3, 6, 7), (3, 2)),
    image("one of everything", (1, 1, 1, 1), (1, 1)),
    image("kernel of 1", (2, 3, 4, 5), (1, 1)),
    image("block as large as the image", (2, 2, 5, 4), (5, 4)),
    image("stride", (2, 2, 9, 10), (3, 3), stride=(2, 3)),
    image("stride leaves a rest", (1, 2, 9, 9), (2, 3), stride=(4, 5)),
    image("stride beyond the block", (1, 2, 9, 9), (1, 2), stride=(3, 4)),
    image("stride of the block", (2, 3, 8, 6), (4, 3), stride=(4, 3)),
    image("padding", (2, 2, 5, 6), (3, 3), padding=(1, 2)),
    image("padding beyond the block", (1, 2, 3, 4), (2, 2), padding=(3, 4)),
    image("dilation", (2, 2, 9, 11), (3, 3), dilation=(2, 3)),
    image("all of them", (2, 3, 11, 9), (3, 2), stride=(2, 3), padding=(2, 1), dilation=(3, 2)),
    image("one row", (2, 3, 1, 9), (1, 3), padding=(0, 1)),
    image("one column", (2, 3, 9, 1), (3, 1), padding=(1, 0)),
    image("a wide image", (1, 2, 20, 150), (3, 3), padding=(1, 1)),
    image("large blocks", (1, 1, 24, 24), (9, 9), padding=(4, 4)),
    image("FLOAT16", (2, 3, 6, 7), (3, 2), dtypes=(FLOAT16, FLOAT16)),
    image("BF16", (2, 3, 6, 7), (3, 2), dtypes=(BF16, BF16)),
    image("FLOAT16 into FLOAT", (2, 3, 6, 7), (3, 2), dtypes=(FLOAT16, FLOAT)),
    image("FLOAT into FLOAT16", (2, 3, 6, 7), (3, 2), dtypes=(FLOAT, FLOAT16)),
    image("BF16 into FLOAT16", (2, 3, 6, 7), (3, 2), dtypes=(BF16, FLOAT16)),
    image("FLOAT into BF16", (2, 3, 6, 7), (3, 2), dtypes=(FLOAT, BF16)),
    image(
        "columns with gaps",
        (2, 3, 6, 7),
        (3, 2),
        layout={"grad_output": {"strides": (1000, 50, 2), "offset": 3}},
    ),
    image(
        "columns transposed",
        (2, 3, 6, 7),
        (3, 2),
        layout={"grad_output": {"strides": (432, 1, 18)}},
        dtypes=(BF16, BF16),
    ),
    image(
        "columns repeated over the batch",
        (2, 3, 6, 7),
        (3, 2),
        layout={"grad_output": {"strides": (0, 24, 1)}},
    ),
    image(
        "columns of one element",
        (3, 6, 7),
        (3, 2),
        layout={"grad_output": {"strides": (0, 0), "offset": 1}},
    ),
    image(
        "image channels last",
        (2, 3, 6, 7),
        (3, 2),
        layout={"out": {"strides": (126, 1, 21, 3), "offset": 2}},
    ),
    image(
        "image with gaps",
        (2, 3, 6, 7),
        (3, 2),
        layout={"out": {"strides": (300, 100, 15, 2), "offset": 1}},
        dtypes=(FLOAT16, FLOAT16),
    ),
    image("image in format NHWC", (2, 3, 6, 7), (3, 2), layout={"out": {"format": Format.NHWC}}),
    image("no entries", (0, 3, 6, 7), (3, 2)),
    image("no channels", (2, 0, 6, 7), (3, 2)),
    image("integers", (2, 3, 8, 8), (3, 3), padding=(1, 1), values=Values.INTEGERS),
    image("NaN and infinity", (2, 3, 8, 8), (3, 3), padding=(1, 1), values=Values.SPECIAL),
    image("FLOAT16 overflows", (1, 1, 9, 9), (5, 5), values=Values.LARGE, dtypes=(FLOAT, FLOAT16)),
    image("vendor's", (1, 1, 1), (2, 2), padding=(1, 1), stride=(1, 2), values=Values.TENTHS),
    image("steps beyond all", (2, 3, 4), (1, 1), stride=(_FAR, _FAR), dilation=(_FAR, _FAR)),
    image(
        "FLOAT16 saturates in FLOAT16", (1, 1, 9, 9), (5, 5), dtypes=(FLOAT16, FLOAT16), **_LARGE
    ),
    image("FLOAT16 saturates in FLOAT", (1, 1, 9, 9), (5, 5), dtypes=(FLOAT16, FLOAT), **_LARGE),
    image("FLOAT saturates in FLOAT16", (1, 1, 9, 9), (5, 5), dtypes=(FLOAT, FLOAT16), **_LARGE),
    image(
        "infinity saturates",
        (2, 3, 8, 8),
        (3, 3),
        dtypes=(FLOAT16, FLOAT16),
        values=Values.SPECIAL,
        profile="ascend910",
    ),
    image("FLOAT on 910", (2, 3, 6, 7), (3, 2), profile="ascend910"),
    image("no entries on 910", (0, 3, 6, 7), (3, 2), profile="ascend910"),
    image("DOUBLE", (2, 3, 6, 7), (3, 2), dtypes=(DOUBLE, DOUBLE), profile="reference"),
    image("DOUBLE, 2-D form", (3, 6, 7), (3, 2), dtypes=(DOUBLE, DOUBLE), profile="reference"),
    image("DOUBLE into BF16", (2, 3, 6, 7), (3, 2), dtypes=(DOUBLE, BF16), profile="reference"),
    image("FLOAT16 into DOUBLE", (2, 3, 6, 7), (3, 2), dtypes=(FLOAT16, DOUBLE), **_EXACT),
    image("all of them in DOUBLE", (2, 3, 11, 9), (3, 2), dtypes=(DOUBLE, DOUBLE), **_EXACT),
    image(
        "DOUBLE with gaps",
        (2, 3, 6, 7),
        (3, 2),
        dtypes=(DOUBLE, DOUBLE),
        layout={
            "grad_output": {"strides": (1000, 50, 2), "offset": 3},
            "out": {"strides": (300, 100, 15, 2), "offset": 1},
        },
        profile="reference",
    ),
    image("no channels on reference", (2, 0, 6, 7), (3, 2), profile="reference"),
)

_ARRAYS = ("input_size", "kernel_size", "dilation", "padding", "stride")


def _refused(rule: str, parameter: str, **changes: Any) -> ErrorSample:
    return ErrorSample(
        rule=rule,
        sample=_BASE.but(f"{parameter}: {rule}", **changes),
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
    )


def _on(profile: str, error: ErrorSample) -> ErrorSample:
    return replace(error, sample=replace(error.sample, profile=profile))


def _tensor(name: str, **changes: Any) -> TensorSample:
    tensor = _BASE.tensors[name]
    assert tensor is not None
    return replace(tensor, **changes)


ERROR_SAMPLES: tuple[ErrorSample, ...] = (
    *(
        ErrorSample(
            rule="missing",
            sample=_BASE.but(f"{name}: missing", **{name: None}),
            status=Status.ACLNN_ERR_PARAM_NULLPTR,
            parameter=name,
        )
        for name in ("grad_output", *_ARRAYS, "out")
    ),
    *(
        _refused(
            "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE",
            name,
            **{name: _tensor(name, dtype=DataType.INT32)},
        )
        for name in ("grad_output", "out")
    ),
    *(
        _on(
            "ascend910",
            _refused("dtype is BF16 on ascend910", name, **{name: _tensor(name, dtype=BF16)}),
        )
        for name in ("grad_output", "out")
    ),
    _refused(
        "not 2 or 3 dimensions", "grad_output", grad_output=_tensor("grad_output", shape=(2, 3, 6, 24))
    ),
    _refused("not one dimension more than grad_output", "out", out=_tensor("out", shape=(3, 6, 7))),
    *(_refused("not two values", name, **{name: (1, 1, 1)}) for name in _ARRAYS),
    _refused("a value below 1", "kernel_size", kernel_size=(0, 2)),
    _refused("a value below 1", "stride", stride=(1, 0)),
    _refused("a value below 1", "dilation", dilation=(0, 1)),
    _refused("a negative value", "padding", padding=(-1, 0)),
    _refused(
        "rows are not a multiple of a block's elements",
        "grad_output",
        grad_output=_tensor("grad_output", shape=(2, 19, 24)),
    ),
    _refused("a block does not fit on the padded image", "kernel_size", dilation=(3, 1)),
    _refused(
        "columns are not the positions of the blocks",
        "grad_output",
        grad_output=_tensor("grad_output", shape=(2, 18, 23)),
    ),
    _refused("shape is not that of the image", "out", out=_tensor("out", shape=(2, 3, 7, 6))),
    _refused(
        "a value below 1",
        "input_size",
        input_size=(0, 7),
        padding=(1, 0),
        kernel_size=(1, 2),
        grad_output=_tensor("grad_output", shape=(2, 6, 12)),
        out=_tensor("out", shape=(2, 3, 0, 7)),
    ),
)  # fmt: skip
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = tuple(
    error
    for name in ("grad_output", "out")
    for error in (
        _refused("format is not ND", name, **{name: _tensor(name, format=Format.NCHW)}),
        _refused("dtype is BF16 on ascend910b", name, **{name: _tensor(name, dtype=BF16)}),
    )
)
"""Calls that break a page's rule which the vendor's own tests break: accepted with a warning."""
