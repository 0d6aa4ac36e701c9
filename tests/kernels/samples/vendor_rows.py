"""The vendor's unit tests of phase one, as (arguments, status): shapes, dtypes and codes, no more.

All rows that run for a product which opserve offers: 53 of aclnnConvolutionBackward (hicann/ops-nn,
e5c3fa93) and 31 of aclnnIm2colBackward (hicann/ops-cv, 73227f7c).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernels.samples.sample import Sample, TensorSample
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
NULL, INVALID = Status.ACLNN_ERR_PARAM_NULLPTR, Status.ACLNN_ERR_PARAM_INVALID
_910 = "ascend910"
_NO_BIAS = (True, True, False)
_FORMATS = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}
_IMAGES = ("grad_output", "input", "weight", "grad_input", "grad_weight")
_GRADIENTS = ("grad_input", "grad_weight")
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorRow:
    """A call of a unit test; status None means that it is accepted.

    Attributes:
        sample: The call.
        status: The code that it must be refused with.
        parameter: The parameter that the refusal must name, as the order of the source has it.
    """

    sample: Sample
    status: AnyStatus | None
    parameter: str = ""


def _convolution(input_: Shape, weight: Shape, grad_output: Shape, **changes: Any) -> VendorRow:
    """All tensors have one dtype and the format of their rank, unless changes say otherwise."""
    dtype = changes.pop("dtype", FLOAT16)
    gradients = changes.pop("gradients", dtype)
    formats: Mapping[str, Format] = changes.pop("formats", {})
    parameter = changes.pop("refused", "")
    status = INVALID if parameter else None
    profile = changes.pop("profile", "ascend910b")
    shapes = {
        "grad_output": grad_output,
        "input": input_,
        "weight": weight,
        "grad_input": changes.pop("grad_input", input_),
        "grad_weight": weight,
    }
    tensors = {
        name: TensorSample(
            shape=shape,
            dtype=gradients if name in _GRADIENTS else dtype,
            format=formats.get(name, _FORMATS.get(len(shape), Format.NCHW)),
        )
        for name, shape in shapes.items()
    }
    bias = {"grad_bias": TensorSample(shape=grad_output[1:2], dtype=gradients)}
    sample = Sample(
        name=f"{input_}, {weight}: {status}",
        operator="convolution_backward",
        tensors=tensors | bias,
        scalars=_scalars(grad_output[1:2], len(weight) - 2) | changes,
        profile=profile,
    )
    return VendorRow(sample=sample, status=status, parameter=parameter)


def _scalars(bias_sizes: Shape, axes: int) -> dict[str, Any]:
    return {
        "bias_sizes": bias_sizes,
        "stride": (1,) * axes,
        "padding": (0,) * axes,
        "dilation": (1,) * axes,
        "transposed": False,
        "output_padding": (0,) * axes,
        "groups": 1,
        "output_mask": (True, True, True),
        "cube_math_type": 0,
    }


CONVOLUTIONS: tuple[VendorRow, ...] = (
    _convolution((512, 512, 7, 7), (2048, 512, 1, 1), (512, 2048, 7, 7), profile=_910, bias_sizes=(1,)),
    _convolution((512, 512, 7, 7), (2048, 512, 1, 1), (512, 2048, 7, 7), profile=_910, dtype=FLOAT, bias_sizes=(1,), cube_math_type=1),
    _convolution((512, 512, 7, 7), (2048, 512, 1, 1), (512, 2048, 7, 7), profile=_910, dtype=FLOAT, bias_sizes=(1,), cube_math_type=2),
    _convolution((16, 16, 16), (8, 16, 3), (16, 8, 16), profile=_910, bias_sizes=(1,), padding=(1,)),
    _convolution((16, 16, 16), (8, 16, 3), (16, 8, 16), profile=_910, bias_sizes=(1,), padding=(1,), formats={"input": Format.NCHW}, refused="input"),
    _convolution((16, 16, 0, 16), (16, 16, 3, 3), (16, 16, 32, 8), profile=_910, stride=(1, 2), padding=(1, 2), dilation=(1, 2), grad_input=(), refused="grad_input"),
    _convolution((512, 512, 7, 7), (2048, 512, 1, 1), (512, 2048, 7, 7), dtype=FLOAT),
    _convolution((512, 512, 7, 7), (2048, 512, 1, 1), (512, 2048, 7, 7), dtype=FLOAT, cube_math_type=3),
    _convolution((512, 512, 4, 4), (2048, 512, 1, 1), (512, 2048, 2, 2), dtype=FLOAT, stride=(3, 3), padding=(1, 1)),
    _convolution((512, 512, 7, 7), (2048, 512, 1, 1), (512, 2048, 7, 7), dtype=BF16),
    _convolution((512, 512, 7, 7, 7), (512, 512, 1, 1, 1), (512, 512, 7, 7, 7), dtype=BF16),
    _convolution((512, 512, 7, 7, 7), (512, 512, 1, 1, 1), (512, 512, 7, 7, 7), dtype=FLOAT, bias_sizes=(1,)),
    _convolution((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1), dtype=FLOAT, stride=(0, 1, 1), padding=(-1, 0, 0), dilation=(0, 1, 1), refused="stride"),
    _convolution((512, 512, 7, 7, 7), (512, 512, 1, 1, 1), (512, 512, 7, 7, 7)),
    _convolution((8, 64, 2, 14, 14), (512, 64, 1, 1, 1), (8, 512, 2, 14, 14), output_mask=_NO_BIAS),
    _convolution((1, 128, 18, 225, 225), (256, 128, 3, 3, 3), (1, 256, 6, 75, 75), stride=(3, 3, 3), output_mask=_NO_BIAS),
    _convolution((128, 128, 7, 7, 7), (128, 1, 1, 1, 1), (128, 128, 7, 7, 7), dtype=BF16, groups=128),
    _convolution((512, 512, 7, 7, 7), (512, 512, 1, 1, 1), (512, 512, 7, 7, 7), dtype=BF16, formats=dict.fromkeys(_IMAGES, Format.NDHWC), refused="grad_output"),
    _convolution((1, 16, 1, 10, 10), (16, 16, 1, 3, 3), (1, 16, 1, 6, 6), dtype=BF16, dilation=(1, 2, 2)),
    _convolution((1, 16, 1, 10, 10), (16, 16, 1, 3, 4), (1, 16, 1, 8, 3), dtype=BF16, stride=(1, 1, 3)),
    _convolution((1, 16, 1, 10, 10), (16, 16, 1, 4, 4), (1, 16, 1, 7, 13), dtype=BF16, padding=(0, 0, 3)),
    _convolution((1, 16, 1, 10, 10), (16, 16, 1, 5, 5), (1, 16, 1, 6, 6), dtype=BF16),
    _convolution((1, 16, 11, 10, 10), (16, 16, 1, 2, 2), (1, 16, 6, 5, 5), dtype=BF16, stride=(2, 2, 2)),
    _convolution((1, 16, 15, 10, 10), (16, 16, 2, 1, 1), (1, 16, 7, 10, 10), dtype=BF16, stride=(2, 1, 1)),
    _convolution((1, 16, 1, 10, 10), (16, 16, 1, 3, 3), (1, 16, 1, 10, 10), dtype=BF16, padding=(0, 1, 1)),
    _convolution((1, 16, 2, 10, 10), (16, 16, 1, 3, 3), (1, 16, 2, 10, 10), dtype=BF16, padding=(0, 1, 1)),
    _convolution((128, 128, 7, 7, 7), (128, 1, 1, 1, 1), (128, 128, 7, 7, 7), dtype=BF16, groups=128, output_mask=(False, True, False), gradients=FLOAT, refused="grad_weight"),
    _convolution((128, 128, 7, 7, 7), (128, 1, 1, 1, 1), (128, 128, 7, 7, 7), dtype=FLOAT, groups=128, output_mask=(False, True, False), cube_math_type=2, refused="grad_weight"),
    _convolution((4, 320, 80, 80), (320, 320, 3, 3), (4, 320, 80, 80), dtype=FLOAT, padding=(1, 1), output_mask=(True, False, False)),
    _convolution((1, 640, 104, 152), (640, 640, 3, 3), (1, 640, 104, 152), padding=(1, 1), output_mask=(False, True, False)),
    _convolution((1, 16, 2, 10, 10), (16, 16, 1, 3, 3), (1, 16, 2, 10, 10), dtype=BF16, padding=(0, 1, 1), cube_math_type=2),
    _convolution((1, 16, 2, 10, 10), (16, 16, 1, 3, 3), (1, 16, 2, 10, 10), dtype=BF16, padding=(0, 1, 1), cube_math_type=3),
    _convolution((1, 16, 2, 10, 10), (16, 16, 1, 3, 3), (1, 16, 2, 10, 10), padding=(0, 1, 1), cube_math_type=3),
    _convolution((1, 512, 4099, 1, 16), (512, 1, 4, 1, 1), (1, 512, 4096, 1, 16), dtype=FLOAT, groups=512),
    _convolution((1, 16, 10, 10), (16, 16, 3, 3), (1, 16, 10, 10), padding=(1, 1), groups=0, refused="groups"),
    _convolution((1, 16, 10, 10), (17, 16, 3, 3), (1, 17, 10, 10), padding=(1, 1), groups=2, refused="groups"),
    _convolution((0, 0), (16, 16, 3, 3), (1, 16, 10, 10), padding=(1, 1), refused="input"),
    _convolution((1, 16, 10), (16, 16, 3), (1, 16, 10, 10), padding=(1,), refused="grad_output"),
    _convolution((0, 16, 10, 10), (16, 16, 3, 3), (0, 16, 10, 10), bias_sizes=None, padding=(1, 1), refused="bias_sizes"),
    _convolution((1, 16, 10, 10), (16, 16, 3, 3), (0, 16, 8, 8), padding=(1, 1), refused="grad_output"),
    _convolution((1, 16, 10, 10), (0, 16, 3, 3), (1, 16, 8, 8), padding=(1, 1), refused="weight"),
    _convolution((4, 16, 16), (16, 8, 3), (4, 8, 16), padding=(1,), transposed=True),
    _convolution((1, 16, 7, 7), (16, 16, 3, 3), (1, 16, 7, 7), dtype=FLOAT, padding=(1, 1), transposed=True, output_mask=(False, True, False)),
    _convolution((1, 16, 1, 7, 7), (16, 16, 1, 3, 3), (1, 16, 1, 7, 7), padding=(0, 1, 1), transposed=True),
    _convolution((1, 16, 1, 7, 7), (16, 16, 1, 3, 3), (1, 16, 1, 7, 7), dtype=FLOAT, padding=(0, 1, 1), transposed=True),
    _convolution((1, 16, 1, 7, 7), (16, 16, 1, 3, 3), (1, 16, 1, 7, 7), dtype=BF16, padding=(0, 1, 1), transposed=True),
    _convolution((1, 16, 14, 14), (32, 16, 3, 3), (1, 32, 5, 5), stride=(3, 3), padding=(1, 1)),
    _convolution((1, 16, 14, 14), (32, 16, 3, 3), (1, 32, 5, 5), dtype=FLOAT, stride=(3, 3), padding=(1, 1, 1, 1), output_padding=(0, 0, 0, 0)),
    _convolution((1, 16, 4, 14), (32, 16, 3, 3), (1, 32, 1, 5), dtype=FLOAT, stride=(10, 3), padding=(0, 1)),
    _convolution((1, 16, 14, 4), (32, 16, 3, 3), (1, 32, 5, 1), stride=(3, 10), padding=(1, 0)),
    _convolution((1024, 3, 224, 224), (1024, 3, 16, 16), (1024, 1024, 14, 14), stride=(16, 16), output_mask=_NO_BIAS),
    _convolution((1, 4, 2, 2, 2), (6, 4, 2, 2, 2), (1, 6, 1, 1, 1), output_mask=(False, True, False)),
    _convolution((1, 16, 2, 10, 10), (16, 16, 1, 3, 3), (1, 16, 2, 10, 10), dtype=FLOAT, padding=(0, 1, 1), cube_math_type=3),
)  # fmt: skip

_SIZES: dict[str, Any] = {
    "input_size": (10, 12),
    "kernel_size": (4, 5),
    "dilation": (1, 1),
    "padding": (0, 0),
    "stride": (1, 1),
}


def _fold(
    grad_output: Shape,
    out: Shape,
    *dtypes: DataType,
    formats: tuple[Format, Format] = (Format.ND, Format.ND),
    refused: str = "",
    profile: str = "ascend910",
    **changes: Any,
) -> VendorRow:
    status, parameter = INVALID if refused else None, refused
    given, made = (FLOAT, FLOAT, *dtypes)[-2:]
    tensors = {
        "grad_output": TensorSample(shape=grad_output, dtype=given, format=formats[0]),
        "out": TensorSample(shape=out, dtype=made, format=formats[1]),
    }
    sample = Sample(
        name=f"{grad_output}, {out}: {status}",
        operator="im2col_backward",
        tensors=tensors,
        scalars=_SIZES | changes,
        profile=profile,
    )
    return VendorRow(sample=sample, status=status, parameter=parameter)


def _strided(row: VendorRow) -> VendorRow:
    """The same with the columns of grad_output side by side."""
    columns = row.sample.tensors["grad_output"]
    assert columns is not None
    laid = replace(columns, strides=(1, columns.shape[0]))
    return replace(row, sample=row.sample.but(row.sample.name, grad_output=laid))


def _without(name: str) -> VendorRow:
    """A null pointer for an argument."""
    row = _fold(_ROWS, _IMAGE, formats=_SAME, refused=name)
    return replace(row, sample=row.sample.but(f"no {name}", **{name: None}), status=NULL)


_ROWS, _IMAGE = (1, 60, 56), (1, 3, 10, 12)
_FLAT = (60, 56), (3, 10, 12)
_FEW, _SMALL = (1, 12, 12), (1, 3, 4, 5)
_IN_NCL = (Format.ND, Format.NCL)
_SMALL_SIZES: dict[str, Any] = {"input_size": (4, 5), "kernel_size": (2, 2)}
_A2: dict[str, Any] = {"profile": "ascend910b"}
_SAME = (Format.NCHW, Format.NCHW)
_ALL_SIZES: dict[str, Any] = dict.fromkeys(_SIZES, (10, 12))
_NO_ENTRIES = (0, 60, 56), (0, 3, 10, 12)


def _with(sizes: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**sizes, **changes}


FOLDS: tuple[VendorRow, ...] = (
    _fold(*_NO_ENTRIES, formats=_SAME),
    _fold(_ROWS, _IMAGE),
    _strided(_fold(*_FLAT, formats=_IN_NCL)),
    _fold(_ROWS, _IMAGE),  # with other values
    _fold(_FEW, _SMALL, FLOAT16, FLOAT16, **_SMALL_SIZES),
    _fold(_FEW, _SMALL, BF16, BF16, **_SMALL_SIZES, **_A2),
    _fold(_FEW, _SMALL, FLOAT16, FLOAT, **_SMALL_SIZES),
    _fold(_FEW, _SMALL, BF16, FLOAT, **_SMALL_SIZES, **_A2),
    _fold(*_FLAT, formats=_IN_NCL),
    *(_fold(_ROWS, _IMAGE, formats=(tag, tag)) for tag in (Format.NCHW, Format.NHWC, Format.HWCN)),
    _fold((7, 9, 11), (1, 3, 10), formats=(Format.NCDHW, Format.NCDHW), refused="out"),
    *(
        _fold(_ROWS, _IMAGE, formats=_SAME, refused=name, **_with(_ALL_SIZES, {name: (4, 5, 1)}))
        for name in _SIZES
    ),
    _fold(
        (7, 9, 11, 3, 4, 6, 9, 2, 2),
        _IMAGE,
        formats=(Format.NCDHW, Format.NCDHW),
        refused="grad_output.shape",
    ),
    *(_without(name) for name in ("grad_output", *_SIZES, "out")),
    _fold(_ROWS, _IMAGE, DataType.UINT32, DataType.UINT32, formats=_SAME, refused="grad_output"),
    *(
        _fold(_FEW, _SMALL, FLOAT16, FLOAT16, refused=name, **_with(_SMALL_SIZES, {name: negative}))
        for name, negative in (
            ("kernel_size", (-2, 2)),
            ("dilation", (-1, 1)),
            ("stride", (1, -1)),
        )
    ),
    _strided(_fold(*_FLAT, formats=_IN_NCL, padding=(0, -1), refused="padding")),
)
VENDOR_ROWS: tuple[VendorRow, ...] = (*CONVOLUTIONS, *FOLDS)
