"""Gradients in NumPy, tap by tap: what a right kernel sums, and what wrong ones change of it.

Of the two images of a convolution the large one has the positions p*stride + t*dilation - padding
that meet position p of the small one: the input is the large one, the output if transposed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.case import Case

Array = NDArray[Any]
Row = tuple[int, ...]
Operands = Mapping[str, Array]


def as_it_is(array: Array) -> Array:
    """Leaves an array unchanged."""
    return array


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call as a kernel reads it.

    Attributes:
        case: What is called.
        operands: "grad_output", "input" and "weight" of a convolution, in plain order, rounded as
            they are multiplied, in the accumulator's dtype; zeros for one that is not given. As
            "bias" grad_output as it is given; as "columns" (N, C, taps ..., positions ...); as
            "pixels" an image to copy; as "added" a value of each channel of the gradient "image".
        gradients: The case's output that each gradient is: "image", "weight", "bias", "fold"; and
            the copy "unfold".
        channels: Of grad_output; those beyond fill a block.
        stride: By spatial dimension, as are all rows.
        padding: Before the image.
        after: Behind it.
        dilation: Distance of taps.
        output_padding: Of a transposed convolution.
        groups: Groups of channels.
        transposed: Whether the convolution is a transposed one.
        columns: Taps and positions of columns that are copied from "pixels".
        kept: What becomes of a sum whenever products were added to it.
        order: Axes of a gradient in the order of its output, where that is another.
        laid: A gradient as its output has it, but for the shape.
    """

    case: Case
    operands: Operands
    gradients: Mapping[str, str]
    channels: int
    stride: Row
    padding: Row
    after: Row
    dilation: Row
    output_padding: Row = ()
    groups: int = 1
    transposed: bool = False
    columns: Row = ()
    kept: Callable[[Array], Array] = as_it_is
    order: Mapping[str, Row] = field(default_factory=dict[str, Row])
    laid: Callable[[Array], Array] = as_it_is


def sums_of(call: Call) -> dict[str, Array]:
    """The gradients that are asked for, not yet rounded."""
    found = {"image": _image, "weight": _weight, "bias": _bias}
    found |= {"fold": _fold, "unfold": _unfold}
    return {name: found[name](call) for name in call.gradients}


def with_bias(image: Array, added: Array) -> Array:
    """An image plus a value of each channel."""
    total: Array = image + added.reshape(1, -1, *(1,) * (image.ndim - 2))
    return total


def _image(call: Call) -> Array:
    small, large, weight = _grouped(call)
    total = np.zeros((small if call.transposed else large).shape, small.dtype)
    for tap, inside, outside in _reached(call, small.shape[3:], large.shape[3:], weight.shape[3:]):
        taps = weight[_last(tap)]
        if call.transposed:
            part = _times(taps, large[outside])
            total[inside] = call.kept(total[inside] + part)
        else:
            part = _times(taps.swapaxes(-1, -2), small[inside])
            total[outside] = call.kept(total[outside] + part)
    image = total.reshape(call.operands["input"].shape)
    added = call.operands.get("added")
    return image if added is None else with_bias(image, added)


def _weight(call: Call) -> Array:
    small, large, weight = _grouped(call)
    total = np.zeros(weight.shape, small.dtype)
    for tap, inside, outside in _reached(call, small.shape[3:], large.shape[3:], weight.shape[3:]):
        left, right = _flat(small[inside]), _flat(large[outside])
        for entry in range(left.shape[0]):
            part = left[entry] @ right[entry].swapaxes(-1, -2)
            at = _last(tap)
            total[at] = call.kept(total[at] + part)
    return total.reshape(call.operands["weight"].shape)


def _bias(call: Call) -> Array:
    given = call.operands["bias"]
    sums: Array = given.sum(axis=(0, *range(2, given.ndim)))
    is_zero = call.case.operator == "convolution_backward" and not call.operands["input"].size
    return np.zeros_like(sums) if is_zero else sums


def _fold(call: Call) -> Array:
    columns, image = call.operands["columns"], np.zeros_like(call.operands["input"])
    kernel, places = columns.shape[2:4], columns.shape[4:]
    for tap, inside, outside in _reached(call, places, image.shape[2:], kernel):
        part = columns[_third(tap)][inside]
        image[outside] = call.kept(image[outside] + part)
    return image


def _unfold(call: Call) -> Array:
    image = call.operands["pixels"]
    kernel, places = call.columns[:2], call.columns[2:]
    columns = np.zeros((*image.shape[:2], *call.columns), image.dtype)
    for tap, inside, outside in _reached(call, places, image.shape[2:], kernel):
        columns[_third(tap)][inside] = image[outside]
    return columns


def _grouped(call: Call) -> tuple[Array, Array, Array]:
    """Small image (N, G, A, ...), large one (N, G, B, ...) and weight (G, A, B, ...)."""
    small, large = call.operands["grad_output"], call.operands["input"]
    if call.transposed:
        small, large = large, small
    weight, groups = call.operands["weight"], call.groups
    return (
        small.reshape(small.shape[0], groups, small.shape[1] // groups, *small.shape[2:]),
        large.reshape(large.shape[0], groups, large.shape[1] // groups, *large.shape[2:]),
        weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]),
    )


Place = Any  # slices behind an ellipsis, which NumPy's stubs know as no index of every array


def _last(tap: Row) -> Place:
    return (..., *tap)


def _third(tap: Row) -> Place:
    return (slice(None), slice(None), *tap)


def _reached(call: Call, small: Row, large: Row, kernel: Row) -> Iterator[tuple[Row, Place, Place]]:
    """Each tap with the positions of both images that meet in it."""
    rows = list(zip(small, large, call.stride, call.padding, call.dilation, strict=True))
    for tap in product(*map(range, kernel)):
        inside: list[slice] = []
        outside: list[slice] = []
        for (few, many, step, padding, apart), place in zip(rows, tap, strict=True):
            start = place * apart - padding
            first = max(0, -(start // step))
            last = min(few, (many - 1 - start) // step + 1)
            count = max(0, last - first)
            begin = start + first * step
            inside.append(slice(first, first + count))
            outside.append(slice(begin, begin + (count - 1) * step + 1 if count else begin, step))
        if all(part.stop > part.start for part in inside):
            yield tap, (..., *inside), (..., *outside)


def _times(taps: Array, image: Array) -> Array:
    """(G, R, C) times (N, G, C, ...): (N, G, R, ...)."""
    batch, groups, _, *spatial = image.shape
    product_: Array = taps @ _flat(image)
    return product_.reshape(batch, groups, taps.shape[-2], *spatial)


def _flat(image: Array) -> Array:
    """The spatial dimensions as one."""
    return image.reshape(*image.shape[:3], int(np.prod(image.shape[3:])))
