"""The input gradient of TBE DSL in float64, from the memory formats.

dx[n, s*C + c, i] = sum over output channels k of superblock s, and over taps t and positions o with
i = o*stride + t*dilation - padding, of filters[s, k, c, t] * dy[n, s*K + k, o].
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from kernels.oracles.expectation import DOUBLE_UNIT, Doubles, Expectation, expect
from kernels.oracles.rounding import saturate
from kernels.oracles.superblocks import contributions, dense_of, dense_shape, image_of, plain_of
from kernels.oracles.transforms import Transformed
from kernels.samples.sample import Bytes, Sample
from opserve_kernels.tensor import DataType


def gradient(filters: Doubles, out_backprop: Doubles, scalars: Mapping[str, Any]) -> Doubles:
    """The gradient in NC1HWC0."""
    para_dict, (batch, channels, *size) = scalars["para_dict"], scalars["input_sizes"]
    shape = dense_shape(scalars["filter_sizes"], _groups(scalars))
    dense = dense_of(filters, shape)
    superblocks, outputs, inputs, *kernel = shape
    dy = plain_of(out_backprop, superblocks * outputs)
    dx = np.zeros((batch, superblocks * inputs, *size))
    sizes = (tuple(size), tuple(kernel), out_backprop.shape[2:4])
    steps = (para_dict.strides, para_dict.padding, para_dict.dilations)
    for (h, w), (a, b), (i, j) in contributions(sizes, *steps):
        for s in range(superblocks):
            ins, outs = slice(s * inputs, (s + 1) * inputs), slice(s * outputs, (s + 1) * outputs)
            dx[:, ins, h, w] += np.einsum("nk,kc->nc", dy[:, outs, i, j], dense[s, :, :, a, b])
    return image_of(dx, (batch, -(-channels // 16), *size, 16))


def sums(sample: Sample, buffers: Mapping[str, Bytes]) -> tuple[Doubles, Doubles, int]:
    """The sums of a sample's call, those of their magnitudes, and products in a sum."""
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    filters, dy = given["filters"], given["out_backprop"]
    with np.errstate(invalid="ignore"):
        value = gradient(filters, dy, sample.scalars)
        magnitude = gradient(np.abs(filters), np.abs(dy), sample.scalars)
    shape = dense_shape(sample.scalars["filter_sizes"], _groups(sample.scalars))
    return value, magnitude, shape[1] * prod(shape[3:])


def expected(
    sample: Sample, buffers: Mapping[str, Bytes], *, transformed: bool = False
) -> dict[str, Expectation]:
    """Expected outputs of a call, transformed or not; FLOAT16 saturates on every profile."""
    value, magnitude, terms = sums(sample, buffers)
    dtype = sample.outputs["res_tensor"].dtype
    if dtype == DataType.DOUBLE:
        tolerance = 2 * terms * DOUBLE_UNIT * magnitude
        return {"res_tensor": Expectation(value=value, tolerance=tolerance)}
    added = _transforms(sample, buffers) if transformed else None
    expectation = expect(value, magnitude, terms=terms, roundings=(dtype,), transforms=added)
    if dtype == DataType.FLOAT16:
        expectation = replace(expectation, value=saturate(expectation.value))
    return {"res_tensor": expectation}


def _transforms(sample: Sample, buffers: Mapping[str, Bytes]) -> Doubles:
    """The error that Winograd's algorithm may add, in NC1HWC0."""
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    para_dict = sample.scalars["para_dict"]
    shape = dense_shape(sample.scalars["filter_sizes"], _groups(sample.scalars))
    superblocks, outputs, inputs, *kernel = shape
    kind = Transformed(
        kernel=tuple(kernel),
        padding=para_dict.padding[::2],
        dilation=para_dict.dilations[2:],
        groups=superblocks,
    )
    weight = dense_of(given["filters"], shape).reshape(-1, inputs, *kernel)
    dy = plain_of(given["out_backprop"], superblocks * outputs)
    result = sample.outputs["res_tensor"].shape
    return image_of(kind.image_error(dy, weight, result[2:4]), result)


def _groups(scalars: Mapping[str, Any]) -> int:
    group_dict = scalars["para_dict"].group_dict
    return 1 if group_dict is None else group_dict.groups
