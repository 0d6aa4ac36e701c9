"""Which algorithm a product is computed with: the one with least cycles for a pixel and tap.

PACKED   rows / lanes for the micro-kernel, and the copy of a value into a panel
FLAT     rows / lanes, and as much again for every position between the rows
"""

from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, whole_rows
from opserve_kernels.algorithms.packed_plan import blocks_of
from opserve_kernels.algorithms.product import FLAT, PACKED

_COPY_CYCLES = 0.25  # of a value into a panel
_RUN_CYCLES = 4.0  # of beginning a run of them


def choose(product: Correlation) -> int:
    """PACKED or FLAT, of an image or an output; one tap gains nothing by a copy of the source."""
    packed = blocks_of(product, PACKED)
    if product.convolution.taps == 1 and packed.channel_step:
        return PACKED
    flat = blocks_of(product, FLAT)
    multiplying = whole_rows(product.result_channels) / LANES
    copying = _COPY_CYCLES + _RUN_CYCLES / min(packed.rows[2], TILE_COLUMNS)
    gathered = multiplying * _in_vectors(packed.pixels, packed.pixels) + copying
    looked_up = multiplying * _in_vectors(flat.flat_positions, flat.pixels)
    return FLAT if looked_up < gathered else PACKED


def _in_vectors(positions: int, pixels: int) -> float:
    """Lanes of the vectors that positions take, for each of the pixels among them."""
    return -(-positions // LANES) * LANES / pixels
