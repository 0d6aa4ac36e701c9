"""A padded copy of a block of an image, split into the phases of a stride.

    image (channels, batch, positions)  ->  (channels, phases, entries of the block, extent)

Position z of phase r along an axis is the image's z * stride + r + origin, and PADDING where there
is none. Rows of one phase are contiguous, so that a tap's columns are runs of the copy.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.transfers import copy_strided, fill, load_values
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]


@compiled("UniTuple(int64, 2)(int64, int64, int64, int64)")
def _inside(size: int, stride: int, origin: int, extent: int) -> tuple[int, int]:
    """The positions first .. last-1 of a phase that the image has; origin is that of the phase."""
    first = min(max(0, -(origin // stride)), extent)
    return first, max(first, min((size - 1 - origin) // stride + 1, extent))


@compiled(
    "void(float32[::1], int64, UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3), "
    "UniTuple(int64, 3), int64)"
)
def _split(  # noqa: PLR0913, PLR0917  # an array, places and triples
    scratch: Floats,
    line: int,
    size: Triple,
    stride: Triple,
    origin: Triple,
    extent: Triple,
    target: int,
) -> None:
    """One phase of a channel: image rows (size) at `line` to padded rows (extent) at `target`."""
    left, right = _inside(size[2], stride[2], origin[2], extent[2])
    for d in range(extent[0]):
        image_d = d * stride[0] + origin[0]
        for h in range(extent[1]):
            image_h = h * stride[1] + origin[1]
            row = target + (d * extent[1] + h) * extent[2]
            if image_d < 0 or image_d >= size[0] or image_h < 0 or image_h >= size[1]:
                fill(scratch, row, extent[2], PADDING)
                continue
            start = line + (image_d * size[1] + image_h) * size[2]
            fill(scratch, row, left, PADDING)
            copy_strided(
                scratch, start + left * stride[2] + origin[2], stride[2], row + left, right - left
            )
            fill(scratch, row + right, extent[2] - right, PADDING)


@compiled("UniTuple(int64, 3)(UniTuple(int64, 3), int64)")
def _phase_along(stride: Triple, phase: int) -> Triple:
    return phase // stride[2] // stride[1], phase // stride[2] % stride[1], phase % stride[2]


@compiled(
    "void(float32[::1], float32[::1], uint16[::1], int64[::1], int64, int64, int64, "
    "UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3), "
    "int64, int64, int64)"
)
def load_padded(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    view: Integers,
    number_format: int,
    first: int,
    axis: int,
    size: Triple,
    stride: Triple,
    origin: Triple,
    extent: Triple,
    line: int,
    target: int,
    phase_pitch: int,
) -> None:
    """The padded copy of one channel of one entry of the batch.

    Args:
        scratch: The workspace.
        floats: The buffer as float32 values.
        halves: The same as 16-bit patterns.
        view: Of the image.
        number_format: What values are rounded to.
        first: Index in the view of the channel's first position.
        axis: The outermost that is longer than 1; only rows of it that are needed are read.
        size: Of the image.
        stride: Phases along each axis.
        origin: The position that the copy begins with.
        extent: Positions of a phase.
        line: Where the rows that are read fit; -1 if they are the copy as they are.
        target: Where the copy of phase 0 starts.
        phase_pitch: From one phase to the next.
    """
    inner = size[1] * size[2] if axis == 0 else (size[2] if axis == 1 else 1)
    low = min(max(origin[axis], 0), size[axis])
    high = max(low, min(origin[axis] + extent[axis] * stride[axis], size[axis]))
    count = (high - low) * inner
    place = target if line < 0 else line
    load_values(floats, halves, view, number_format, first + low * inner, scratch, place, count)
    if line < 0:
        return
    rows = (
        high - low if axis == 0 else size[0],
        high - low if axis == 1 else size[1],
        high - low if axis == WIDTH else size[2],
    )
    for phase in range(stride[0] * stride[1] * stride[2]):
        d, h, w = _phase_along(stride, phase)
        start = (
            origin[0] + d - (low if axis == 0 else 0),
            origin[1] + h - (low if axis == 1 else 0),
            origin[2] + w - (low if axis == WIDTH else 0),
        )
        _split(scratch, line, rows, stride, start, extent, target + phase * phase_pitch)
