"""Gradients of a convolution in float64, scattered from the contributions of the forward one.

A convolution adds weight[k, c, t] * input[n, c, i] to output[n, k, o] wherever
i = o*stride + t*dilation - padding; a transposed one adds weight[c, k, t] * input[n, c, i] to
output[n, k, o] wherever o = i*stride + t*dilation - padding.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.oracles.cube_math import SATURATING, as_multiplied, computed_dtype
from kernels.oracles.expectation import (
    REFERENCE_UNIT,
    Doubles,
    Expectation,
    expect,
)
from kernels.oracles.rounding import saturate
from kernels.oracles.transforms import Transformed
from kernels.samples.sample import Bytes, Sample
from opserve_kernels.tensor import DataType

Index = tuple[int, ...]
Slices = tuple[slice, ...]
Operands = tuple[Doubles, Doubles, Doubles]
EXACT = "reference"
_OPERANDS = ("grad_output", "input", "weight")
_ALL = slice(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The scalar arguments of a convolution; padding is that before each dimension."""

    stride: Index
    padding: Index
    dilation: Index
    transposed: bool
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """The results of the operator."""

    grad_input: Doubles
    grad_weight: Doubles
    grad_bias: Doubles


def geometry_of(scalars: Mapping[str, Any]) -> Geometry:
    """Of a sample's scalars: of a padding up, down, left, right, up and left come before."""
    padding = tuple(scalars["padding"])
    if len(padding) > len(scalars["stride"]):
        padding = padding[::2]
    return Geometry(
        stride=tuple(scalars["stride"]),
        padding=padding,
        dilation=tuple(scalars["dilation"]),
        transposed=scalars["transposed"],
        groups=scalars["groups"],
    )


def forward(input_: Doubles, weight: Doubles, output_shape: Index, geometry: Geometry) -> Doubles:
    """The convolution itself, without bias."""
    output = np.zeros(output_shape)
    spatial = (input_.shape[2:], weight.shape[2:], output_shape[2:])
    for i, t, o in _contributions(*spatial, geometry):
        for ins, outs, rows in _groups(input_.shape[1], output_shape[1], weight, geometry):
            taps = weight[_at(rows, _ALL, t)]
            taps = taps.T if geometry.transposed else taps
            x = input_[_at(_ALL, ins, i)]
            output[_at(_ALL, outs, o)] += np.einsum("nc...,kc->nk...", x, taps)
    return output


def gradients(
    grad_output: Doubles, input_: Doubles, weight: Doubles, geometry: Geometry
) -> Gradients:
    """The three gradients, from the forward contributions of one tap after the other."""
    grad_input, grad_weight = np.zeros(input_.shape), np.zeros(weight.shape)
    spatial = (input_.shape[2:], weight.shape[2:], grad_output.shape[2:])
    for i, t, o in _contributions(*spatial, geometry):
        for ins, outs, rows in _groups(input_.shape[1], grad_output.shape[1], weight, geometry):
            x, y = input_[_at(_ALL, ins, i)], grad_output[_at(_ALL, outs, o)]
            taps = weight[_at(rows, _ALL, t)]
            taps = taps.T if geometry.transposed else taps
            grad_input[_at(_ALL, ins, i)] += np.einsum("nk...,kc->nc...", y, taps)
            pairs = (array.reshape(*array.shape[:2], prod(array.shape[2:])) for array in (y, x))
            share = np.einsum("nko,nco->kc", *pairs)
            grad_weight[_at(rows, _ALL, t)] += share.T if geometry.transposed else share
    axes = (0, *range(2, grad_output.ndim))
    return Gradients(
        grad_input=grad_input, grad_weight=grad_weight, grad_bias=grad_output.sum(axis=axes)
    )


def magnitude(
    grad_output: Doubles, input_: Doubles, weight: Doubles, geometry: Geometry
) -> Gradients:
    """The same sums over magnitudes."""
    return gradients(np.abs(grad_output), np.abs(input_), np.abs(weight), geometry)


def expected(
    sample: Sample, buffers: Mapping[str, Bytes], *, transformed: Collection[str] = ()
) -> dict[str, Expectation]:
    """Expected outputs of a sample's call; none where the mask excludes them.

    Args:
        sample: The call.
        buffers: Its memory.
        transformed: The outputs that Winograd's algorithm computes.
    """
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    if given["input"].size == 0:
        return _expected_of_nothing(sample)
    geometry = geometry_of(sample.scalars)
    operands = (
        as_multiplied(given["grad_output"], "grad_output", sample, _OPERANDS),
        as_multiplied(given["input"], "input", sample, _OPERANDS),
        as_multiplied(given["weight"], "weight", sample, _OPERANDS),
    )
    axes = (0, *range(2, given["grad_output"].ndim))
    with np.errstate(invalid="ignore"):
        sums, sizes = gradients(*operands, geometry), magnitude(*operands, geometry)
        bias = given["grad_output"].sum(axis=axes)
        bias_size = np.abs(given["grad_output"]).sum(axis=axes)
    terms = _terms(sample)
    found = {
        "grad_input": (sums.grad_input, sizes.grad_input),
        "grad_weight": (sums.grad_weight, sizes.grad_weight),
        "grad_bias": (bias, bias_size),
    }
    added = {name: _transforms(name, operands, geometry) for name in transformed}
    return {
        name: _expectation(
            *found[name], terms=terms[name], transforms=added.get(name), name=name, sample=sample
        )
        for name in _wanted(sample)
    }


def _transforms(name: str, operands: Operands, geometry: Geometry) -> Doubles:
    """The error that Winograd's algorithm may add to an output."""
    output, image, weight = operands
    if geometry.transposed:
        output, image = image, output
    kind = Transformed(
        kernel=weight.shape[2:],
        padding=geometry.padding,
        dilation=geometry.dilation,
        groups=geometry.groups,
    )
    if name == "grad_weight":
        return kind.weight_error(image, output)
    if geometry.transposed:
        return kind.output_error(image, weight, output.shape[2:])
    return kind.image_error(output, weight, image.shape[2:])


def _expectation(
    value: Doubles,
    size: Doubles,
    *,
    terms: int,
    transforms: Doubles | None,
    name: str,
    sample: Sample,
) -> Expectation:
    if sample.profile == EXACT:
        dtype = sample.outputs[name].dtype
        return expect(value, size, terms=terms, roundings=(dtype,), unit=REFERENCE_UNIT)
    roundings = _roundings(sample)[name]
    found = expect(value, size, terms=terms, roundings=roundings, transforms=transforms)
    if sample.profile in SATURATING and DataType.FLOAT16 in roundings:
        within = saturate(found.value)
        return Expectation(value=within, tolerance=found.tolerance)
    return found


def _wanted(sample: Sample) -> list[str]:
    names = ("grad_input", "grad_weight", "grad_bias")
    mask = sample.scalars["output_mask"]
    return [name for name, asked in zip(names, mask, strict=True) if asked]


def _terms(sample: Sample) -> dict[str, int]:
    """Products in a sum of each gradient."""
    shapes = {name: tensor.shape for name, tensor in sample.inputs.items()}
    weight, transposed = shapes["weight"], sample.scalars["transposed"]
    channels = weight[1] if transposed else weight[0] // sample.scalars["groups"]
    batch, _, *pixels = shapes["input" if transposed else "grad_output"]
    return {
        "grad_input": channels * prod(weight[2:]),
        "grad_weight": batch * prod(pixels),
        "grad_bias": batch * prod(shapes["grad_output"][2:]),
    }


def _roundings(sample: Sample) -> dict[str, tuple[DataType, ...]]:
    """The dtypes that a float32 sum of each gradient is rounded to, in order."""
    computed = computed_dtype(sample, _OPERANDS)
    dtypes = {name: tensor.dtype for name, tensor in sample.outputs.items()}
    first = {"grad_input": computed, "grad_bias": sample.inputs["grad_output"].dtype}
    in_16_bits = sample.scalars["groups"] > 1 and computed != DataType.FLOAT
    if in_16_bits and dtypes.get("grad_weight") == DataType.FLOAT:
        first["grad_weight"] = DataType.FLOAT16
    return {name: (first.get(name, dtype), dtype) for name, dtype in dtypes.items()}


def _expected_of_nothing(sample: Sample) -> dict[str, Expectation]:
    """Zeros for every gradient of the mask."""
    zeros = {name: np.zeros(sample.outputs[name].shape) for name in _wanted(sample)}
    return {name: Expectation(value=zero, tolerance=zero) for name, zero in zeros.items()}


def _contributions(
    input_size: Index, kernel_size: Index, output_size: Index, geometry: Geometry
) -> Iterator[tuple[Slices, Index, Slices]]:
    """Positions of input and output that each tap of the weight brings together."""
    larger, smaller = input_size, output_size
    if geometry.transposed:
        larger, smaller = output_size, input_size
    for tap in product(*map(range, kernel_size)):
        starts = [
            t * d - pad for t, d, pad in zip(tap, geometry.dilation, geometry.padding, strict=True)
        ]
        axes = zip(starts, geometry.stride, smaller, larger, strict=True)
        met = [_met(*axis) for axis in axes]
        places, reached = (tuple(slices) for slices in zip(*met, strict=True))
        yield (places, tap, reached) if geometry.transposed else (reached, tap, places)


def _met(start: int, stride: int, places: int, size: int) -> tuple[slice, slice]:
    """Along an axis: the places p with 0 <= start + p * stride < size, and what they reach."""
    first = max(-(start // stride), 0)
    behind = max(min((size - start - 1) // stride + 1, places), first)
    reached = start + first * stride
    return slice(first, behind), slice(reached, reached + (behind - first) * stride, stride)


def _groups(
    inputs: int, outputs: int, weight: NDArray[np.float64], geometry: Geometry
) -> Iterator[tuple[slice, slice, slice]]:
    """Channels of input and output, and rows of weight, of each group."""
    for group in range(geometry.groups):
        yield (
            _share(inputs, group, geometry.groups),
            _share(outputs, group, geometry.groups),
            _share(weight.shape[0], group, geometry.groups),
        )


def _share(channels: int, group: int, groups: int) -> slice:
    return slice(group * channels // groups, (group + 1) * channels // groups)


def _at(first: slice, second: slice, position: Index | Slices) -> tuple[slice | int, ...]:
    return (first, second, *position)
