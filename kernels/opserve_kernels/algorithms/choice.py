"""Which algorithm a product is computed with: the one with least cycles for a pixel and tap.

PACKED   rows / lanes for the micro-kernel, and the copy of a value into a panel
FLAT     rows / lanes, and as much again for every position between the rows
"""

from math import prod

from opserve_kernels.algorithms.correlation import Blocks, Correlation
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, whole_rows
from opserve_kernels.algorithms.product import FLAT, PACKED

_COPY_CYCLES = 0.25  # of a value into a panel
_RUN_CYCLES = 4.0  # of beginning a run of them
_BLOCK_PIXELS = 384


def choose(product: Correlation) -> int:
    """PACKED or FLAT, of an image or an output; one tap gains nothing by a copy of the source."""
    if product.convolution.taps == 1 and Blocks.in_place(product):
        return PACKED
    blocks = Blocks.of(product, least_pixels=_BLOCK_PIXELS)
    multiplying = whole_rows(product.result_channels) / LANES
    copying = _COPY_CYCLES + _RUN_CYCLES / min(blocks.rows[2], TILE_COLUMNS)
    flat = multiplying * _positions_of_a_pixel(blocks)
    return FLAT if flat < multiplying + copying else PACKED


def _positions_of_a_pixel(blocks: Blocks) -> float:
    """Positions of the padded copy for each of the block, without those behind the last row."""
    _, high, wide = blocks.extent
    between = prod(blocks.extent) * (blocks.batch - 1) + (blocks.rows[0] - 1) * high * wide
    last = (blocks.rows[1] - 1) * wide + blocks.rows[2]
    return (between + last) / (blocks.batch * prod(blocks.rows))
