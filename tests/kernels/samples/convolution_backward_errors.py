"""Calls of aclnnConvolutionBackward that must be refused: one for every row of its error table.

A row that names no profile holds on all of them, and so its call is in FLOAT16, which all have.
"""

from dataclasses import replace
from typing import Any

from kernels.samples.convolution_backward import convolution
from kernels.samples.convolution_backward_limits import LIMIT_ERRORS
from kernels.samples.sample import ErrorSample, Sample, TensorSample
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

NULL, INVALID = Status.ACLNN_ERR_PARAM_NULLPTR, Status.ACLNN_ERR_PARAM_INVALID
_HALF = (DataType.FLOAT16,) * 3
_OLDER = {"profile": "ascend910"}

BASE = convolution("2-D", (2, 4, 6, 7), (6, 4, 3, 2), dtypes=_HALF)
BASE_3D = convolution("3-D", (2, 4, 4, 5, 6), (6, 4, 2, 3, 2), dtypes=_HALF)
_TRANSPOSED = convolution(
    "transposed", (2, 4, 4, 5), (4, 6, 3, 2), stride=(2, 2), transposed=True, dtypes=_HALF
)
_TRANSPOSED_3D = convolution(
    "transposed in 3-D",
    (1, 2, 3, 3, 3),
    (2, 2, 2, 2, 2),
    stride=(2, 2, 2),
    transposed=True,
    dtypes=_HALF,
)
_EMPTY = convolution("empty", (0, 4, 6, 7), (6, 4, 3, 2), dtypes=_HALF)
_EMPTY_TRANSPOSED = convolution(
    "empty transposed", (0, 4, 4, 5), (4, 6, 3, 2), transposed=True, dtypes=_HALF
)
_GROUPED_3D = convolution("3-D with groups", (1, 4, 4, 4, 4), (4, 2, 2, 2, 2), groups=2)
_ON_910 = convolution("on 910", (2, 4, 6, 7), (6, 4, 3, 2), dtypes=_HALF, **_OLDER)


def tensor_of(sample: Sample, name: str, **changes: Any) -> TensorSample:
    """A tensor of a sample, changed."""
    tensor = sample.tensors[name]
    assert tensor is not None
    return replace(tensor, **changes)


def _refused(rule: str, parameter: str, sample: Sample, **changes: Any) -> ErrorSample:
    broken = sample.but(f"{parameter}: {rule}", **changes)
    return ErrorSample(rule=rule, sample=broken, status=INVALID, parameter=parameter)


def _missing(rule: str, parameter: str, sample: Sample = BASE) -> ErrorSample:
    broken = sample.but(f"{parameter}: {rule}", **{parameter: None})
    return ErrorSample(rule=rule, sample=broken, status=NULL, parameter=parameter)


def _flattened(sample: Sample, name: str) -> TensorSample:
    return tensor_of(sample, name, shape=(2, 8))


def _shape(sample: Sample, name: str) -> tuple[int, ...]:
    return tensor_of(sample, name).shape


_INPUTS = ("grad_output", "input", "weight")
_GRADIENTS = ("grad_input", "grad_weight", "grad_bias")
_ARRAYS = ("stride", "padding", "dilation", "output_padding")

_NULLS = (
    *(_missing("missing", name) for name in (*_INPUTS, "stride", "padding", "dilation")),
    *(_missing("missing", name) for name in ("transposed", "output_padding", "groups")),
    *(_missing("missing", name) for name in ("output_mask", "cube_math_type")),
    ErrorSample(
        rule="not three values",
        sample=BASE.but("output_mask: not three values", output_mask=(True, True)),
        status=NULL,
        parameter="output_mask",
    ),
    *(_missing("missing where output_mask asks for it", name) for name in _GRADIENTS),
)
_DTYPES = (
    *(
        _refused(
            "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE",
            name,
            BASE,
            **{name: tensor_of(BASE, name, dtype=DataType.INT8)},
        )
        for name in (*_INPUTS, *_GRADIENTS)
    ),
    *(
        _refused(
            "dtype is BF16 on ascend910 and ascend310p",
            name,
            _ON_910,
            **{name: tensor_of(_ON_910, name, dtype=DataType.BF16)},
        )
        for name in (*_INPUTS, *_GRADIENTS)
    ),
)
_FORMATS = (
    *(
        _refused("not 3, 4 or 5 dimensions", name, BASE, **{name: _flattened(BASE, name)})
        for name in (*_INPUTS, *_GRADIENTS[:2])
    ),
    *(
        _refused(
            "format is not that of its dimensions: 3 NCL or ND, 4 NCHW, 5 NCDHW",
            name,
            BASE,
            **{name: tensor_of(BASE, name, format=Format.NHWC)},
        )
        for name in (*_INPUTS, *_GRADIENTS[:2])
    ),
    _refused(
        "format is not ND, transposed is false, on ascend910b",
        "grad_bias",
        BASE,
        grad_bias=tensor_of(BASE, "grad_bias", format=Format.NCHW),
    ),
)
_SCALARS = (
    _refused("a value below 1", "stride", BASE, stride=(1, 0)),
    _refused("a negative value", "padding", BASE, padding=(0, -1)),
    _refused("a value below 1", "dilation", BASE, dilation=(0, 1)),
    _refused("a negative value", "output_padding", _TRANSPOSED, output_padding=(0, -1)),
    _refused("not below stride in 3-D", "output_padding", _TRANSPOSED_3D, output_padding=(0, 2, 0)),
    _refused("not zero, transposed is false", "output_padding", BASE, output_padding=(0, 1)),
    _refused("below 1", "groups", BASE, groups=0),
    _refused("not 0, 1, 2 or 3", "cube_math_type", BASE, cube_math_type=4),
    _refused(
        "0 or 3 with FLOAT on ascend910 and ascend310p",
        "cube_math_type",
        convolution("FLOAT", (2, 4, 6, 7), (6, 4, 3, 2), cube_math_type=3, **_OLDER),
    ),
)
_TAKING_EMPTY = "on ascend910b and reference"
_EMPTINESS = (
    _refused(
        f"missing or not the channels, output_mask[2], input is empty {_TAKING_EMPTY}",
        "bias_sizes",
        _EMPTY,
        bias_sizes=None,
    ),
    _refused(
        f"empty, but neither its N nor its C is 0, {_TAKING_EMPTY}",
        "input",
        convolution("no height", (2, 3, 0, 7), (4, 3, 1, 1), padding=(1, 0)),
    ),
    _refused(
        f"dimension 0 is not a multiple of groups, input is empty {_TAKING_EMPTY}",
        "weight",
        convolution("no entries", (0, 4, 6, 7), (5, 2, 3, 2), groups=2),
    ),
    _refused(
        f"empty, but not for want of input's channels, {_TAKING_EMPTY}",
        "weight",
        convolution("no kernels", (2, 4, 6, 7), (0, 4, 3, 2)),
    ),
    _refused(
        f"dimension 1 is not the channels of weight and groups, input is empty {_TAKING_EMPTY}",
        "grad_output",
        _EMPTY_TRANSPOSED,
        grad_output=tensor_of(_EMPTY_TRANSPOSED, "grad_output", shape=(0, 5, 6, 6)),
        grad_bias=tensor_of(_EMPTY_TRANSPOSED, "grad_bias", shape=(5,)),
    ),
    _refused(
        "empty on ascend910 and ascend310p",
        "input",
        convolution("no entries", (0, 4, 6, 7), (6, 4, 3, 2), dtypes=_HALF, **_OLDER),
    ),
    _refused(
        "empty on ascend910 and ascend310p",
        "weight",
        convolution("no kernels", (2, 4, 6, 7), (0, 4, 3, 2), dtypes=_HALF, **_OLDER),
    ),
    _refused(
        "empty, though input is not",
        "grad_output",
        BASE,
        grad_output=tensor_of(BASE, "grad_output", shape=(0, 6, 4, 6)),
    ),
)
_SHAPES = (
    _refused(
        "not as many dimensions as input",
        "grad_output",
        BASE,
        grad_output=tensor_of(BASE, "grad_output", shape=(2, 6, 4), format=Format.NCL),
    ),
    _refused(
        "not as many dimensions as input",
        "weight",
        BASE,
        weight=tensor_of(BASE, "weight", shape=(6, 4, 3), format=Format.NCL),
    ),
    _refused(
        "shape is not that of input",
        "grad_input",
        BASE,
        grad_input=tensor_of(BASE, "grad_input", shape=(2, 4, 6, 6)),
    ),
    _refused(
        "shape is not that of weight",
        "grad_weight",
        BASE,
        grad_weight=tensor_of(BASE, "grad_weight", shape=(4, 6, 3, 2)),
    ),
    _refused(
        "shape is not the channels of grad_output",
        "grad_bias",
        BASE,
        grad_bias=tensor_of(BASE, "grad_bias", shape=(4,)),
    ),
    *(
        _refused("not a value for each spatial dimension", name, BASE, **{name: (values,) * 3})
        for name, values in zip(_ARRAYS, (1, 0, 1, 0), strict=True)
    ),
    _refused("four values", "output_padding", BASE, output_padding=(0, 0, 0, 0)),
)
_CHANNELS = (
    _refused(
        "dimension 0 is not the channels of grad_output, or of input if transposed",
        "weight",
        BASE,
        weight=tensor_of(BASE, "weight", shape=(5, 4, 3, 2)),
        grad_weight=tensor_of(BASE, "grad_weight", shape=(5, 4, 3, 2)),
    ),
    _refused(
        "dimension 1 does not divide the channels of input, or of grad_output if transposed",
        "weight",
        BASE,
        weight=tensor_of(BASE, "weight", shape=(6, 3, 3, 2)),
        grad_weight=tensor_of(BASE, "grad_weight", shape=(6, 3, 3, 2)),
    ),
    _refused("not those channels divided by weight's dimension 1", "groups", BASE, groups=2),
    _refused(
        "does not divide weight's dimension 0",
        "groups",
        convolution("odd groups", (2, 4, 6, 7), (5, 2, 3, 2), groups=2, dtypes=_HALF),
    ),
)
_SPATIAL = (
    *(
        _refused(f"smaller than the dilated kernel in {dimensions}", "input", sample, **changes)
        for dimensions, sample, changes in (
            ("3-D", BASE_3D, {"dilation": (4, 1, 1)}),
            ("1-D or 2-D", BASE, {"dilation": (3, 1)}),
        )
    ),
    _refused(
        "smaller than the dilated kernel in 3-D, transposed",
        "grad_output",
        _TRANSPOSED_3D,
        dilation=(1, 6, 1),
    ),
    *(
        _refused(
            f"spatial sizes are not those of the convolution in {dimensions}",
            "grad_output",
            sample,
            stride=(2,) * (len(_shape(sample, "input")) - 2),
        )
        for dimensions, sample in (("3-D", BASE_3D), ("1-D or 2-D", BASE))
    ),
    _refused(
        "spatial sizes do not lead back to those of input in 3-D, transposed",
        "grad_output",
        _TRANSPOSED_3D,
        stride=(2, 1, 2),
    ),
    _refused(
        "spatial sizes are not exactly those of the convolution, transposed",
        "grad_output",
        _TRANSPOSED,
        grad_output=tensor_of(_TRANSPOSED, "grad_output", shape=(2, 6, 9, 11)),
    ),
    _refused(
        "3-D on ascend910 and ascend310p",
        "input",
        convolution("3-D", (2, 4, 4, 5, 6), (6, 4, 2, 3, 2), dtypes=_HALF, **_OLDER),
    ),
    _refused(
        "FLOAT in 3-D with groups computed in 16 bits on ascend910b",
        "grad_weight",
        _GROUPED_3D,
        cube_math_type=2,
    ),
)
_DOCUMENTED = (
    _refused(
        "not below stride in 1-D or 2-D", "output_padding", _TRANSPOSED, output_padding=(2, 0)
    ),
    _refused(
        "N is not that of input",
        "grad_output",
        BASE,
        grad_output=tensor_of(BASE, "grad_output", shape=(3, 6, 4, 6)),
    ),
    _refused(
        "not the channels, output_mask asks for grad_bias", "bias_sizes", BASE, bias_sizes=(4,)
    ),
)

ERROR_SAMPLES: tuple[ErrorSample, ...] = (
    *_NULLS,
    *_DTYPES,
    *_FORMATS,
    *_SCALARS,
    *_EMPTINESS,
    *_SHAPES,
    *_CHANNELS,
    *_SPATIAL,
    *_DOCUMENTED,
    *LIMIT_ERRORS,
)
