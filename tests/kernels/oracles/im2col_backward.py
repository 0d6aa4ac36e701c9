"""Columns summed back into an image in float64, scattered from the contributions of im2col itself.

im2col copies image[n, c, i] to columns[n, (c, t), o] wherever i = o*stride + t*dilation - padding.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from kernels.oracles.expectation import REFERENCE_UNIT, Doubles, Expectation, expect
from kernels.oracles.rounding import saturate
from kernels.samples.sample import Bytes, Sample
from opserve_kernels.tensor import DataType

SATURATING = ("ascend910",)


def im2col(image: Doubles, scalars: Mapping[str, Any]) -> Doubles:
    """The forward operator: blocks of an image (N, C, H, W) as columns (N, C*kH*kW, L)."""
    high, wide = _positions(scalars)
    kernel = tuple(scalars["kernel_size"])
    columns = np.zeros((*image.shape[:2], *kernel, high, wide))
    for place, tap, (h, w) in _contributions(scalars):
        columns[(slice(None), slice(None), *tap, *place)] = image[:, :, h, w]
    return columns.reshape(image.shape[0], -1, high * wide)


def gradients(grad_output: Doubles, scalars: Mapping[str, Any]) -> Doubles:
    """The image (N, C, H, W) of columns (N, C*kH*kW, L)."""
    high, wide = _positions(scalars)
    kernel = tuple(scalars["kernel_size"])
    columns = grad_output.reshape(grad_output.shape[0], -1, *kernel, high, wide)
    height, width = scalars["input_size"]
    image: Doubles = np.zeros((*columns.shape[:2], height, width))
    for place, tap, (h, w) in _contributions(scalars):
        image[:, :, h, w] += columns[(slice(None), slice(None), *tap, *place)]
    return image


def magnitude(grad_output: Doubles, scalars: Mapping[str, Any]) -> Doubles:
    """The same sums over magnitudes."""
    return gradients(np.abs(grad_output), scalars)


def expected(sample: Sample, buffers: Mapping[str, Bytes]) -> dict[str, Expectation]:
    """Expected outputs of a sample's call; none where grad_output is empty."""
    columns = sample.logical(buffers)["grad_output"].astype(np.float64)
    if columns.size == 0:
        return {}
    out = sample.outputs["out"]
    batched = columns.reshape(-1, *columns.shape[-2:])
    with np.errstate(invalid="ignore"):
        value = gradients(batched, sample.scalars).reshape(out.shape)
        size = magnitude(batched, sample.scalars).reshape(out.shape)
    return {"out": _expectation(value, size, sample)}


def _expectation(value: Doubles, size: Doubles, sample: Sample) -> Expectation:
    """Sums are rounded to grad_output's dtype and cast to out's; on `reference` only to out's."""
    kernel_h, kernel_w = sample.scalars["kernel_size"]
    terms, out = kernel_h * kernel_w, sample.outputs["out"].dtype
    if sample.profile == "reference":
        return expect(value, size, terms=terms, roundings=(out,), unit=REFERENCE_UNIT)
    roundings = (sample.inputs["grad_output"].dtype, out)
    found = expect(value, size, terms=terms, roundings=roundings)
    if sample.profile in SATURATING and DataType.FLOAT16 in roundings:
        return Expectation(value=saturate(found.value), tolerance=found.tolerance)
    return found


def _positions(scalars: Mapping[str, Any]) -> tuple[int, int]:
    names = ("input_size", "kernel_size", "dilation", "padding", "stride")
    high, wide = (
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, dilation, padding, stride in zip(
            *(scalars[name] for name in names), strict=True
        )
    )
    return high, wide


def _contributions(
    scalars: Mapping[str, Any],
) -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Positions of columns, blocks and image that belong together."""
    high, wide = _positions(scalars)
    kernel_h, kernel_w = scalars["kernel_size"]
    height, width = scalars["input_size"]
    for i, j, a, b in product(range(high), range(wide), range(kernel_h), range(kernel_w)):
        h = i * scalars["stride"][0] + a * scalars["dilation"][0] - scalars["padding"][0]
        w = j * scalars["stride"][1] + b * scalars["dilation"][1] - scalars["padding"][1]
        if 0 <= h < height and 0 <= w < width:
            yield (i, j), (a, b), (h, w)
