"""Gradients in NumPy, tap by tap: what a right kernel sums, and what wrong ones change of it.

Of the two images of a convolution the large one has the positions p*stride + t*dilation - padding
that meet position p of the small one: the input is the large one, the output if transposed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.case import Case

Array = NDArray[Any]
Row = tuple[int, ...]
Operands = Mapping[str, Array]
Kept = Callable[[Array], Array]
_CONVOLUTION = "convolution_backward"
_SPATIAL_2D = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call as a kernel reads it.

    Attributes:
        case: What is called.
        operands: The inputs, rounded as they are multiplied, in the accumulator's dtype; as "bias"
            grad_output as it is given.
        stride: By spatial dimension, as are all rows.
        padding: Before the image.
        after: Behind it.
        dilation: Distance of taps.
        output_padding: Of a transposed convolution.
        groups: Groups of channels.
        transposed: Whether the convolution is a transposed one.
        kept: What becomes of a sum whenever products were added to it.
    """

    case: Case
    operands: Operands
    stride: Row
    padding: Row
    after: Row
    dilation: Row
    output_padding: Row
    groups: int
    transposed: bool
    kept: Kept


def call_of(case: Case, operands: Operands) -> Call:
    """The call that a case describes."""
    given = cast("Mapping[str, Any]", case.arguments)
    padding, axes = given["padding"], len(given["stride"])
    is_by_side = axes == _SPATIAL_2D and len(padding) > axes
    return Call(
        case=case,
        operands=operands,
        stride=given["stride"],
        padding=padding[::2] if is_by_side else padding,
        after=padding[1::2] if is_by_side else padding,
        dilation=given["dilation"],
        output_padding=given.get("output_padding", (0,) * axes),
        groups=given.get("groups", 1),
        transposed=given.get("transposed", False),
        kept=lambda total: total,
    )


def sums_of(call: Call) -> dict[str, Array]:
    """The outputs that are written, not yet rounded."""
    if call.case.operator != _CONVOLUTION:
        return {"out": _fold(call)}
    found = {"grad_input": _grad_input, "grad_weight": _grad_weight, "grad_bias": _grad_bias}
    return {name: found[name](call) for name in call.case.written}


def _grad_input(call: Call) -> Array:
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
    return total.reshape(call.case.tensors["grad_input"].shape)


def _grad_weight(call: Call) -> Array:
    small, large, weight = _grouped(call)
    total = np.zeros(weight.shape, small.dtype)
    for tap, inside, outside in _reached(call, small.shape[3:], large.shape[3:], weight.shape[3:]):
        left, right = _flat(small[inside]), _flat(large[outside])
        for entry in range(left.shape[0]):
            part = left[entry] @ right[entry].swapaxes(-1, -2)
            at = _last(tap)
            total[at] = call.kept(total[at] + part)
    return total.reshape(call.case.tensors["grad_weight"].shape)


def _grad_bias(call: Call) -> Array:
    given = call.operands["bias"]
    sums: Array = given.sum(axis=(0, *range(2, given.ndim)))
    is_empty = call.case.tensors["input"].tensor().element_count == 0
    return np.zeros_like(sums) if is_empty else sums


def _fold(call: Call) -> Array:
    out = call.case.tensors["out"].shape
    image = np.zeros((1, *out)[-4:], call.operands["grad_output"].dtype)
    kernel = cast("Row", call.case.arguments["kernel_size"])
    columns = call.operands["grad_output"].reshape(*image.shape[:2], *kernel, *_places(call.case))
    for tap, inside, outside in _reached(call, columns.shape[4:], image.shape[2:], kernel):
        part = columns[_third(tap)][inside]
        image[outside] = call.kept(image[outside] + part)
    return image.reshape(out)


def _places(case: Case) -> Row:
    """Blocks of an image by spatial dimension."""
    names = ("input_size", "kernel_size", "stride", "padding", "dilation")
    rows = (cast("Row", case.arguments[name]) for name in names)
    return tuple(
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, padding, dilation in zip(*rows, strict=True)
    )


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
