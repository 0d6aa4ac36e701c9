"""When Winograd's algorithm is faster: nanoseconds of a product, roughly, by what it moves.

    total       tiles x channels x channels x 36 multiply-adds, in whole vectors and panels
    tiles       each is read, transformed and written for every channel, at 36 points for 16 values
    kernels     each is transformed once

against 16 x 9 multiply-adds for a tile. Few channels do not pay for their tiles, few tiles not for
the kernels. The constants are those of one core with AVX2 or AVX-512; only their relation matters.
"""

from math import prod

from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.winograd_layout import POINT_PAIRS, WEIGHT_TAPS
from opserve_kernels.algorithms.winograd_tiling import Tiling

_MULTIPLY_ADD = 0.0182  # 110 GFLOP/s
_READ_TILE = 22.0
_WRITE_TILE = 14.0
_TRANSFORM_KERNEL = 14.0
_COLLECT_KERNEL = 10.0


def product_cost(product: Correlation) -> float:
    """A product with the weight by Winograd's algorithm."""
    channels = product.source_channels, product.result_channels
    tiles = Tiling.of(product.convolution, product.result_size).tiles
    multiplied = _whole(tiles, LANES) * channels[0] * _whole(channels[1], TILE_ROWS)
    moved = tiles * (channels[0] * _READ_TILE + channels[1] * _WRITE_TILE)
    kernels = channels[0] * _whole(channels[1], LANES) * _TRANSFORM_KERNEL
    return product.convolution.groups * (POINT_PAIRS * multiplied * _MULTIPLY_ADD + moved + kernels)


def weight_cost(product: Correlation) -> float:
    """The gradient of a weight by Winograd's algorithm; the product is GATHER."""
    image, output = product.source_channels, product.result_channels
    tiles = Tiling.of(product.convolution, product.result_size).tiles
    multiplied = tiles * _whole(output, TILE_ROWS) * _whole(image, LANES)
    moved = tiles * (_whole(output, LANES) + _whole(image, LANES)) * _READ_TILE
    kernels = output * _whole(image, LANES) * _COLLECT_KERNEL
    return product.convolution.groups * (POINT_PAIRS * multiplied * _MULTIPLY_ADD + moved + kernels)


def direct_cost(product: Correlation) -> float:
    """Any of them by a direct algorithm that multiplies as fast."""
    convolution = product.convolution
    pixels = convolution.batch * prod(product.result_size)
    products = WEIGHT_TAPS * pixels * product.source_channels
    return convolution.groups * products * product.result_channels * _MULTIPLY_ADD


def _whole(count: int, step: int) -> int:
    return -(-count // step) * step
