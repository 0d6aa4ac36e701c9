"""Rough costs of the parts of a call, in nanoseconds, by the values that they multiply and move.

Calls are cut into shares by these costs: an error makes one share longer than another, never wrong.
The constants are those of one core with AVX-512; only their relation matters.
"""

from collections.abc import Mapping

from opserve_kernels.algorithms.host import whole_rows
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.winograd.cost import MULTIPLY_ADD, transformed_cost
from opserve_kernels.convolution import WIDTH, Convolution
from opserve_kernels.gradients import Gradients, Product

_MOVE = 1.0  # of a value of an image that is read or written
_PACK_WEIGHT = 2.2  # of a value of the weight
_GATHER = 0.1  # of a value into a panel, for a tap
_RUN = 1.1  # of a row of them
_FLAT = 0.2  # of multiplying, where positions between rows are computed instead of gathering
_SUM = 0.3  # of a value that is added to a channel's sum


def cost_of(part: Gradients, algorithms: Mapping[Product, Algorithm | None]) -> float:
    """Cost of sums, or of one gradient by its algorithm; without one, by a direct algorithm."""
    if part.sums:
        return _SUM * part.sums.image.count
    (product,) = part.products
    return product_cost(product, part.convolution, algorithms[product])


def product_cost(product: Product, convolution: Convolution, algorithm: Algorithm | None) -> float:
    """Cost of a gradient by an algorithm; without one, by a direct algorithm."""
    if algorithm is Algorithm.WINOGRAD:
        return transformed_cost(product, convolution)
    return _direct_cost(product, convolution)


def _direct_cost(product: Product, convolution: Convolution) -> float:
    """Cost of a direct algorithm."""
    rows, gathered = convolution.output_channels, convolution.input_channels
    if product is Product.IMAGE:
        rows, gathered = gathered, rows
    # Outer products leave out padding. Dots multiply it, but are chosen for few channels only.
    met = convolution.met_share if product is Product.WEIGHT else 1
    taps, pixels = convolution.taps, met * convolution.output_pixels
    multiplying = MULTIPLY_ADD * whole_rows(rows) * gathered * taps * pixels
    # Either panels are gathered (packed) or positions between rows are computed too (flat).
    gathering = (_GATHER + _RUN / convolution.output_size[WIDTH]) * gathered * taps * pixels
    products = multiplying + min(gathering, _FLAT * multiplying)
    moving = _MOVE * (convolution.image_elements + convolution.output_elements)
    packing = _PACK_WEIGHT * convolution.weight_elements
    return convolution.groups * products + moving + packing
