"""A padded copy of a block of an image, split into the phases of a stride.

    image (channels, batch, positions)  ->  (channels, phases, entries of the block, extent)

Position z of phase r along an axis is the image's z * stride + r + origin, and PADDING where the
image has none. Rows of one phase are contiguous, so a tap's columns are runs of the copy. Beyond a
row's end, a tap reads the padding at the start of the next row, or the padding behind the copy.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.rows import copy_rows_from
from opserve_kernels.algorithms.codegen.transfers import fill
from opserve_kernels.algorithms.correlation.layout import WHOLE
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load
from opserve_kernels.sums import PADDING
from opserve_kernels.views import View

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Triple = tuple[int, int, int]


@compiled()
def _inside(size: int, stride: int, origin: int, extent: int) -> tuple[int, int]:
    """The image's positions first .. last-1 of a phase, whose origin is given."""
    first = min(max(0, -(origin // stride)), extent)
    return first, max(first, min((size - 1 - origin) // stride + 1, extent))


@compiled()
def _phase_along(stride: Triple, phase: int) -> Triple:
    return phase // stride[2] // stride[1], phase // stride[2] % stride[1], phase % stride[2]


@compiled()
def _copy_phase(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    source: Floats,
    scratch: Floats,
    channels: Triple,
    places: tuple[int, int],
    size: Triple,
    stride: Triple,
    origin: Triple,
    extent: Triple,
) -> None:
    """Copies the image's values of one phase; arguments as for pad_channels."""
    # Padding is not written here: the caller has filled the copy with it.
    front, back = _inside(size[0], stride[0], origin[0], extent[0])
    top, bottom = _inside(size[1], stride[1], origin[1], extent[1])
    left, right = _inside(size[2], stride[2], origin[2], extent[2])
    rows, columns = bottom - top, right - left
    row_step, extent_step = stride[1] * size[2], extent[2]
    # Rows without padding between them, in source and copy, are one run.
    if stride[2] == 1 and columns == row_step == extent_step:
        rows, columns = 1, rows * columns
    for d in range(front, back):
        line = (d * stride[0] + origin[0]) * size[1] + top * stride[1] + origin[1]
        start = places[0] + line * size[2] + left * stride[2] + origin[2]
        place = places[1] + (d * extent[1] + top) * extent[2] + left
        pitches = (start, channels[1], row_step, place, channels[2], extent_step)
        copy_rows_from(source, scratch, (*pitches, channels[0], rows, columns), stride[2])


@compiled()
def pad_channels(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    source: Floats,
    scratch: Floats,
    channels: Triple,
    places: tuple[int, int],
    size: Triple,
    stride: Triple,
    origin: Triple,
    extent: Triple,
    phase_pitch: int,
) -> None:
    """Copies the image's values into the padded copies of some channels; padding stays as it is.

    Args:
        source: Array of the image.
        scratch: The workspace.
        channels: How many, and their distances in the image and in the copies.
        places: Start of the first channel in the image, and of its copy of phase 0.
        size: Of the image.
        stride: Phases along each axis.
        origin: The position at which the copy begins.
        extent: Positions of a phase.
        phase_pitch: Distance of two phases.
    """
    # A phase is the image moved by less than a stride: the same copy with another origin.
    for phase in range(stride[0] * stride[1] * stride[2]):
        d, h, w = _phase_along(stride, phase)
        start, to = (origin[0] + d, origin[1] + h, origin[2] + w), places[1] + phase * phase_pitch
        _copy_phase(source, scratch, channels, (places[0], to), size, stride, start, extent)


@compiled()
def load_padded(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    view: View,
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
    """Fills the padded copy of one channel of one entry of the batch.

    Args:
        scratch: The workspace.
        floats: The buffer as float32 values.
        halves: The same as 16-bit patterns.
        view: Of the image.
        number_format: Format that values are rounded to.
        first: Index in the view of the channel's first position.
        axis: The outermost axis that is longer than 1; only its rows that are needed are read.
        size: Of the image.
        stride: Phases along each axis.
        origin: The position at which the copy begins.
        extent: Positions of a phase.
        line: Place for the loaded rows; WHOLE if they already are the copy.
        target: Where the copy of phase 0 starts.
        phase_pitch: Distance of two phases.
    """
    # Only the rows that the block needs are loaded and converted, once for all phases.
    inner = size[1] * size[2] if axis == 0 else (size[2] if axis == 1 else 1)
    low = min(max(origin[axis], 0), size[axis])
    high = max(low, min(origin[axis] + extent[axis] * stride[axis], size[axis]))
    count, begin = (high - low) * inner, first + low * inner
    place = target if line == WHOLE else line
    load(floats, halves, view, number_format, begin, scratch[place : place + count])
    if line == WHOLE:
        return
    rows = (
        high - low if axis == 0 else size[0],
        high - low if axis == 1 else size[1],
        high - low if axis == WIDTH else size[2],
    )
    start = (
        origin[0] - (low if axis == 0 else 0),
        origin[1] - (low if axis == 1 else 0),
        origin[2] - (low if axis == WIDTH else 0),
    )
    positions = extent[0] * extent[1] * extent[2]
    for phase in range(stride[0] * stride[1] * stride[2]):
        fill(scratch, target + phase * phase_pitch, positions, PADDING)
    places = (line, target)
    pad_channels(scratch, scratch, (1, 0, 0), places, rows, stride, start, extent, phase_pitch)
