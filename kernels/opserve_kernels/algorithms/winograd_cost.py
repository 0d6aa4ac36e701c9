"""When Winograd's algorithm is faster: nanoseconds of a product, roughly, by what it moves.

    total       tiles x channels x channels x points multiply-adds, in whole vectors and panels
    tiles       each is read, transformed and written for every channel, at every point
    kernels     each is transformed once

against results x taps multiply-adds for a tile, and a copy of every value that is read; for the
weight, those of taps that lie in the image. Few channels do not pay for their tiles, few tiles not
for the kernels. The constants are those of one core with AVX2 or AVX-512; only their relation
matters.
"""

from math import prod

from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.winograd_tiling import Tiling
from opserve_kernels.convolution import SPATIAL_RANK, Convolution, Triple

_MULTIPLY_ADD = 0.0182  # 110 GFLOP/s
_COPY = 0.8  # of a value, for a direct algorithm
_TILE = 2.0  # of finding where it lies, and for each of its points:
_READ_POINT = 0.55
_WRITE_POINT = 0.35
_TRANSFORM_POINT = 0.4  # of a kernel
_COLLECT_POINT = 0.3  # of a kernel's gradient


def image_pays(convolution: Convolution) -> bool:
    """Whether it is faster for the image's gradient."""
    read, size = convolution.output_channels, convolution.input_size
    return image_cost(convolution) < _direct_cost(convolution, read, size)


def output_pays(convolution: Convolution) -> bool:
    """Whether it is faster for the output."""
    read, size = convolution.input_channels, convolution.output_size
    return output_cost(convolution) < _direct_cost(convolution, read, size)


def weight_pays(convolution: Convolution) -> bool:
    """Whether it is faster for the weight's gradient."""
    read = convolution.input_channels + convolution.output_channels
    met = _met_share(convolution)
    return weight_cost(convolution) < _direct_cost(convolution, read, convolution.output_size, met)


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
    read = tiling.tiles * (_whole(output, LANES) + _whole(image, LANES))
    kernels = output * _whole(image, LANES) * _COLLECT_POINT
    at_points = tiling.points * (multiplied * _MULTIPLY_ADD + read * _READ_POINT + kernels)
    return convolution.groups * (read * _TILE + at_points)


def _product_cost(convolution: Convolution, channels: tuple[int, int], size: Triple) -> float:
    """Of a result of this size; channels of a group are those of source and result."""
    source, result = channels
    tiling = Tiling.of(convolution, size)
    multiplied = _whole(tiling.tiles, LANES) * source * _whole(result, TILE_ROWS)
    read, written = tiling.tiles * source, tiling.tiles * result
    moved = read * _READ_POINT + written * _WRITE_POINT
    kernels = source * _whole(result, LANES) * _TRANSFORM_POINT
    at_points = tiling.points * (multiplied * _MULTIPLY_ADD + moved + kernels)
    return convolution.groups * ((read + written) * _TILE + at_points)


def _direct_cost(convolution: Convolution, read: int, size: Triple, met: float = 1) -> float:
    """Of any product by a direct algorithm that multiplies as fast.

    Args:
        convolution: The geometry.
        read: Channels that it reads.
        size: Of the result, or of what the weight's gradient sums.
        met: The share of all products that it multiplies.
    """
    products = met * convolution.taps * convolution.input_channels * convolution.output_channels
    values = convolution.groups * convolution.batch * prod(size)
    return values * (products * _MULTIPLY_ADD + read * _COPY)


def _met_share(convolution: Convolution) -> float:
    """Of positions and taps, those at which a tap lies in the image; without stride."""
    share = 1.0
    for axis in range(SPATIAL_RANK):
        size, positions = convolution.input_size[axis], convolution.output_size[axis]
        taps, padding = convolution.kernel_size[axis], convolution.padding[axis]
        begins = [tap * convolution.dilation[axis] - padding for tap in range(taps)]
        met = [min(positions, size - begin) - max(0, -begin) for begin in begins]
        share *= sum(max(0, count) for count in met) / (taps * positions)
    return share


def _whole(count: int, step: int) -> int:
    return -(-count // step) * step
