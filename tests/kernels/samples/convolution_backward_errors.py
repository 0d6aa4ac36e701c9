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
_BASE_1D = convolution("1-D", (2, 4, 7), (6, 4, 2), dtypes=_HALF)
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
EMPTY = convolution("empty", (0, 4, 6, 7), (6, 4, 3, 2), dtypes=_HALF)
EMPTY_TRANSPOSED = convolution(
    "empty transposed", (0, 4, 4, 5), (4, 6, 3, 2), transposed=True, dtypes=_HALF
)
_GROUPED_3D = convolution("3-D with groups", (1, 4, 4, 4, 4), (4, 2, 2, 2, 2), groups=2)
_ON_910 = convolution("on 910", (2, 4, 6, 7), (6, 4, 3, 2), dtypes=_HALF, **_OLDER)


def tensor_of(sample: Sample, name: str, **changes: Any) -> TensorSample:
    """A tensor of a sample, changed."""
    tensor = sample.tensors[name]
    assert tensor is not None
    return replace(tensor, **changes)


def refused(rule: str, parameter: str, sample: Sample, **changes: Any) -> ErrorSample:
    """A call that breaks a rule, refused with 161002."""
    broken = sample.but(f"{parameter}: {rule}", **changes)
    return ErrorSample(rule=rule, sample=broken, status=INVALID, parameter=parameter)


def _missing(rule: str, parameter: str, sample: Sample = BASE) -> ErrorSample:
    broken = sample.but(f"{parameter}: {rule}", **{parameter: None})
    return ErrorSample(rule=rule, sample=broken, status=NULL, parameter=parameter)


def _flattened(sample: Sample, name: str) -> TensorSample:
    return tensor_of(sample, name, shape=(2, 8))


def _shape(sample: Sample, name: str) -> tuple[int, ...]:
    return tensor_of(sample, name).shape


_ON_PRODUCTS = "on ascend910b and ascend910 and ascend310p"
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
        refused(
            "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE",
            name,
            BASE,
            **{name: tensor_of(BASE, name, dtype=DataType.INT8)},
        )
        for name in (*_INPUTS, *_GRADIENTS)
    ),
    *(
        refused(
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
        refused("not 3, 4 or 5 dimensions", name, BASE, **{name: _flattened(BASE, name)})
        for name in (*_INPUTS, *_GRADIENTS[:2])
    ),
    *(
        refused(
            "format is not that of its dimensions: 3 NCL or ND, 4 NCHW, 5 NCDHW",
            name,
            BASE,
            **{name: tensor_of(BASE, name, format=Format.NHWC)},
        )
        for name in (*_INPUTS, *_GRADIENTS[:2])
    ),
    *(
        refused(
            f"format is ND, not NCL, {_ON_PRODUCTS}",
            name,
            _BASE_1D,
            **{name: tensor_of(_BASE_1D, name, format=Format.ND)},
        )
        for name in (*_INPUTS, *_GRADIENTS[:2])
    ),
    *(
        refused(
            f"format is not ND{words}",
            "grad_bias",
            sample,
            grad_bias=tensor_of(sample, "grad_bias", format=Format.NCHW),
        )
        for words, sample in (
            (", transposed is false, on ascend910b", BASE),
            (", transposed is true, on ascend910b", _TRANSPOSED),
            (" on ascend910 and ascend310p", _ON_910),
        )
    ),
    *(
        refused(
            f"dtype is not {wider} {_ON_PRODUCTS}",
            name,
            BASE,
            **{name: tensor_of(BASE, name, dtype=DataType.FLOAT)},
        )
        for name, wider in (
            ("grad_input", "the wider of input's and grad_output's"),
            ("grad_weight", "the wider of weight's and grad_output's"),
            ("grad_bias", "that of grad_output"),
        )
    ),
)
_SCALARS = (
    refused("a value below 1", "stride", BASE, stride=(1, 0)),
    refused("a negative value", "padding", BASE, padding=(0, -1)),
    refused("a value below 1", "dilation", BASE, dilation=(0, 1)),
    refused("a negative value", "output_padding", _TRANSPOSED, output_padding=(0, -1)),
    refused("not below stride in 3-D", "output_padding", _TRANSPOSED_3D, output_padding=(0, 2, 0)),
    refused("not zero, transposed is false", "output_padding", BASE, output_padding=(0, 1)),
    refused("below 1", "groups", BASE, groups=0),
    refused("not 0, 1, 2 or 3", "cube_math_type", BASE, cube_math_type=4),
    refused(
        "0 or 3 with FLOAT on ascend910 and ascend310p",
        "cube_math_type",
        convolution("FLOAT", (2, 4, 6, 7), (6, 4, 3, 2), cube_math_type=3, **_OLDER),
    ),
)
TAKING_EMPTY = "on ascend910b and reference"
_WITHOUT_CHANNELS = {
    "input": replace(tensor_of(_TRANSPOSED, "input"), shape=(2, 0, 4, 5)),
    "grad_input": replace(tensor_of(_TRANSPOSED, "grad_input"), shape=(2, 0, 4, 5)),
    "weight": replace(tensor_of(_TRANSPOSED, "weight"), shape=(0, 6, 3, 2)),
    "grad_weight": replace(tensor_of(_TRANSPOSED, "grad_weight"), shape=(0, 6, 3, 2)),
}
_NO_HEIGHT = convolution("no height", (2, 3, 0, 7), (4, 3, 1, 1), padding=(1, 0), dtypes=_HALF)
_NO_KERNELS = convolution("no kernels", (2, 4, 6, 7), (0, 4, 3, 2), dtypes=_HALF)
_NOT_WANTED = {"output_mask": (False, True, True)}
_EMPTINESS = (
    refused(
        f"missing or not the channels, output_mask[2], input is empty {TAKING_EMPTY}",
        "bias_sizes",
        EMPTY,
        bias_sizes=None,
    ),
    refused(
        f"empty, but neither its N nor its C is 0, grad_input is wanted, {TAKING_EMPTY}",
        "input",
        _NO_HEIGHT,
    ),
    refused(
        f"empty, but neither its N nor its C is 0, grad_input is not wanted, {TAKING_EMPTY}",
        "input",
        _NO_HEIGHT,
        **_NOT_WANTED,
    ),
    refused(
        f"dimension 0 is not a multiple of groups, input is empty {TAKING_EMPTY}",
        "weight",
        convolution("no entries", (0, 4, 6, 7), (5, 2, 3, 2), groups=2),
    ),
    refused(
        f"empty, though input is not, grad_input is wanted, {TAKING_EMPTY}", "weight", _NO_KERNELS
    ),
    refused(
        f"dimension 0 is 0, transposed, input is empty {TAKING_EMPTY}",
        "weight",
        _TRANSPOSED,
        **_WITHOUT_CHANNELS,
    ),
    refused(
        f"empty, but not for want of input's channels, {TAKING_EMPTY}",
        "weight",
        _NO_KERNELS,
        **_NOT_WANTED,
    ),
    refused(
        f"N is not that of input, input is empty {TAKING_EMPTY}",
        "grad_output",
        EMPTY,
        grad_output=tensor_of(EMPTY, "grad_output", shape=(1, 6, 4, 6)),
    ),
    refused(
        f"dimension 1 is not the channels of weight and groups, input is empty {TAKING_EMPTY}",
        "grad_output",
        EMPTY_TRANSPOSED,
        grad_output=tensor_of(EMPTY_TRANSPOSED, "grad_output", shape=(0, 5, 6, 6)),
        grad_bias=tensor_of(EMPTY_TRANSPOSED, "grad_bias", shape=(5,)),
    ),
    refused(
        f"spatial sizes are not those of the convolution, input is empty {TAKING_EMPTY}",
        "grad_output",
        EMPTY,
        grad_output=tensor_of(EMPTY, "grad_output", shape=(0, 6, 5, 6)),
    ),
    refused(
        "empty on ascend910 and ascend310p",
        "input",
        convolution("no entries", (0, 4, 6, 7), (6, 4, 3, 2), dtypes=_HALF, **_OLDER),
    ),
    refused(
        "empty on ascend910 and ascend310p",
        "weight",
        convolution("no kernels", (2, 4, 6, 7), (0, 4, 3, 2), dtypes=_HALF, **_OLDER),
    ),
    refused(
        "empty, though input is not",
        "grad_output",
        BASE,
        grad_output=tensor_of(BASE, "grad_output", shape=(0, 6, 4, 6)),
    ),
)
_SHAPES = (
    refused(
        "not as many dimensions as input",
        "grad_output",
        BASE,
        grad_output=tensor_of(BASE, "grad_output", shape=(2, 6, 4), format=Format.NCL),
    ),
    refused(
        "not as many dimensions as input",
        "weight",
        BASE,
        weight=tensor_of(BASE, "weight", shape=(6, 4, 3), format=Format.NCL),
    ),
    refused(
        "shape is not that of input",
        "grad_input",
        BASE,
        grad_input=tensor_of(BASE, "grad_input", shape=(2, 4, 6, 6)),
    ),
    refused(
        "shape is not that of weight",
        "grad_weight",
        BASE,
        grad_weight=tensor_of(BASE, "grad_weight", shape=(4, 6, 3, 2)),
    ),
    refused(
        "shape is not the channels of grad_output",
        "grad_bias",
        BASE,
        grad_bias=tensor_of(BASE, "grad_bias", shape=(4,)),
    ),
    *(
        refused("not a value for each spatial dimension", name, BASE, **{name: (values,) * 3})
        for name, values in zip(_ARRAYS, (1, 0, 1, 0), strict=True)
    ),
)
_CHANNELS = (
    refused(
        "dimension 0 is not the channels of grad_output, or of input if transposed",
        "weight",
        BASE,
        weight=tensor_of(BASE, "weight", shape=(5, 4, 3, 2)),
        grad_weight=tensor_of(BASE, "grad_weight", shape=(5, 4, 3, 2)),
    ),
    refused(
        "dimension 1 does not divide the channels of input, or of grad_output if transposed",
        "weight",
        BASE,
        weight=tensor_of(BASE, "weight", shape=(6, 3, 3, 2)),
        grad_weight=tensor_of(BASE, "grad_weight", shape=(6, 3, 3, 2)),
    ),
    refused("not those channels divided by weight's dimension 1", "groups", BASE, groups=2),
    refused(
        "does not divide weight's dimension 0",
        "groups",
        convolution("odd groups", (2, 4, 6, 7), (5, 2, 3, 2), groups=2, dtypes=_HALF),
    ),
)
_SPATIAL = (
    *(
        refused(f"smaller than the dilated kernel in {dimensions}", "input", sample, **changes)
        for dimensions, sample, changes in (
            ("3-D", BASE_3D, {"dilation": (4, 1, 1)}),
            ("1-D or 2-D", BASE, {"dilation": (3, 1)}),
        )
    ),
    refused(
        "smaller than the dilated kernel in 3-D, transposed",
        "grad_output",
        _TRANSPOSED_3D,
        dilation=(1, 6, 1),
    ),
    refused(
        "smaller than the dilated kernel in 1-D or 2-D, transposed",
        "grad_output",
        _TRANSPOSED,
        dilation=(6, 1),
    ),
    *(
        refused(
            f"spatial sizes are not those of the convolution in {dimensions}",
            "grad_output",
            sample,
            stride=(2,) * (len(_shape(sample, "input")) - 2),
        )
        for dimensions, sample in (("3-D", BASE_3D), ("1-D or 2-D", BASE))
    ),
    refused(
        "spatial sizes do not lead back to those of input, transposed",
        "grad_output",
        _TRANSPOSED_3D,
        stride=(2, 1, 2),
    ),
    refused(
        "spatial sizes are not exactly those of the convolution, transposed",
        "grad_output",
        _TRANSPOSED,
        grad_output=tensor_of(_TRANSPOSED, "grad_output", shape=(2, 6, 10, 10)),
    ),
    refused(
        "3-D on ascend910 and ascend310p",
        "input",
        convolution("3-D", (2, 4, 4, 5, 6), (6, 4, 2, 3, 2), dtypes=_HALF, **_OLDER),
    ),
    refused(
        "FLOAT in 3-D with groups computed in 16 bits on ascend910b",
        "grad_weight",
        _GROUPED_3D,
        cube_math_type=2,
    ),
)
_DOCUMENTED = (
    refused("not below stride in 1-D or 2-D", "output_padding", _TRANSPOSED, output_padding=(2, 0)),
    refused(
        "N is not that of input",
        "grad_output",
        BASE,
        grad_output=tensor_of(BASE, "grad_output", shape=(3, 6, 4, 6)),
    ),
    refused("not the channels", "bias_sizes", BASE, bias_sizes=(4,)),
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
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = (
    refused("four values", "output_padding", BASE, output_padding=(0, 0, 0, 0)),
    refused(
        "above 1 in 3-D, but not depthwise in BF16, transposed is false, on ascend910b",
        "groups",
        _GROUPED_3D,
    ),
)
"""Calls that break a page's rule which the vendor's own tests break: accepted with a warning."""
