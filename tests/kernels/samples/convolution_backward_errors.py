"""Calls of aclnnConvolutionBackward that must be refused: one for every row of its error table."""

from dataclasses import replace
from typing import Any

from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import ErrorSample, Sample, TensorSample
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

NULL, INVALID = Status.ACLNN_ERR_PARAM_NULLPTR, Status.ACLNN_ERR_PARAM_INVALID
_HUGE = 2147483647

BASE = convolution("2-D", (2, 4, 6, 7), (6, 4, 3, 2))
BASE_3D = convolution("3-D", (2, 4, 4, 5, 6), (6, 4, 2, 3, 2))
_TRANSPOSED = convolution("transposed", (2, 4, 4, 5), (4, 6, 3, 2), stride=(2, 2), transposed=True)
_TRANSPOSED_3D = convolution(
    "transposed in 3-D", (1, 2, 3, 3, 3), (2, 2, 2, 2, 2), stride=(2, 2, 2), transposed=True
)
_EMPTY = convolution("empty", (0, 4, 6, 7), (6, 4, 3, 2))
_EMPTY_TRANSPOSED = convolution("empty transposed", (0, 4, 4, 5), (4, 6, 3, 2), transposed=True)
_GROUPED_3D = convolution("3-D with groups", (1, 4, 4, 4, 4), (4, 2, 2, 2, 2), groups=2)


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


def _vast(sample: Sample, *names: str) -> Sample:
    """The same call with one element behind each of some tensors."""
    return sample.but(
        sample.name,
        **{
            name: tensor_of(sample, name, strides=(0,) * len(_shape(sample, name)))
            for name in names
        },
    )


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
_DTYPES = tuple(
    _refused(
        "dtype is not FLOAT, FLOAT16 or BF16",
        name,
        BASE,
        **{name: tensor_of(BASE, name, dtype=DataType.DOUBLE)},
    )
    for name in (*_INPUTS, *_GRADIENTS)
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
        "format is not ND, transposed is false",
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
)
_EMPTINESS = (
    _refused("missing or not the channels, input is empty", "bias_sizes", _EMPTY, bias_sizes=None),
    _refused(
        "empty, but neither its N nor its C is 0",
        "input",
        convolution("no height", (2, 3, 0, 7), (4, 3, 1, 1), padding=(1, 0)),
    ),
    _refused(
        "dimension 0 is not a multiple of groups, input is empty",
        "weight",
        convolution("no entries", (0, 4, 6, 7), (5, 2, 3, 2), groups=2),
    ),
    _refused(
        "empty, but not for want of input's channels",
        "weight",
        convolution("no kernels", (2, 4, 6, 7), (0, 4, 3, 2), output_mask=(False, True, True)),
    ),
    _refused(
        "empty, though input is not",
        "grad_output",
        BASE,
        grad_output=tensor_of(BASE, "grad_output", shape=(0, 6, 4, 6)),
    ),
    _refused(
        "dimension 1 is not the channels of weight and groups, input is empty",
        "grad_output",
        _EMPTY_TRANSPOSED,
        grad_output=tensor_of(_EMPTY_TRANSPOSED, "grad_output", shape=(0, 5, 6, 6)),
        grad_bias=tensor_of(_EMPTY_TRANSPOSED, "grad_bias", shape=(5,)),
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
        _refused("not a value for each spatial dimension", name, BASE_3D, **{name: (values,) * 2})
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
        convolution("odd groups", (2, 4, 6, 7), (5, 2, 3, 2), groups=2),
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
        "smaller than the dilated kernel, transposed", "grad_output", _TRANSPOSED, dilation=(5, 1)
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
        "spatial sizes are not those of the convolution, transposed",
        "input",
        _TRANSPOSED,
        stride=(1, 1),
    ),
    _refused(
        "FLOAT in 3-D with groups computed in 16 bits", "grad_weight", _GROUPED_3D, cube_math_type=2
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
    _refused(
        "a size above 2147483646",
        "grad_output",
        _vast(
            convolution("a vast grad_output", (1, 1, 1), (1, 1, 1), padding=(_HUGE // 2,)),
            "grad_output",
        ),
    ),
    _refused(
        "a size above 2147483646",
        "input",
        _vast(
            convolution("a vast input", (1, 1, _HUGE), (1, 1, 1), stride=(2,)),
            *("grad_output", "input", "grad_input"),
        ),
    ),
    _refused(
        "a size above 2147483646 before H and W",
        "weight",
        _vast(
            convolution(
                "a vast weight", (1, 1, 1, 1, 1), (1, 1, _HUGE, 1, 1), padding=(_HUGE // 2, 0, 0)
            ),
            *("weight", "grad_weight"),
        ),
    ),
    _refused(
        "H, W or L above 255", "weight", convolution("a wide kernel", (1, 1, 256), (1, 1, 256))
    ),
    _refused(
        "above 2147483646",
        "stride",
        convolution("a vast stride", (1, 1, 1), (1, 1, 1), stride=(_HUGE,)),
    ),
    _refused(
        "H or W above 63 in 3-D",
        "stride",
        convolution("a large stride", (1, 1, 1, 1, 1), (1, 1, 1, 1, 1), stride=(1, 64, 1)),
    ),
    _refused(
        "above 255, but for D in 3-D",
        "padding",
        convolution("a large padding", (1, 1, 1, 1), (1, 1, 1, 1), padding=(0, 256)),
    ),
    _refused(
        "D above 2147483646",
        "padding",
        convolution(
            "a vast padding",
            (1, 1, 1, 1, 1),
            (1, 1, 1, 1, 1),
            padding=(_HUGE, 0, 0),
            stride=(_HUGE - 1, 1, 1),
        ),
    ),
    _refused(
        "above 255",
        "dilation",
        convolution("a large dilation", (1, 1, 257), (1, 1, 2), dilation=(256,)),
    ),
    _refused(
        "above 65535",
        "groups",
        convolution("many groups", (1, 65536, 1), (65536, 1, 1), groups=65536),
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
)
