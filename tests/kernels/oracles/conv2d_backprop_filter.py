"""The weight gradient of TBE DSL in float64, from and to the memory formats.

dw[s, k, c, t] = sum over n, and over positions o whose i = o*stride + t*dilation - padding is on
the image, of dy[n, s*K + k, o] * x[n, s*C + c, i], where k and c belong to one group; elsewhere 0,
or the same sum if it is raw.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from kernels.oracles.expectation import DOUBLE_UNIT, Doubles, Expectation, expect
from kernels.oracles.superblocks import (
    contributions,
    dense_shape,
    extend_of,
    fractal_of,
    plain_of,
)
from kernels.oracles.transforms import Transformed
from kernels.samples.sample import Bytes, Sample
from opserve_kernels.operators.conv2d_backprop_filter.schema import Conv2dBackpropFilterParaDict
from opserve_kernels.tensor import DataType


def gradient(
    input_x: Doubles, out_backprop: Doubles, scalars: Mapping[str, Any], shape: tuple[int, ...]
) -> Doubles:
    """The gradient in FRACTAL_Z, of this shape."""
    para_dict, filter_sizes = _para_dict(scalars), scalars["filter_sizes"]
    groups = para_dict.groups or 1
    superblocks, outputs, inputs, *kernel = dense_shape(filter_sizes, groups)
    x = plain_of(input_x, superblocks * inputs)
    dy = plain_of(out_backprop, superblocks * outputs)
    dense = np.zeros((superblocks, outputs, inputs, *kernel))
    sizes = (input_x.shape[2:4], tuple(kernel), out_backprop.shape[2:4])
    steps = (
        para_dict.strides or (1, 1),
        para_dict.padding or (0,) * 4,
        para_dict.dilations or (1,) * 4,
    )
    for (h, w), (a, b), (i, j) in contributions(sizes, *steps):
        for s in range(superblocks):
            ins, outs = slice(s * inputs, (s + 1) * inputs), slice(s * outputs, (s + 1) * outputs)
            dense[s, :, :, a, b] += np.einsum("nk,nc->kc", dy[:, outs, i, j], x[:, ins, h, w])
    if not scalars["raw"]:
        dense[~_belongs(filter_sizes, groups)] = 0
    return fractal_of(dense, shape)


def sums(sample: Sample, buffers: Mapping[str, Bytes]) -> tuple[Doubles, Doubles, int]:
    """The sums of a sample's call, those of their magnitudes, and products in a sum."""
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    x, dy = given["input_x"], given["out_backprop"]
    shape = sample.outputs["res_tensor"].shape
    with np.errstate(invalid="ignore"):
        value = gradient(x, dy, sample.scalars, shape)
        magnitude = gradient(np.abs(x), np.abs(dy), sample.scalars, shape)
    batch, _, *positions, _ = sample.inputs["out_backprop"].shape
    return value, magnitude, batch * prod(positions)


def expected(
    sample: Sample, buffers: Mapping[str, Bytes], *, transformed: bool = False
) -> dict[str, Expectation]:
    """Expected outputs of a sample's call, transformed by Winograd's algorithm or not."""
    value, magnitude, terms = sums(sample, buffers)
    dtype = sample.outputs["res_tensor"].dtype
    if dtype == DataType.DOUBLE:
        tolerance = 2 * terms * DOUBLE_UNIT * magnitude
        return {"res_tensor": Expectation(value=value, tolerance=tolerance)}
    added = _transforms(sample, buffers) if transformed else None
    found = expect(value, magnitude, terms=terms, roundings=(dtype,), transforms=added)
    return {"res_tensor": found}


def _transforms(sample: Sample, buffers: Mapping[str, Bytes]) -> Doubles:
    """The error that Winograd's algorithm may add, in FRACTAL_Z."""
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    para_dict = _para_dict(sample.scalars)
    shape = dense_shape(sample.scalars["filter_sizes"], para_dict.groups or 1)
    superblocks, outputs, inputs, *kernel = shape
    kind = Transformed(
        kernel=tuple(kernel),
        padding=(para_dict.padding or (0,) * 4)[::2],
        dilation=(para_dict.dilations or (1,) * 4)[2:],
        groups=superblocks,
    )
    x = plain_of(given["input_x"], superblocks * inputs)
    dy = plain_of(given["out_backprop"], superblocks * outputs)
    dense = kind.weight_error(x, dy).reshape(shape)
    return fractal_of(dense, sample.outputs["res_tensor"].shape)


def _belongs(filter_sizes: tuple[int, ...], groups: int) -> Any:
    """Which (superblock, output channel, input channel) of whole blocks belong to one group."""
    superblocks, outputs, inputs, *_ = dense_shape(filter_sizes, groups)
    extend, group_outputs = extend_of(filter_sizes, groups), filter_sizes[0] // groups
    belongs = np.zeros((superblocks, outputs, inputs), dtype=np.bool_)
    for group in range(groups):
        s, member = group // extend, group % extend
        for k in range(member * group_outputs, (member + 1) * group_outputs):
            for c in range(member * filter_sizes[1], (member + 1) * filter_sizes[1]):
                belongs[s, k, c] = True
    return belongs


def _para_dict(scalars: Mapping[str, Any]) -> Conv2dBackpropFilterParaDict:
    para_dict: Conv2dBackpropFilterParaDict | None = scalars["para_dict"]
    return para_dict or Conv2dBackpropFilterParaDict()
