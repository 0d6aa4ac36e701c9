"""Calls of aclnnConvolutionBackward that must succeed."""

from typing import Any

from kernels.samples.sample import Sample, TensorSample, Values
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
DOUBLE = DataType.DOUBLE
Shape = tuple[int, ...]

_FORMATS = {1: Format.NCL, 2: Format.NCHW, 3: Format.NCDHW}


def convolution(name: str, input_: Shape, weight: Shape, **changes: Any) -> Sample:
    """A call with all three gradients, stride 1, no padding, in float32, unless changed.

    Args:
        name: Of the sample.
        input_: Shape of the input.
        weight: Shape of the weight.
        changes: Scalars, `dtypes` of grad_output, input and weight, `outs` of the
            gradients, `values`, `format`, `profile`.
    """
    dtypes = changes.pop("dtypes", (FLOAT,) * 3)
    outs = changes.pop("outs", None)
    values = changes.pop("values", Values.NORMAL)
    profile = changes.pop("profile", "ascend910b")
    rank = len(input_) - 2
    layout = changes.pop("format", _FORMATS[rank])
    scalars: dict[str, Any] = {
        "stride": (1,) * rank,
        "padding": (0,) * rank,
        "dilation": (1,) * rank,
        "transposed": False,
        "output_padding": (0,) * rank,
        "groups": 1,
        "output_mask": (True, True, True),
        "cube_math_type": 0,
        **changes,
    }
    grad_output = _output_shape(input_, weight, scalars)
    scalars.setdefault("bias_sizes", (grad_output[1],))
    shapes = {"grad_output": grad_output, "input": input_, "weight": weight}
    tensors = {
        name: TensorSample(shape=shape, dtype=dtype, format=layout, values=values)
        for (name, shape), dtype in zip(shapes.items(), dtypes, strict=True)
    }
    if outs is None:
        outs = (_wider(dtypes[1], dtypes[0]), _wider(dtypes[2], dtypes[0]), dtypes[0])
    gradients = {
        "grad_input": TensorSample(shape=input_, dtype=outs[0], format=layout),
        "grad_weight": TensorSample(shape=weight, dtype=outs[1], format=layout),
        "grad_bias": TensorSample(shape=grad_output[1:2], dtype=outs[2]),
    }
    return Sample(
        name=name,
        operator="convolution_backward",
        tensors=tensors | gradients,
        scalars=scalars,
        profile=profile,
    )


def _wider(first: DataType, second: DataType) -> DataType:
    if first == second:
        return first
    return DOUBLE if DOUBLE in {first, second} else FLOAT


def _output_shape(input_: Shape, weight: Shape, scalars: dict[str, Any]) -> Shape:
    """Shape of the forward convolution's output."""
    padding = scalars["padding"]
    if len(padding) > len(input_) - 2:
        around: Shape = (padding[0] + padding[1], padding[2] + padding[3])
    else:
        around = tuple(2 * side for side in padding)
    sizes: list[int] = []
    for axis, size in enumerate(input_[2:]):
        reach = scalars["dilation"][axis] * (weight[2 + axis] - 1) + 1
        stride = scalars["stride"][axis]
        if scalars["transposed"]:
            extra = scalars["output_padding"][axis]
            sizes.append((size - 1) * stride - around[axis] + reach + extra)
        else:
            sizes.append((size + around[axis] - reach) // stride + 1)
    channels = weight[1] * scalars["groups"] if scalars["transposed"] else weight[0]
    return (input_[0], channels, *sizes)


def _laid_out(sample: Sample, name: str, strides: Shape, offset: int = 0) -> Sample:
    """The same call with one tensor laid out otherwise."""
    tensor = sample.tensors[name]
    assert tensor is not None
    other = TensorSample(
        shape=tensor.shape,
        dtype=tensor.dtype,
        format=tensor.format,
        strides=strides,
        offset=offset,
        values=tensor.values,
    )
    return sample.but(sample.name, **{name: other})


def _without(sample: Sample, *names: str) -> Sample:
    """The same call with null pointers for gradients that the mask leaves out."""
    return sample.but(sample.name, **dict.fromkeys(names))


_TRANSPOSED = {"transposed": True}
_PLAIN = convolution("2-D", (2, 3, 6, 7), (4, 3, 3, 2))

_SHAPES = (
    _PLAIN,
    convolution("1-D", (3, 2, 9), (4, 2, 3)),
    convolution("3-D", (2, 2, 4, 5, 6), (3, 2, 2, 3, 2)),
    convolution("stride", (2, 3, 9, 10), (4, 3, 3, 3), stride=(2, 3)),
    convolution("stride leaves a rest", (1, 2, 8, 9), (2, 2, 3, 2), stride=(3, 4)),
    convolution("stride beyond the kernel", (1, 2, 9, 9), (2, 2, 1, 2), stride=(3, 4)),
    convolution("padding", (2, 3, 5, 6), (4, 3, 3, 3), padding=(1, 2)),
    convolution("padding beyond the kernel", (1, 2, 3, 4), (2, 2, 2, 2), padding=(3, 4)),
    convolution("padding up, down, left, right", (2, 3, 6, 5), (4, 3, 3, 2), padding=(0, 1, 2, 0)),
    convolution(
        "padding of four and stride",
        (2, 2, 7, 6),
        (3, 2, 3, 3),
        padding=(2, 0, 1, 3),
        stride=(2, 2),
    ),
    convolution("dilation", (2, 2, 9, 11), (3, 2, 3, 3), dilation=(2, 3)),
    convolution(
        "all of them in 1-D", (2, 2, 17), (3, 2, 4), stride=(3,), padding=(2,), dilation=(2,)
    ),
    convolution(
        "all of them in 3-D",
        (1, 2, 7, 6, 9),
        (2, 2, 2, 3, 2),
        stride=(2, 1, 3),
        padding=(1, 2, 1),
        dilation=(3, 2, 1),
    ),
    convolution("groups", (2, 6, 5, 5), (4, 3, 3, 3), groups=2, padding=(1, 1)),
    convolution("depthwise", (2, 4, 6, 6), (4, 1, 3, 3), groups=4, padding=(1, 1)),
    convolution("depthwise with a multiplier", (2, 3, 6, 5), (6, 1, 3, 2), groups=3),
    convolution("depthwise in 3-D", (1, 3, 4, 4, 5), (3, 1, 2, 3, 3), groups=3),
    convolution("kernel of 1", (3, 5, 4, 4), (6, 5, 1, 1)),
    convolution("kernel of 1 with stride", (2, 3, 7, 7), (4, 3, 1, 1), stride=(2, 3)),
    convolution("kernel as large as the image", (4, 3, 5, 4), (6, 3, 5, 4)),
    convolution("one of everything", (1, 1, 1, 1), (1, 1, 1, 1)),
    convolution(
        "rows that meet padding alone",
        (2, 8, 2, 4),
        (8, 8, 2, 2),
        stride=(2, 2),
        padding=(1, 0, 0, 1),
    ),
    convolution("several blocks of columns", (3, 16, 24, 23), (8, 16, 3, 3), padding=(1, 1)),
    convolution("long sums", (16, 1, 40, 40), (2, 1, 2, 2), values=Values.NORMAL),
)
_TRANSPOSED_SHAPES = (
    convolution("transposed", (2, 3, 4, 5), (3, 4, 3, 2), **_TRANSPOSED),
    convolution(
        "transposed in 1-D", (2, 3, 6), (3, 2, 4), stride=(2,), padding=(1,), **_TRANSPOSED
    ),
    convolution(
        "transposed in 3-D", (1, 2, 3, 3, 4), (2, 3, 2, 3, 2), stride=(2, 1, 2), **_TRANSPOSED
    ),
    convolution(
        "transposed with output padding",
        (2, 3, 4, 4),
        (3, 2, 3, 3),
        stride=(2, 3),
        padding=(1, 1),
        output_padding=(1, 2),
        **_TRANSPOSED,
    ),
    convolution(
        "transposed with output padding in 3-D",
        (1, 2, 3, 2, 3),
        (2, 2, 3, 2, 2),
        stride=(2, 2, 3),
        output_padding=(1, 0, 2),
        **_TRANSPOSED,
    ),
    convolution(
        "transposed with groups and dilation",
        (2, 4, 4, 5),
        (4, 3, 2, 3),
        groups=2,
        dilation=(2, 2),
        padding=(1, 2),
        **_TRANSPOSED,
    ),
    convolution(
        "transposed with padding of four",
        (1, 2, 5, 5),
        (2, 3, 3, 3),
        padding=(1, 0, 0, 2),
        **_TRANSPOSED,
    ),
    convolution(
        "transposed in several blocks",
        (2, 12, 20, 21),
        (12, 6, 3, 3),
        padding=(1, 1),
        **_TRANSPOSED,
    ),
)
_MASKS = tuple(
    convolution(
        f"mask {int(i)}{int(w)}{int(b)}{' transposed' * t}",
        (2, 3, 6, 5),
        (3, 3, 3, 2),
        stride=(2, 1),
        padding=(1, 1),
        transposed=t,
        output_mask=(i, w, b),
    )
    for t in (False, True)
    for i in (False, True)
    for w in (False, True)
    for b in (False, True)
)
_NULL_WHERE_MASKED = (
    _without(
        convolution(
            "only grad_input given", (2, 3, 5, 5), (2, 3, 3, 3), output_mask=(True, False, False)
        ),
        "grad_weight",
        "grad_bias",
    ),
    _without(
        convolution(
            "only grad_weight given", (2, 3, 5, 5), (2, 3, 3, 3), output_mask=(False, True, False)
        ),
        "grad_input",
        "grad_bias",
    ).but("only grad_weight given", bias_sizes=None),
    convolution("bias_sizes null", (2, 3, 5, 5), (2, 3, 3, 3)).but(
        "bias_sizes null", bias_sizes=None
    ),
)
_DTYPES = (
    convolution("FLOAT16", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(FLOAT16,) * 3),
    convolution("BF16", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(BF16,) * 3),
    convolution("FLOAT16 and BF16", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(FLOAT16, BF16, FLOAT16)),
    convolution("FLOAT, FLOAT16 and BF16", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(BF16, FLOAT, FLOAT16)),
    convolution("BF16 depthwise in 3-D", (1, 4, 4, 4, 4), (4, 1, 3, 3, 3), groups=4, dtypes=(BF16,) * 3),
    convolution("FLOAT16 transposed", (2, 3, 4, 4), (3, 2, 3, 3), stride=(2, 2), dtypes=(FLOAT16,) * 3, **_TRANSPOSED),
    convolution("FLOAT16 overflows", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(FLOAT16,) * 3, values=Values.LARGE),
)  # fmt: skip
_CUBE_MATH_TYPES = (
    convolution("ALLOW_FP32_DOWN_PRECISION", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=1),
    convolution("USE_FP16", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=2),
    convolution("USE_HF32", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=3),
    convolution("USE_FP16 for BF16", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=2, dtypes=(BF16,) * 3),
    convolution("USE_FP16 with groups", (2, 4, 6, 6), (4, 2, 3, 3), groups=2, cube_math_type=2),
    convolution("USE_HF32 for FLOAT16", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=3, dtypes=(FLOAT16,) * 3),
    convolution("USE_HF32 for BF16", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=3, dtypes=(BF16,) * 3),
    convolution("USE_HF32 transposed", (2, 3, 4, 4), (3, 2, 3, 3), cube_math_type=3, **_TRANSPOSED),
)  # fmt: skip
_LAYOUTS = (
    _laid_out(convolution("input channels last", (2, 3, 6, 7), (4, 3, 3, 2)), "input", (126, 1, 21, 3)),
    _laid_out(convolution("input with offset", (2, 3, 6, 7), (4, 3, 3, 2)), "input", (126, 42, 7, 1), 5),
    _laid_out(convolution("weight transposed", (2, 3, 6, 7), (4, 3, 3, 2)), "weight", (1, 24, 8, 4)),
    _laid_out(convolution("grad_output with gaps", (2, 3, 6, 7), (4, 3, 3, 2)), "grad_output", (240, 60, 15, 2), 3),
    _laid_out(convolution("grad_output of one element", (2, 3, 6, 7), (4, 3, 3, 2)), "grad_output", (0, 0, 0, 0)),
    _laid_out(convolution("input repeated over the batch", (3, 2, 9), (4, 2, 3)), "input", (0, 9, 1)),
    _laid_out(convolution("FLOAT16 with gaps", (2, 3, 6, 7), (4, 3, 3, 2), dtypes=(FLOAT16,) * 3), "input", (300, 90, 14, 2), 1),
    _laid_out(convolution("BF16 channels last", (2, 3, 6, 7), (4, 3, 3, 2), dtypes=(BF16,) * 3), "grad_output", (96, 1, 24, 4)),
    _laid_out(convolution("grad_input with gaps", (2, 3, 6, 7), (4, 3, 3, 2)), "grad_input", (270, 90, 15, 2), 4),
    _laid_out(convolution("grad_weight transposed", (2, 3, 6, 7), (4, 3, 3, 2)), "grad_weight", (1, 24, 8, 4), 2),
    _laid_out(convolution("grad_bias with gaps", (2, 3, 6, 7), (4, 3, 3, 2), dtypes=(FLOAT16,) * 3), "grad_bias", (3,), 1),
)  # fmt: skip
_EMPTY = (
    convolution("no entries", (0, 3, 6, 6), (4, 3, 3, 3)),
    convolution("no entries transposed", (0, 3, 6, 6), (3, 4, 3, 3), **_TRANSPOSED),
    convolution("no entries in 3-D", (0, 2, 4, 4, 4), (3, 2, 2, 2, 2), dtypes=(FLOAT16,) * 3),
    convolution("no channels", (2, 0, 6, 6), (4, 0, 3, 3)),
)
_VALUES = (
    convolution("integers", (2, 3, 8, 8), (4, 3, 3, 3), padding=(1, 1), values=Values.INTEGERS),
    convolution("NaN and infinity", (2, 3, 8, 8), (4, 3, 3, 3), padding=(1, 1), values=Values.SPECIAL),
    convolution("NaN and infinity transposed", (2, 3, 6, 6), (3, 4, 3, 3), padding=(1, 1), stride=(2, 2), values=Values.SPECIAL, **_TRANSPOSED),
    convolution("NaN and infinity in BF16", (2, 3, 8, 8), (4, 3, 3, 3), padding=(1, 1), values=Values.SPECIAL, dtypes=(BF16,) * 3),
    convolution("vendor's 2-D", (2, 2, 7, 7), (2, 2, 1, 1), cube_math_type=1, values=Values.ONES),
    convolution("vendor's 1-D", (4, 2, 9), (2, 2, 3), stride=(3,), values=Values.ONES),
    convolution("vendor's 3-D", (2, 2, 7, 7, 7), (2, 2, 1, 1, 1), cube_math_type=1, values=Values.ONES),
)  # fmt: skip
_910 = {"profile": "ascend910"}
_310P = {"profile": "ascend310p"}
_HALF, _DOUBLES = (FLOAT16,) * 3, (DOUBLE,) * 3
_OLDER_PROFILES = (
    convolution("FLOAT16 on 910", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_HALF, **_910),
    convolution("FLOAT16 on 310p", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_HALF, **_310P),
    convolution("FLOAT16 on 910 in 1-D", (3, 2, 9), (4, 2, 3), dtypes=_HALF, cube_math_type=3, **_910),
    convolution("FLOAT16 on 910 transposed", (2, 3, 4, 4), (3, 2, 3, 3), stride=(2, 2), dtypes=_HALF, **_TRANSPOSED, **_910),
    convolution("FLOAT16 with FLOAT on 910", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(FLOAT16, FLOAT, FLOAT16), cube_math_type=1, **_910),
    convolution("FLOAT by 1 on 910", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=1, **_910),
    convolution("FLOAT by 2 on 910", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=2, **_910),
    convolution("FLOAT by 1 on 310p", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=1, **_310P),
    convolution("FLOAT by 2 on 310p", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=2, **_310P),
    convolution("FLOAT with groups on 310p", (2, 4, 6, 6), (4, 2, 3, 3), groups=2, cube_math_type=2, **_310P),
    convolution("saturated FLOAT16", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_HALF, values=Values.LARGE, **_910),
    convolution("saturated FLOAT", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=1, values=Values.LARGE, **_310P),
    convolution("NaN and infinity in FLOAT16 on 910", (2, 3, 8, 8), (4, 3, 3, 3), padding=(1, 1), values=Values.SPECIAL, dtypes=_HALF, **_910),
    convolution("NaN and infinity cast on 910", (2, 3, 8, 8), (4, 3, 3, 3), padding=(1, 1), values=Values.SPECIAL, cube_math_type=1, **_910),
    convolution("a kernel of 256 on 910", (1, 2, 260), (2, 2, 256), dtypes=_HALF, **_910),
    _laid_out(convolution("FLOAT with gaps on 910", (2, 3, 6, 7), (4, 3, 3, 2), cube_math_type=1, **_910), "input", (300, 90, 14, 2), 1),
)  # fmt: skip
_EXACT = {"profile": "reference"}
_REFERENCE = (
    convolution("DOUBLE", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_DOUBLES, **_EXACT),
    convolution("DOUBLE in 1-D", (3, 2, 9), (4, 2, 3), stride=(2,), padding=(1,), dtypes=_DOUBLES, **_EXACT),
    convolution("DOUBLE in 3-D with groups", (1, 4, 4, 5, 4), (4, 2, 2, 3, 2), groups=2, padding=(1, 0, 1), dtypes=_DOUBLES, **_EXACT),
    convolution("DOUBLE transposed", (2, 3, 4, 5), (3, 4, 3, 2), stride=(2, 1), dtypes=_DOUBLES, **_TRANSPOSED, **_EXACT),
    convolution("DOUBLE beside BF16", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(BF16, DOUBLE, FLOAT16), **_EXACT),
    convolution("DOUBLE into FLOAT16, BF16 and FLOAT", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_DOUBLES, outs=(FLOAT16, BF16, FLOAT), **_EXACT),
    convolution("DOUBLE by USE_FP16", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_DOUBLES, cube_math_type=2, **_EXACT),
    convolution("DOUBLE by USE_HF32", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_DOUBLES, cube_math_type=3, **_EXACT),
    convolution("FLOAT16 into DOUBLE", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_HALF, outs=_DOUBLES, **_EXACT),
    convolution("FLOAT on reference", (2, 3, 6, 6), (4, 3, 3, 3), **_EXACT),
    convolution("FLOAT into DOUBLE, FLOAT16 and BF16", (2, 3, 6, 6), (4, 3, 3, 3), outs=(DOUBLE, FLOAT16, BF16), **_EXACT),
    convolution("FLOAT by HF32 into DOUBLE", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=1, outs=_DOUBLES, **_EXACT),
    convolution("FLOAT by HF32 transposed", (2, 3, 4, 4), (3, 2, 3, 3), cube_math_type=3, **_TRANSPOSED, **_EXACT),
    convolution("FLOAT by FLOAT16 into DOUBLE", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=2, outs=_DOUBLES, **_EXACT),
    convolution("BF16 by FLOAT16 into DOUBLE", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=2, dtypes=(BF16,) * 3, outs=_DOUBLES, **_EXACT),
    convolution("BF16 with groups in 3-D into FLOAT", (1, 4, 4, 4, 4), (4, 2, 2, 2, 2), groups=2, dtypes=(BF16,) * 3, outs=(FLOAT,) * 3, **_EXACT),
    convolution("FLOAT16 overflows on reference", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_HALF, values=Values.LARGE, **_EXACT),
    convolution("NaN and infinity in DOUBLE", (2, 3, 8, 8), (4, 3, 3, 3), padding=(1, 1), values=Values.SPECIAL, dtypes=_DOUBLES, **_EXACT),
    convolution("beyond every limit in 1-D", (1, 2, 700), (2, 2, 257), padding=(256,), dilation=(2,), stride=(3,), **_EXACT),
    convolution("beyond every limit in 3-D", (1, 1, 2, 2, 600), (2, 1, 1, 1, 3), stride=(1, 64, 65), dilation=(1, 1, 256), padding=(0, 256, 1), dtypes=_DOUBLES, **_EXACT),
    convolution("only DOUBLE grad_bias", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=_DOUBLES, output_mask=(False, False, True), **_EXACT),
    _laid_out(convolution("DOUBLE channels last", (2, 3, 6, 7), (4, 3, 3, 2), dtypes=_DOUBLES, **_EXACT), "input", (126, 1, 21, 3), 2),
    _laid_out(convolution("DOUBLE grad_weight transposed", (2, 3, 6, 7), (4, 3, 3, 2), dtypes=_DOUBLES, **_EXACT), "grad_weight", (1, 24, 8, 4), 3),
    convolution("no entries on reference", (0, 3, 6, 6), (4, 3, 3, 3), dtypes=_DOUBLES, **_EXACT),
    convolution("no channels on reference", (2, 0, 6, 6), (4, 0, 3, 3), **_EXACT),
)  # fmt: skip

SAMPLES: tuple[Sample, ...] = (
    *_SHAPES,
    *_TRANSPOSED_SHAPES,
    *_MASKS,
    *_NULL_WHERE_MASKED,
    *_DTYPES,
    *_CUBE_MATH_TYPES,
    *_LAYOUTS,
    *_EMPTY,
    *_VALUES,
    *_OLDER_PROFILES,
    *_REFERENCE,
)
