"""The gradient of a deconvolution's weight in float64, one contribution after the other.

With oc, ic channels within group g, a deconvolution adds x[b, i, j, ic] * w[g, row(oc, r, s), ic]
to y[b, i*stride_h - pad_u + r*dilation_h, j*stride_w - pad_l + s*dilation_w, oc] wherever that is
inside y; row(oc, r, s) is (oc*kernel_h + r)*kernel_w + s, or (r*kernel_w + s)*(out_c/group) + oc.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from kernels.oracles.expectation import (
    ACCUMULATOR_UNIT,
    REFERENCE_UNIT,
    Doubles,
    Expectation,
    expect,
)
from kernels.oracles.transforms import Transformed
from kernels.samples.sample import Bytes, Sample

Shape = tuple[int, int, int, int]

_PARAM = (
    *("input_batch", "in_h", "in_w", "in_c", "batch", "out_h", "out_w", "out_c"),
    *("kernel_h", "kernel_w", "stride_h", "stride_w", "pad_u", "pad_l"),
    *("dilation_h", "dilation_w", "group"),
)
_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "group"), 1),
    **dict.fromkeys(("pad_u", "pad_l"), 0),
    "row_order": "oc_kh_kw",
}


def numbers_of(scalars: Mapping[str, Any]) -> dict[str, Any]:
    """Kernel, stride, padding, dilation, group and row order of a call, from either form."""
    numbers = {**_DEFAULTS, **scalars}
    if "param" in scalars:
        numbers.update(zip(_PARAM, scalars["param"], strict=False))
    return numbers


def forward(x: Doubles, weight: Doubles, shape: Shape, scalars: Mapping[str, Any]) -> Doubles:
    """The deconvolution itself: an output of any NHWC shape."""
    output = np.zeros(shape)
    for here, there, at in _contributions(x.shape, shape, numbers_of(scalars)):
        output[there] += x[here] @ weight[at].T
    return output


def weight_gradient(dy: Doubles, x: Doubles, scalars: Mapping[str, Any]) -> Doubles:
    """dw of shape (group, out_c/group*kernel_h*kernel_w, in_c/group)."""
    numbers = numbers_of(scalars)
    group, taps = numbers["group"], numbers["kernel_h"] * numbers["kernel_w"]
    gradient = np.zeros((group, dy.shape[3] // group * taps, x.shape[3] // group))
    for here, there, at in _contributions(x.shape, dy.shape, numbers):
        gradient[at] += dy[there].T @ x[here]
    return gradient


def expected(
    sample: Sample, buffers: Mapping[str, Bytes], *, transformed: bool = False
) -> dict[str, Expectation]:
    """Expected outputs of a sample's call, transformed by Winograd's algorithm or not."""
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    dy, x = given["dy_data"], given["x_data"]
    with np.errstate(invalid="ignore"):
        value = weight_gradient(dy, x, sample.scalars)
        magnitude = weight_gradient(np.abs(dy), np.abs(x), sample.scalars)
    terms, dtype = x.shape[0] * x.shape[1] * x.shape[2], sample.outputs["dw_data"].dtype
    unit = REFERENCE_UNIT if sample.profile == "reference" else ACCUMULATOR_UNIT
    added = _transforms(dy, x, numbers_of(sample.scalars)) if transformed else None
    found = expect(value, magnitude, terms=terms, roundings=(dtype,), unit=unit, transforms=added)
    return {"dw_data": found}


def _transforms(dy: Doubles, x: Doubles, numbers: Mapping[str, Any]) -> Doubles:
    """The error of Winograd's algorithm: dy is the image of a convolution whose output is x."""
    group, taps = numbers["group"], (numbers["kernel_h"], numbers["kernel_w"])
    kind = Transformed(
        kernel=taps,
        padding=(numbers["pad_u"], numbers["pad_l"]),
        dilation=(numbers["dilation_h"], numbers["dilation_w"]),
        groups=group,
    )
    error = kind.weight_error(np.moveaxis(dy, 3, 1), np.moveaxis(x, 3, 1))
    ins, outs = x.shape[3] // group, dy.shape[3] // group
    order = (0, 3, 4, 2, 1) if numbers["row_order"] == "kh_kw_oc" else (0, 2, 3, 4, 1)
    return error.reshape(group, ins, outs, *taps).transpose(order).reshape(group, -1, ins)


def _contributions(
    x_shape: tuple[int, ...], y_shape: tuple[int, ...], numbers: Mapping[str, Any]
) -> Iterator[tuple[Any, Any, Any]]:
    """Places in x (batch, ic), in y (batch, oc) and in w (oc, ic) that belong together."""
    group, (kernel_h, kernel_w) = numbers["group"], (numbers["kernel_h"], numbers["kernel_w"])
    ins, outs = x_shape[3] // group, y_shape[3] // group
    grid = product(range(x_shape[1]), range(x_shape[2]), range(kernel_h), range(kernel_w))
    for i, j, r, s in grid:
        h = i * numbers["stride_h"] - numbers["pad_u"] + r * numbers["dilation_h"]
        w = j * numbers["stride_w"] - numbers["pad_l"] + s * numbers["dilation_w"]
        if not (0 <= h < y_shape[1] and 0 <= w < y_shape[2]):
            continue
        rows = [_row(oc, r, s, outs, numbers) for oc in range(outs)]
        for g in range(group):
            here = (slice(None), i, j, slice(g * ins, (g + 1) * ins))
            there = (slice(None), h, w, slice(g * outs, (g + 1) * outs))
            yield here, there, (g, rows)


def _row(oc: int, r: int, s: int, outs: int, numbers: Mapping[str, Any]) -> int:
    kernel_h: int = numbers["kernel_h"]
    kernel_w: int = numbers["kernel_w"]
    if numbers["row_order"] == "kh_kw_oc":
        return (r * kernel_w + s) * outs + oc
    return (oc * kernel_h + r) * kernel_w + s
