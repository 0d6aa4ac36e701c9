"""The matrix of columns of a convolution, by blocks: gathered from an image, scattered into one.

Row r is tap r % taps of channel r // taps; column q is output position q of the batch, in
row-major order. Entry (r, q) is the image's value under that tap, and PADDING where the tap lies
outside the image.

Images are contiguous (channels, batch, depth, height, width): a row of the matrix then runs over
the batch without a break.
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


@compiled("UniTuple(int64, 4)(int64[::1], int64)")
def _tap_of(geometry: Integers, row: int) -> tuple[int, int, int, int]:
    """Channel of a row, and where its tap lies (depth, height, width) at output position 0."""
    kernel_d, kernel_h = geometry[_KERNEL + _DEPTH], geometry[_KERNEL + _HEIGHT]
    kernel_w = geometry[_KERNEL + _WIDTH]
    d = row // (kernel_w * kernel_h) % kernel_d * geometry[_DILATION + _DEPTH]
    h = row // kernel_w % kernel_h * geometry[_DILATION + _HEIGHT]
    w = row % kernel_w * geometry[_DILATION + _WIDTH]
    return (
        row // (kernel_w * kernel_h * kernel_d),
        d - geometry[_PADDING + _DEPTH],
        h - geometry[_PADDING + _HEIGHT],
        w - geometry[_PADDING + _WIDTH],
    )


@compiled("UniTuple(int64, 2)(int64[::1], int64)")
def _inside(geometry: Integers, tap_w: int) -> tuple[int, int]:
    """The output columns first .. last-1 whose tap lies between the image's left and right edge."""
    stride = geometry[_STRIDE + _WIDTH]
    first = max(0, -(tap_w // stride))
    return first, (geometry[_INPUT + _WIDTH] - 1 - tap_w) // stride + 1


@compiled("UniTuple(int64, 4)(int64[::1], int64)")
def _output_position(geometry: Integers, pixel: int) -> tuple[int, int, int, int]:
    """Batch entry, depth, height and width of an output position."""
    depth, height = geometry[_OUTPUT + _DEPTH], geometry[_OUTPUT + _HEIGHT]
    line, width = pixel // geometry[_OUTPUT + _WIDTH], pixel % geometry[_OUTPUT + _WIDTH]
    return line // (height * depth), line // height % depth, line % height, width


@compiled("UniTuple(int64, 3)(int64[::1], int64, int64, int64)")
def _next_line(geometry: Integers, batch: int, d: int, h: int) -> tuple[int, int, int]:
    if h + 1 < geometry[_OUTPUT + _HEIGHT]:
        return batch, d, h + 1
    if d + 1 < geometry[_OUTPUT + _DEPTH]:
        return batch, d + 1, 0
    return batch + 1, 0, 0


@compiled("int64(int64[::1], int64, int64, int64, int64, int64, int64)")
def _image_line(  # noqa: PLR0913, PLR0917  # integers
    geometry: Integers, channel: int, batch: int, d: int, h: int, tap_d: int, tap_h: int
) -> int:
    """Start, in the image, of the line under a tap at an output line; -1 where that is padding."""
    image_d = d * geometry[_STRIDE + _DEPTH] + tap_d
    image_h = h * geometry[_STRIDE + _HEIGHT] + tap_h
    depth, height = geometry[_INPUT + _DEPTH], geometry[_INPUT + _HEIGHT]
    if image_d < 0 or image_d >= depth or image_h < 0 or image_h >= height:
        return -1
    line = ((channel * geometry[BATCH] + batch) * depth + image_d) * height + image_h
    return int(line * geometry[_INPUT + _WIDTH])


@compiled("void(float32[::1], int64, float32[::1], int64, int64)")
def _copy_steps(source: Floats, step: int, target: Floats, target_step: int, count: int) -> None:
    if step == 1 and target_step == 1:
        for i in range(count):
            target[i] = source[i]
    else:
        for i in range(count):
            target[i * target_step] = source[i * step]


@compiled("void(float32[::1], int64, int64, int64)")
def _pad(target: Floats, step: int, first: int, last: int) -> None:
    for i in range(first, last):
        target[i * step] = PADDING


@compiled(
    "boolean(float32[::1], int64[::1], int64, int64, int64, int64, float32[::1], int64, int64)"
)
def gather_columns(  # noqa: PLR0913, PLR0917  # arrays and integers
    image: Floats,
    geometry: Integers,
    row: int,
    rows: int,
    pixel: int,
    pixels: int,
    block: Floats,
    row_step: int,
    pixel_step: int,
) -> bool:
    """block[r * row_step + q * pixel_step] = entry (row + r, pixel + q) of the matrix of columns.

    Returns:
        Whether there is padding in the block.
    """
    width, stride = geometry[_OUTPUT + _WIDTH], geometry[_STRIDE + _WIDTH]
    padded = False
    for r in range(row, row + rows):
        channel, tap_d, tap_h, tap_w = _tap_of(geometry, r)
        leftmost, rightmost = _inside(geometry, tap_w)
        batch, d, h, w = _output_position(geometry, pixel)
        q = 0
        while q < pixels:
            run = min(width - w, pixels - q)
            start = _image_line(geometry, channel, batch, d, h, tap_d, tap_h)
            first = min(max(leftmost - w, 0), run) if start >= 0 else run
            last = max(min(rightmost - w, run), first)
            target = block[(r - row) * row_step + q * pixel_step :]
            _pad(target, pixel_step, 0, first)
            _pad(target, pixel_step, last, run)
            padded |= last - first < run
            if first < last:
                source = image[start + (w + first) * stride + tap_w :]
                _copy_steps(source, stride, target[first * pixel_step :], pixel_step, last - first)
            q += run
            w = 0
            batch, d, h = _next_line(geometry, batch, d, h)
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
def scatter_columns(  # noqa: PLR0913, PLR0917  # arrays and integers
    block: Floats, geometry: Integers, row: int, rows: int, pixel: int, pixels: int, image: Floats
) -> None:
    """Adds every entry of a block (rows, pixels), but for padding, to the image under its tap."""
    width, stride = geometry[_OUTPUT + _WIDTH], geometry[_STRIDE + _WIDTH]
    for r in range(row, row + rows):
        channel, tap_d, tap_h, tap_w = _tap_of(geometry, r)
        leftmost, rightmost = _inside(geometry, tap_w)
        batch, d, h, w = _output_position(geometry, pixel)
        q = 0
        while q < pixels:
            run = min(width - w, pixels - q)
            start = _image_line(geometry, channel, batch, d, h, tap_d, tap_h)
            first, last = max(leftmost - w, 0), min(rightmost - w, run)
            if start >= 0 and first < last:
                source = block[(r - row) * pixels + q :][first:last]
                _add_steps(source, image[start + (w + first) * stride + tap_w :], stride)
            q += run
            w = 0
            batch, d, h = _next_line(geometry, batch, d, h)
