"""Cost of Winograd's algorithm: nanoseconds of a product, roughly, by the values that it moves.

    total       tiles x channels x channels x points multiply-adds, in whole vectors and panels
    tiles       read, transformed and written for every channel, at every point
    kernels     transformed once
    range       each value of both operands is read once more

A direct algorithm costs results x taps multiply-adds for a tile, and a copy of every value that is
read; for the weight, only those of taps inside the image. Few channels do not pay for their tiles,
few tiles not for the kernels. The constants are those of one core with AVX2 or AVX-512; only their
relation matters.
"""

from math import prod
from typing import assert_never

from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.winograd.tiling import Tiling
from opserve_kernels.convolution import Convolution, Triple
from opserve_kernels.gradients import Product

MULTIPLY_ADD = 0.0182  # 110 GFLOP/s
_COPY = 0.8  # of a value, for a direct algorithm
_MEASURE = 0.3  # of a value's range
_TILE = 2.0  # of finding its place; and for each of its points:
_READ_POINT = 0.55
_WRITE_POINT = 0.35
_TRANSFORM_POINT = 0.4  # of a kernel
_COLLECT_POINT = 0.3  # of a kernel's gradient


def transformed_cost(product: Product, convolution: Convolution) -> float:
    """Cost of a gradient by Winograd's algorithm."""
    inputs, outputs = convolution.input_channels, convolution.output_channels
    match product:
        case Product.IMAGE:
            return _product_cost(convolution, (outputs, inputs), convolution.input_size)
        case Product.OUTPUT:
            return _product_cost(convolution, (inputs, outputs), convolution.output_size)
        case Product.WEIGHT:
            return _weight_cost(convolution)
        case _:
            assert_never(product)


def direct_cost(product: Product, convolution: Convolution) -> float:
    """Cost of a gradient by any direct algorithm of equal speed; there is no stride."""
    inputs, outputs = convolution.input_channels, convolution.output_channels
    read, size, met = inputs + outputs, convolution.output_size, 1.0
    match product:
        case Product.IMAGE:
            read, size = outputs, convolution.input_size
        case Product.OUTPUT:
            read = inputs
        case Product.WEIGHT:
            met = convolution.met_share
        case _:
            assert_never(product)
    products = met * convolution.taps * inputs * outputs
    values = convolution.groups * convolution.batch * prod(size)
    return values * (products * MULTIPLY_ADD + read * _COPY)


def _weight_cost(convolution: Convolution) -> float:
    image, output = convolution.input_channels, convolution.output_channels
    tiling = Tiling.of(convolution, convolution.output_size)
    multiplied = tiling.tiles * _whole(output, TILE_ROWS) * _whole(image, LANES)
    read = tiling.tiles * (_whole(output, LANES) + _whole(image, LANES))
    kernels = output * _whole(image, LANES) * _COLLECT_POINT
    at_points = tiling.points * (multiplied * MULTIPLY_ADD + read * _READ_POINT + kernels)
    measured = convolution.image_elements + convolution.output_elements
    return convolution.groups * (read * _TILE + at_points) + measured * _MEASURE


def _product_cost(convolution: Convolution, channels: tuple[int, int], size: Triple) -> float:
    """Cost of a result of this size; channels of a group are those of source and result."""
    # The result's channels are rows and its tiles lanes; each is rounded up as the panels are.
    source, result = channels
    tiling = Tiling.of(convolution, size)
    multiplied = _whole(tiling.tiles, LANES) * source * _whole(result, TILE_ROWS)
    read, written = tiling.tiles * source, tiling.tiles * result
    moved = read * _READ_POINT + written * _WRITE_POINT
    kernels = source * _whole(result, LANES) * _TRANSFORM_POINT
    at_points = tiling.points * (multiplied * MULTIPLY_ADD + moved + kernels)
    measured = convolution.groups * tiling.batch * source * prod(size) + convolution.weight_elements
    return convolution.groups * ((read + written) * _TILE + at_points) + measured * _MEASURE


def _whole(count: int, step: int) -> int:
    return -(-count // step) * step
