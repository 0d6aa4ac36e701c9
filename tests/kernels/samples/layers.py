"""Calls of the forward convolutions by their geometry."""

from dataclasses import replace
from typing import Any

from kernels.samples.sample import Sample, TensorSample, Values
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
DOUBLE = DataType.DOUBLE
Shape = tuple[int, ...]
_FORMATS = {1: Format.NCL, 2: Format.NCHW, 3: Format.NCDHW}


def layer(name: str, input_: Shape, weight: Shape, **changes: Any) -> Sample:
    """A call of aclnnConvolution with stride 1, no padding and a bias, in float32, unless changed.

    Args:
        name: Of the sample.
        input_: Shape of the input.
        weight: Shape of the weight.
        changes: Scalars, `bias` (whether there is one), `dtypes` of input, weight, bias and output,
            `values`, `profile`.
    """
    dtypes = changes.pop("dtypes", (FLOAT,) * 4)
    values = changes.pop("values", Values.NORMAL)
    profile = changes.pop("profile", "ascend910b")
    has_bias = changes.pop("bias", True)
    axes = len(input_) - 2
    scalars: dict[str, Any] = {
        "stride": (1,) * axes,
        "padding": (0,) * axes,
        "dilation": (1,) * axes,
        "transposed": False,
        "output_padding": (0,) * axes,
        "groups": 1,
        "cube_math_type": 0,
        **changes,
    }
    output = _output_shape(input_, weight, scalars)
    tag = _FORMATS[axes]
    first, second, third, last = dtypes
    tensors = {
        "input": TensorSample(shape=input_, dtype=first, format=tag, values=values),
        "weight": TensorSample(shape=weight, dtype=second, format=tag, values=values),
        "bias": TensorSample(shape=output[1:2], dtype=third, values=_finite(values)),
        "output": TensorSample(shape=output, dtype=last, format=tag),
    }
    given = {key: tensor for key, tensor in tensors.items() if has_bias or key != "bias"}
    return Sample(
        name=name,
        operator="convolution",
        tensors={**dict.fromkeys(tensors), **given},
        scalars=scalars,
        profile=profile,
    )


def laid_out(sample: Sample, name: str, tensor: str, strides: Shape, offset: int = 0) -> Sample:
    """The same call with one tensor laid out otherwise."""
    given = sample.tensors[tensor]
    assert given is not None
    return sample.but(name, **{tensor: replace(given, strides=strides, offset=offset)})


def channels_last(sample: Sample, name: str, *tensors: str) -> Sample:
    """The same 3-D call with these tensors in NDHWC."""
    changed: dict[str, Any] = {}
    for key in tensors:
        given = sample.tensors[key]
        assert given is not None
        batch, channels, *sizes = given.shape
        changed[key] = replace(given, shape=(batch, *sizes, channels), format=Format.NDHWC)
    return sample.but(name, **changed)


def tagged(sample: Sample, name: str, tensor: str, tag: Format) -> Sample:
    """The same call with one tensor in another format."""
    given = sample.tensors[tensor]
    assert given is not None
    return sample.but(name, **{tensor: replace(given, format=tag)})


def _finite(values: Values) -> Values:
    # Of as few elements as a bias has, hardly any would be finite.
    return Values.NORMAL if values is Values.SPECIAL else values


def _output_shape(input_: Shape, weight: Shape, scalars: dict[str, Any]) -> Shape:
    padding, axes = scalars["padding"], len(input_) - 2
    if len(padding) > axes:
        around: Shape = tuple(padding[2 * axis] + padding[2 * axis + 1] for axis in range(axes))
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
