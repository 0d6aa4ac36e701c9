"""Whether a case shows anything: enough golden values are not 0, of those that sum any products.

A case whose golden values are mostly 0 lets wrong results pass. Elements that no product reaches,
such as positions between strides and taps that meet padding alone, are 0 by the shapes of the call
and say nothing about it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.calls import sides
from opserve_kernels.cases.case import Case, Kind
from opserve_kernels.convolution import output_size
from opserve_kernels.verdict.dtypes import Doubles
from opserve_kernels.verdict.verdict import Check, Status

TRUST = 0.3  # share of the golden values that products reach, which must not be 0; benchdnn's
FEW = 32  # elements; fewer may all be 0 by chance, so that they count with the case's others
_SPATIAL_2D = 2
_Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """What of an axis is in some product.

    Attributes:
        taps: Taps of the kernel.
        small: Positions of the image that has one for each place of the kernel.
        large: Positions of the image that the kernel moves over.
    """

    taps: int
    small: int
    large: int


def check_trust(case: Case, golden: Mapping[str, Doubles]) -> Iterator[Check]:
    """A check of each output; MISTRUSTED where too few golden values are not 0.

    Args:
        case: Of integers; others are not checked, since their sums are hardly ever 0.
        golden: Golden values by output; of a projection its sums are asked for.
    """
    elements: Mapping[str, int] = reached_elements(case) if case.kind is Kind.INTEGER else {}
    reached = {
        name: count * golden[name].size // max(1, prod(case.tensors[name].shape))
        for name, count in elements.items()
    }
    shown = {name: int(np.count_nonzero(golden[name])) for name in reached}
    whole = sum(shown.values()), sum(reached.values())
    for name, most in reached.items():
        nonzero, counted = (shown[name], most) if most >= FEW else whole
        trusted = nonzero >= TRUST * counted
        whose = name if most >= FEW else "all outputs"
        yield Check(
            name="trust",
            tensor=name,
            status=Status.PASSED if trusted else Status.MISTRUSTED,
            reason=f"{whose}: {nonzero} of {counted} sums are not 0, {TRUST:.0%} needed",
            elements=0 if trusted else counted - nonzero,
        )


def reached_elements(case: Case) -> Mapping[str, int]:
    """How many elements of each output sum products, by its shapes; of other operators nothing."""
    shapes = {name: tensor.shape for name, tensor in case.tensors.items()}
    if case.operator not in {"convolution_backward", "im2col_backward"}:
        return {}
    if any(prod(shapes[name]) == 0 for name in case.inputs):
        return dict.fromkeys(case.written, 0)
    axes = list(_axes(case))
    if case.operator == "im2col_backward":
        whole = prod(shapes["out"][:-_SPATIAL_2D])
        return {"out": whole * prod(axis.large for axis in axes)}
    image = [axis.small if case.arguments["transposed"] else axis.large for axis in axes]
    found = {
        "grad_input": prod(shapes["input"][:2]) * prod(image),
        "grad_weight": prod(shapes["weight"][:2]) * prod(axis.taps for axis in axes),
        "grad_bias": shapes["grad_output"][1],
    }
    return {name: found[name] for name in case.written}


def _axes(case: Case) -> Iterator[_Reach]:
    """Of the spatial axes, in their order."""
    given = cast("Mapping[str, tuple[int, ...]]", case.arguments)
    stride, dilation = given["stride"], given["dilation"]
    before = tuple(side for side, _ in sides(given["padding"], len(stride)))
    if case.operator == "im2col_backward":
        large, taps = given["input_size"], given["kernel_size"]
        small = tuple(
            output_size(size, kernel=tap, stride=step, padding=2 * side, dilation=apart)
            for size, tap, step, side, apart in zip(
                large, taps, stride, before, dilation, strict=True
            )
        )
    else:
        images = (case.tensors[name].shape[2:] for name in ("grad_output", "input"))
        small, large = reversed(tuple(images)) if case.arguments["transposed"] else images
        taps = case.tensors["weight"].shape[2:]
    for sizes in zip(small, large, taps, stride, dilation, before, strict=True):
        yield _reach(*sizes)


def _reach(small: int, large: int, taps: int, stride: int, dilation: int, before: int) -> _Reach:
    """Tap t at place p lies at p * stride + t * dilation - before: for each tap, which p are in."""
    offsets = np.arange(taps, dtype=np.int64) * dilation - before
    first = np.maximum(0, -(offsets // stride))
    last = np.minimum(small - 1, (large - 1 - offsets) // stride)
    met = first <= last
    first, last, offsets = first[met], last[met], offsets[met]
    step = min(stride, large)  # beyond the image a stride is as good as its size
    ends = first * stride + offsets + (last - first) * step
    return _Reach(
        taps=int(np.count_nonzero(met)),
        small=_covered(small, first, last, 1),
        large=_covered(large, first * stride + offsets, ends, step),
    )


def _covered(size: int, first: _Places, last: _Places, step: int) -> int:
    """How many of `size` positions lie in first, first + step, ... last of some row."""
    rows = -(-size // step) + 1
    begun = np.zeros(rows * step, np.int64)
    np.add.at(begun, first, 1)
    np.add.at(begun, last + step, -1)
    return int(np.count_nonzero(np.cumsum(begun.reshape(rows, step), axis=0)))
