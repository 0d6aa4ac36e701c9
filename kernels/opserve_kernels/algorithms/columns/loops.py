"""The products of opserve_kernels.algorithms.columns.plan: loops over blocks of columns.

Per group, with image X (C, positions), output Y (K, Q) and weight W (K, R), R = C * taps:
    columns(X) (R, Q)                  the image's values under every tap, at every output position
    grad_image  = scatter(W^T @ Y)     every column added to the image values that it covers
    grad_output = W @ columns(X)       the forward convolution
    grad_weight = Y @ columns(X)^T

The matrix of columns is gathered from an image or scattered into one, by blocks. Row r is tap
r % taps of channel r // taps; column q is output position q of the batch, in row-major order. Entry
(r, q) is the image's value under that tap, and PADDING where the tap lies outside the image.

Images are contiguous (channels, batch, depth, height, width): a row of the matrix then covers
the batch without a break.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.columns.layout import ColumnsStage
from opserve_kernels.algorithms.columns.plan import GATHER_OUTPUT, SCATTER_IMAGE
from opserve_kernels.convolution import DEPTH, HEIGHT, WIDTH, Geometry
from opserve_kernels.loops import compiled
from opserve_kernels.sums import (
    PADDING,
    add_matrix,
    add_product,
    add_product_skip_padding,
    all_finite,
)

Floats = NDArray[np.float32]


@compiled()
def _tap_of(geometry: Geometry, row: int) -> tuple[int, int, int, int]:
    """Channel of a row, and the position of its tap (depth, height, width) at output position 0."""
    kernel_d, kernel_h = geometry.kernel_size[DEPTH], geometry.kernel_size[HEIGHT]
    kernel_w = geometry.kernel_size[WIDTH]
    # Rows of the matrix count taps of a channel first: width, height, depth, then the channel.
    d = row // (kernel_w * kernel_h) % kernel_d * geometry.dilation[DEPTH]
    h = row // kernel_w % kernel_h * geometry.dilation[HEIGHT]
    w = row % kernel_w * geometry.dilation[WIDTH]
    return (
        row // (kernel_w * kernel_h * kernel_d),
        d - geometry.padding[DEPTH],
        h - geometry.padding[HEIGHT],
        w - geometry.padding[WIDTH],
    )


@compiled()
def _inside(geometry: Geometry, tap_w: int) -> tuple[int, int]:
    """The output columns first .. last-1 whose tap lies between the image's left and right edge."""
    stride = geometry.stride[WIDTH]
    first = max(0, -(tap_w // stride))
    return first, (geometry.input_size[WIDTH] - 1 - tap_w) // stride + 1


@compiled()
def _output_position(geometry: Geometry, pixel: int) -> tuple[int, int, int, int]:
    """Batch entry, depth, height and width of an output position."""
    depth, height = geometry.output_size[DEPTH], geometry.output_size[HEIGHT]
    line, width = pixel // geometry.output_size[WIDTH], pixel % geometry.output_size[WIDTH]
    return line // (height * depth), line // height % depth, line % height, width


@compiled()
def _next_line(geometry: Geometry, batch: int, d: int, h: int) -> tuple[int, int, int]:
    if h + 1 < geometry.output_size[HEIGHT]:
        return batch, d, h + 1
    if d + 1 < geometry.output_size[DEPTH]:
        return batch, d + 1, 0
    return batch + 1, 0, 0


@compiled()
def _image_line(  # noqa: PLR0913, PLR0917  # integers
    geometry: Geometry, channel: int, batch: int, d: int, h: int, tap_d: int, tap_h: int
) -> int:
    """Start, in the image, of the line under a tap at an output line; -1 where that is padding."""
    image_d = d * geometry.stride[DEPTH] + tap_d
    image_h = h * geometry.stride[HEIGHT] + tap_h
    depth, height = geometry.input_size[DEPTH], geometry.input_size[HEIGHT]
    if image_d < 0 or image_d >= depth or image_h < 0 or image_h >= height:
        return -1
    line = ((channel * geometry.batch + batch) * depth + image_d) * height + image_h
    return line * geometry.input_size[WIDTH]


@compiled()
def _copy_steps(source: Floats, step: int, target: Floats, target_step: int, count: int) -> None:
    if step == 1 and target_step == 1:
        # Unit steps have a loop of their own, which LLVM turns into vector copies.
        for i in range(count):
            target[i] = source[i]
    else:
        for i in range(count):
            target[i * target_step] = source[i * step]


@compiled()
def _pad(target: Floats, step: int, first: int, last: int) -> None:
    for i in range(first, last):
        target[i * step] = PADDING


@compiled()
def _gather_columns(  # noqa: PLR0913, PLR0917  # arrays and integers
    image: Floats,
    geometry: Geometry,
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
    width, stride = geometry.output_size[WIDTH], geometry.stride[WIDTH]
    padded = False
    for r in range(row, row + rows):
        channel, tap_d, tap_h, tap_w = _tap_of(geometry, r)
        # The same for every line of the row: only the position along the width decides.
        leftmost, rightmost = _inside(geometry, tap_w)
        batch, d, h, w = _output_position(geometry, pixel)
        q = 0
        while q < pixels:
            # A run is the rest of one output row. Its values are on one line of the image, so the
            # bounds of padding are computed once a run, not once a value.
            run = min(width - w, pixels - q)
            start = _image_line(geometry, channel, batch, d, h, tap_d, tap_h)
            first = min(max(leftmost - w, 0), run) if start >= 0 else run
            last = max(min(rightmost - w, run), first)
            # Padding before and behind the line is written, the values between are copied.
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


@compiled()
def _add_steps(source: Floats, target: Floats, step: int) -> None:
    if step == 1:
        for i in range(source.size):
            target[i] += source[i]
    else:
        for i in range(source.size):
            target[i * step] += source[i]


@compiled()
def _scatter_columns(  # noqa: PLR0913, PLR0917  # arrays and integers
    block: Floats, geometry: Geometry, row: int, rows: int, pixel: int, pixels: int, image: Floats
) -> None:
    """Adds every entry of a block (rows, pixels), but for padding, to the image under its tap."""
    width, stride = geometry.output_size[WIDTH], geometry.stride[WIDTH]
    for r in range(row, row + rows):
        channel, tap_d, tap_h, tap_w = _tap_of(geometry, r)
        leftmost, rightmost = _inside(geometry, tap_w)
        batch, d, h, w = _output_position(geometry, pixel)
        q = 0
        while q < pixels:
            # Runs as in _gather_columns; entries under padding are skipped, as they belong to no
            # pixel.
            run = min(width - w, pixels - q)
            start = _image_line(geometry, channel, batch, d, h, tap_d, tap_h)
            first, last = max(leftmost - w, 0), min(rightmost - w, run)
            if start >= 0 and first < last:
                source = block[(r - row) * pixels + q :][first:last]
                _add_steps(source, image[start + (w + first) * stride + tap_w :], stride)
            q += run
            w = 0
            batch, d, h = _next_line(geometry, batch, d, h)


@compiled()
def _block_of(stage: ColumnsStage, unit: int) -> tuple[int, int, int, int, int]:
    """Group, first row, rows, first pixel and pixels of the block of columns of a unit."""
    geometry = stage.geometry
    # Units count row tiles first: blocks of the same pixels follow each other.
    row_tile, pixel_tile = stage.row_tile, stage.pixel_tile
    row = unit % stage.row_tiles * row_tile
    tile = unit // stage.row_tiles
    pixel = tile % stage.pixel_tiles * pixel_tile
    rows = min(row_tile, geometry.input_channels * geometry.taps - row)
    pixels = min(pixel_tile, geometry.output_pixels - pixel)
    return tile // stage.pixel_tiles, row, rows, pixel, pixels


@compiled()
def _scatter_image(stage: ColumnsStage, scratch: Floats, first: int, last: int) -> None:
    """W^T (rows, K) @ Y (K, pixels) is a block of columns, added to the image."""
    geometry = stage.geometry
    # Blocks of one unit are added in the order of units: overlapping taps add to the same pixels.
    k_size, q_size = geometry.output_channels, geometry.output_pixels
    r_size = geometry.input_channels * geometry.taps
    for unit in range(first, last):
        group, row, rows, pixel, pixels = _block_of(stage, unit)
        block = scratch[stage.block :][: rows * pixels]
        weight = scratch[stage.weight + (group * r_size + row) * k_size :]
        output = scratch[stage.output + group * k_size * q_size + pixel :]
        image = scratch[stage.image + group * geometry.input_channels * geometry.input_pixels :]
        # `add_product` adds to its target, so the block begins at zero.
        block[:] = np.float32(0)
        add_product(weight, k_size, output, q_size, block, pixels, rows, k_size, pixels)
        _scatter_columns(block, geometry, row, rows, pixel, pixels, image)


@compiled()
def _gather_output(stage: ColumnsStage, scratch: Floats, first: int, last: int) -> None:
    """Adds W (K, rows) @ a block (rows, pixels) of columns to Y (K, pixels)."""
    geometry = stage.geometry
    k_size, q_size = geometry.output_channels, geometry.output_pixels
    r_size = geometry.input_channels * geometry.taps
    for unit in range(first, last):
        group, row, rows, pixel, pixels = _block_of(stage, unit)
        block = scratch[stage.block :][: rows * pixels]
        product = scratch[stage.product :][: k_size * pixels]
        weight = scratch[stage.weight + group * k_size * r_size + row :]
        output = scratch[stage.output + group * k_size * q_size + pixel :]
        image = scratch[stage.image + group * geometry.input_channels * geometry.input_pixels :]
        padded = _gather_columns(image, geometry, row, rows, pixel, pixels, block, pixels, 1)
        product[:] = np.float32(0)
        # Padding is a zero, and zero times an infinity is NaN. The product that skips padding is
        # slower, so it runs only for blocks with padding and factors that are not finite.
        if padded and not all_finite(weight, r_size, k_size, rows):
            add_product_skip_padding(weight, r_size, block, pixels, product, k_size, rows, pixels)
        else:
            add_product(weight, r_size, block, pixels, product, pixels, k_size, rows, pixels)
        add_matrix(product, output, q_size, k_size, pixels)


@compiled()
def _gather_weight(stage: ColumnsStage, scratch: Floats, first: int, last: int) -> None:
    """Adds Y (K, pixels) @ a block (pixels, rows) of transposed columns to W (K, rows)."""
    geometry = stage.geometry
    k_size, q_size = geometry.output_channels, geometry.output_pixels
    r_size = geometry.input_channels * geometry.taps
    for unit in range(first, last):
        group, row, rows, pixel, pixels = _block_of(stage, unit)
        block = scratch[stage.block :][: rows * pixels]
        product = scratch[stage.product :][: k_size * rows]
        weight = scratch[stage.weight + group * k_size * r_size + row :]
        output = scratch[stage.output + group * k_size * q_size + pixel :]
        image = scratch[stage.image + group * geometry.input_channels * geometry.input_pixels :]
        # The block is gathered transposed (pixels, rows): the product then reads its rows
        # contiguously.
        padded = _gather_columns(image, geometry, row, rows, pixel, pixels, block, 1, rows)
        product[:] = np.float32(0)
        if padded and not all_finite(output, q_size, k_size, pixels):
            add_product_skip_padding(output, q_size, block, rows, product, k_size, pixels, rows)
        else:
            add_product(output, q_size, block, rows, product, rows, k_size, pixels, rows)
        add_matrix(product, weight, r_size, k_size, rows)


@compiled()
def run_columns(kind: int, stage: ColumnsStage, scratch: Floats, first: int, last: int) -> None:
    """Runs units first .. last-1 of a product."""
    if kind == SCATTER_IMAGE:
        _scatter_image(stage, scratch, first, last)
    elif kind == GATHER_OUTPUT:
        _gather_output(stage, scratch, first, last)
    else:
        _gather_weight(stage, scratch, first, last)
