"""Positions along a spatial axis that are in some product."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributions:
    """Counts of positions along an axis that are in some product.

    Attributes:
        taps: Taps of the kernel.
        small: Positions of the image with one position for each place of the kernel.
        large: Positions of the image that the kernel moves over.
    """

    taps: int
    small: int
    large: int


def contributions_of(
    small: int, large: int, taps: int, stride: int, dilation: int, before: int
) -> Contributions:
    """Counts the positions of an axis that are in some product.

    Tap t at place p is at position p * stride + t * dilation - before.
    """
    offsets = np.arange(taps, dtype=np.int64) * dilation - before
    first = np.maximum(0, -(offsets // stride))
    last = np.minimum(small - 1, (large - 1 - offsets) // stride)
    met = first <= last
    first, last, offsets = first[met], last[met], offsets[met]
    step = min(stride, large)  # beyond the image a stride is as good as its size
    ends = first * stride + offsets + (last - first) * step
    return Contributions(
        taps=int(np.count_nonzero(met)),
        small=_covered(small, first, last, 1),
        large=_covered(large, first * stride + offsets, ends, step),
    )


def _covered(size: int, first: _Places, last: _Places, step: int) -> int:
    """Number of positions below `size` in the ranges first, first + step, ... last."""
    rows = -(-size // step) + 1
    begun = np.zeros(rows * step, np.int64)
    np.add.at(begun, first, 1)
    np.add.at(begun, last + step, -1)
    return int(np.count_nonzero(np.cumsum(begun.reshape(rows, step), axis=0)))
