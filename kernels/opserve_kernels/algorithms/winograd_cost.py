"""When Winograd's algorithm is faster: nanoseconds of a product, roughly, by what it moves.

    total       tiles x channels x channels x points multiply-adds, in whole vectors and panels
    tiles       each is read, transformed and written for every channel, at every point
    kernels     each is transformed once

against results x taps multiply-adds for a tile. Few channels do not pay for their tiles, few tiles
not for the kernels. The constants are those of one core with AVX2 or AVX-512; only their relation
matters.
"""

from math import prod

from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.winograd_tiling import Tiling
from opserve_kernels.convolution import Convolution, Triple

_MULTIPLY_ADD = 0.0182  # 110 GFLOP/s
# By points:
_READ_TILE = 0.6
_WRITE_TILE = 0.4
_TRANSFORM_KERNEL = 0.4
_COLLECT_KERNEL = 0.3


def image_pays(convolution: Convolution) -> bool:
    """Whether it is faster for the image's gradient."""
    return image_cost(convolution) < _direct_cost(convolution, convolution.input_size)


def output_pays(convolution: Convolution) -> bool:
    """Whether it is faster for the output."""
    return output_cost(convolution) < _direct_cost(convolution, convolution.output_size)


def weight_pays(convolution: Convolution) -> bool:
    """Whether it is faster for the weight's gradient."""
    return weight_cost(convolution) < _direct_cost(convolution, convolution.output_size)


def image_cost(convolution: Convolution) -> float:
    """Of the image's gradient."""
    channels = convolution.output_channels, convolution.input_channels
    return _product_cost(convolution, channels, convolution.input_size)


def output_cost(convolution: Convolution) -> float:
    """Of the output."""
    channels = convolution.input_channels, convolution.output_channels
    return _product_cost(convolution, channels, convolution.output_size)


def weight_cost(convolution: Convolution) -> float:
    """Of the weight's gradient."""
    image, output = convolution.input_channels, convolution.output_channels
    tiling = Tiling.of(convolution, convolution.output_size)
    multiplied = tiling.tiles * _whole(output, TILE_ROWS) * _whole(image, LANES)
    moved = tiling.tiles * (_whole(output, LANES) + _whole(image, LANES)) * _READ_TILE
    kernels = output * _whole(image, LANES) * _COLLECT_KERNEL
    cost = tiling.points * (multiplied * _MULTIPLY_ADD + moved + kernels)
    return convolution.groups * cost


def _product_cost(convolution: Convolution, channels: tuple[int, int], size: Triple) -> float:
    """Of a result of this size; channels of a group are those of source and result."""
    source, result = channels
    tiling = Tiling.of(convolution, size)
    multiplied = _whole(tiling.tiles, LANES) * source * _whole(result, TILE_ROWS)
    moved = tiling.tiles * (source * _READ_TILE + result * _WRITE_TILE)
    kernels = source * _whole(result, LANES) * _TRANSFORM_KERNEL
    cost = tiling.points * (multiplied * _MULTIPLY_ADD + moved + kernels)
    return convolution.groups * cost


def _direct_cost(convolution: Convolution, size: Triple) -> float:
    """Of any product by a direct algorithm that multiplies as fast."""
    products = convolution.taps * convolution.input_channels * convolution.output_channels
    return convolution.groups * convolution.batch * prod(size) * products * _MULTIPLY_ADD


def _whole(count: int, step: int) -> int:
    return -(-count // step) * step
