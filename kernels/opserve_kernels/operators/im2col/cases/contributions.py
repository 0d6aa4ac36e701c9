"""Number of elements of out that copy a pixel of the image."""

from collections.abc import Mapping
from math import prod
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.convolution import output_size

_SPATIAL = 2


def contributing(case: Case) -> Mapping[str, int]:
    """The number for out; 0 for an image without entries."""
    image = case.tensors["self"].shape
    return {"out": prod(image[:-_SPATIAL]) * prod(_copies(case, axis) for axis in range(_SPATIAL))}


def _copies(case: Case, axis: int) -> int:
    """Pairs of a position and a tap, along a spatial axis, that meet inside the image."""
    given = cast("Mapping[str, tuple[int, ...]]", case.arguments)
    size = case.tensors["self"].shape[axis - _SPATIAL]
    taps, stride, padding, dilation = (
        given[name][axis] for name in ("kernel_size", "stride", "padding", "dilation")
    )
    places = output_size(size, kernel=taps, stride=stride, padding=2 * padding, dilation=dilation)
    starts = (tap * dilation - padding for tap in range(taps))
    return sum(
        max(0, min(places, (size - 1 - start) // stride + 1) - max(0, -(start // stride)))
        for start in starts
    )
