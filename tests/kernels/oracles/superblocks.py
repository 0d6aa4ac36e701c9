"""FRACTAL_Z and NC1HWC0 lane by lane, and the positions that a convolution brings together.

Groups share a superblock: the least number of them whose channels fill whole blocks of 16 on both
sides, or all of them.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from kernels.oracles.expectation import Doubles

BLOCK = 16
Sizes = tuple[int, ...]


def extend_of(filter_sizes: Sizes, groups: int) -> int:
    """Groups in a superblock."""
    outputs, inputs = filter_sizes[0] // groups, filter_sizes[1]
    fits = (n for n in range(1, groups) if n * inputs % BLOCK == n * outputs % BLOCK == 0)
    return next(fits, groups)


def dense_shape(filter_sizes: Sizes, groups: int) -> Sizes:
    """Superblocks, output channels and input channels of one with those of part blocks, KH, KW."""
    extend = extend_of(filter_sizes, groups)
    outputs, inputs = extend * filter_sizes[0] // groups, extend * filter_sizes[1]
    whole = tuple(-(-channels // BLOCK) * BLOCK for channels in (outputs, inputs))
    return (-(-groups // extend), *whole, *filter_sizes[2:])


def dense_of(fractal: Doubles, shape: Sizes) -> Doubles:
    """A weight in FRACTAL_Z as (superblock, output channel, input channel, KH, KW)."""
    dense = np.zeros(shape)
    for place in np.ndindex(*shape):
        dense[place] = fractal[_row(place, shape)]
    return dense


def fractal_of(dense: Doubles, shape: Sizes) -> Doubles:
    """A weight (superblock, output channel, input channel, KH, KW) in FRACTAL_Z, of this shape."""
    fractal = np.full(shape, np.nan)
    for place in np.ndindex(*dense.shape):
        fractal[_row(place, dense.shape)] = dense[place]
    return fractal


def plain_of(image: Doubles, channels: int) -> Doubles:
    """An image (N, C1, H, W, C0) as (N, channels, H, W); what it lacks is zero."""
    batch, blocks, height, width, lanes = image.shape
    plain = np.zeros((batch, channels, height, width))
    for channel in range(min(channels, blocks * lanes)):
        plain[:, channel] = image[:, channel // lanes, :, :, channel % lanes]
    return plain


def image_of(plain: Doubles, shape: Sizes) -> Doubles:
    """An image (N, channels, H, W) as (N, C1, H, W, C0), of this shape; what it lacks is left."""
    image = np.zeros(shape)
    for channel in range(shape[1] * shape[4]):
        image[:, channel // shape[4], :, :, channel % shape[4]] = plain[:, channel]
    return image


def contributions(
    sizes: tuple[Sizes, Sizes, Sizes], strides: Sizes, padding: Sizes, dilations: Sizes
) -> Iterator[tuple[Sizes, Sizes, Sizes]]:
    """Positions of image, weight and output that belong together.

    Args:
        sizes: Height and width of the three.
        strides: Of height and width.
        padding: Up, down, left, right.
        dilations: Of N, C, height and width.
    """
    image, kernel, output = sizes
    for place in product(*map(range, output)):
        for tap in product(*map(range, kernel)):
            high = place[0] * strides[0] + tap[0] * dilations[2] - padding[0]
            wide = place[1] * strides[1] + tap[1] * dilations[3] - padding[2]
            if 0 <= high < image[0] and 0 <= wide < image[1]:
                yield (high, wide), tap, place


def _row(place: Sizes, shape: Sizes) -> Sizes:
    """The position of an entry of a dense weight in FRACTAL_Z."""
    superblock, output, input_, high, wide = place
    blocks, kernel_h, kernel_w = shape[2] // BLOCK, shape[3], shape[4]
    row = ((superblock * blocks + input_ // BLOCK) * kernel_h + high) * kernel_w + wide
    return (row, output // BLOCK, output % BLOCK, input_ % BLOCK)
