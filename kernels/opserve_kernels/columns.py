"""The matrix of columns of a convolution, a block of it at a time: gathered from an image, scattered into one.

Row r is tap r % taps of channel r // taps; column q is output position q of the batch, in row-major order. Entry
(r, q) is the image's value under that tap, and PADDING where the tap lies outside the image.

Images are contiguous (channels, batch, depth, height, width): a channel's row of the matrix then runs over the
batch without a break.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# Where opserve_kernels.convolution.Convolution.encode puts what.
BATCH, INPUT_CHANNELS, OUTPUT_CHANNELS, TAPS, INPUT_PIXELS, OUTPUT_PIXELS = range(6)
_INPUT, _OUTPUT, _KERNEL, _STRIDE, _PADDING, _DILATION = 6, 9, 12, 15, 18, 21
_DEPTH, _HEIGHT, _WIDTH = 0, 1, 2


@compiled("int64(int64[::1], int64, int64, int64)")
def _under_tap(geometry: Integers, axis: int, output: int, tap: int) -> int:
    """Position in the image under a tap, in one dimension; outside the image where it is padding."""
    stride, dilation = geometry[_STRIDE + axis], geometry[_DILATION + axis]
    return output * stride + tap * dilation - geometry[_PADDING + axis]


@compiled("int64(int64[::1], int64, int64, int64)")
def _image_row(geometry: Integers, row: int, batch: int, line: int) -> int:
    """Start, in the image, of the line that row `row` meets at an output line; -1 for padding.

    Args:
        geometry: The convolution.
        row: Of the matrix.
        batch: Entry of the batch.
        line: Output line: depth and height in one number.
    """
    kernel_h, kernel_w = geometry[_KERNEL + _HEIGHT], geometry[_KERNEL + _WIDTH]
    tap_line = row // kernel_w
    output_h = geometry[_OUTPUT + _HEIGHT]
    h = _under_tap(geometry, _HEIGHT, line % output_h, tap_line % kernel_h)
    tap_depth = tap_line // kernel_h % geometry[_KERNEL + _DEPTH]
    d = _under_tap(geometry, _DEPTH, line // output_h, tap_depth)
    depth, height = geometry[_INPUT + _DEPTH], geometry[_INPUT + _HEIGHT]
    width = geometry[_INPUT + _WIDTH]
    if h < 0 or h >= height or d < 0 or d >= depth:
        return -1
    channel = tap_line // (kernel_h * geometry[_KERNEL + _DEPTH])
    return (((channel * geometry[BATCH] + batch) * depth + d) * height + h) * width


@compiled("UniTuple(int64, 2)(int64[::1], int64, int64, int64)")
def _inside(geometry: Integers, tap: int, first: int, last: int) -> tuple[int, int]:
    """Of the output columns first .. last-1, those whose tap lies inside the image."""
    stride = geometry[_STRIDE + _WIDTH]
    before = -_under_tap(geometry, _WIDTH, 0, tap)
    start = max(first, -(-before // stride))
    stop = min(last, -(-(geometry[_INPUT + _WIDTH] + before) // stride))
    start = min(start, last)
    return start, max(start, stop)


@compiled("void(float32[::1], int64, float32[::1])")
def _copy_steps(source: Floats, step: int, target: Floats) -> None:
    if step == 1:
        for i in range(target.size):
            target[i] = source[i]
    else:
        for i in range(target.size):
            target[i] = source[i * step]


@compiled("boolean(float32[::1], int64[::1], int64, int64, int64, int64, float32[::1])")
def gather_columns(
    image: Floats, geometry: Integers, row: int, rows: int, pixel: int, pixels: int, block: Floats
) -> bool:
    """block[r, q] = entry (row + r, pixel + q) of the matrix of columns.

    Returns:
        Whether there is padding in the block.
    """
    width = geometry[_OUTPUT + _WIDTH]
    lines = geometry[_OUTPUT + _DEPTH] * geometry[_OUTPUT + _HEIGHT]
    stride = geometry[_STRIDE + _WIDTH]
    padded = False
    for r in range(row, row + rows):
        tap = r % geometry[_KERNEL + _WIDTH]
        q = pixel
        while q < pixel + pixels:
            w, line = q % width, q // width
            run = min(width - w, pixel + pixels - q)
            into = block[(r - row) * pixels + q - pixel :][:run]
            start = _image_row(geometry, r, line // lines, line % lines)
            first, last = _inside(geometry, tap, w, w + run)
            if start < 0:
                first = last = w + run
            into[: first - w] = PADDING
            into[last - w :] = PADDING
            padded |= last - first < run
            if first < last:
                source = image[start + _under_tap(geometry, _WIDTH, first, tap) :]
                _copy_steps(source, stride, into[first - w : last - w])
            q += run
    return padded


@compiled("void(float32[::1], float32[::1], int64)")
def _add_steps(source: Floats, target: Floats, step: int) -> None:
    if step == 1:
        for i in range(source.size):
            target[i] += source[i]
    else:
        for i in range(source.size):
            target[i * step] += source[i]


@compiled("void(float32[::1], int64[::1], int64, int64, int64, int64, float32[::1])")
def scatter_columns(
    block: Floats, geometry: Integers, row: int, rows: int, pixel: int, pixels: int, image: Floats
) -> None:
    """Adds every entry of a block to the image's value under its tap; padding is left out."""
    width = geometry[_OUTPUT + _WIDTH]
    lines = geometry[_OUTPUT + _DEPTH] * geometry[_OUTPUT + _HEIGHT]
    stride = geometry[_STRIDE + _WIDTH]
    for r in range(row, row + rows):
        tap = r % geometry[_KERNEL + _WIDTH]
        q = pixel
        while q < pixel + pixels:
            w, line = q % width, q // width
            run = min(width - w, pixel + pixels - q)
            start = _image_row(geometry, r, line // lines, line % lines)
            first, last = _inside(geometry, tap, w, w + run)
            if start >= 0 and first < last:
                source = block[(r - row) * pixels + q - pixel + first - w :][: last - first]
                _add_steps(source, image[start + _under_tap(geometry, _WIDTH, first, tap) :], stride)
            q += run
