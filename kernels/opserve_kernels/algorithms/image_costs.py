"""What an image or an output costs with a direct algorithm: cycles of a pixel and tap.

PACKED   rows / lanes for the micro-kernel, and the copy of a value into a panel
FLAT     rows / lanes, and as much again for every position between the rows
"""

from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, whole_rows
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.packed_plan import blocks_of

_COPY_CYCLES = 0.25  # of a value into a panel
_RUN_CYCLES = 4.0  # of beginning a run of them


def image_costs(product: Correlation) -> dict[Algorithm, float]:
    """Of PACKED and FLAT; one tap gains nothing by a copy of a source that can be read in place."""
    packed = blocks_of(product, Algorithm.PACKED)
    multiplying = whole_rows(product.result_channels) / LANES
    copying = _COPY_CYCLES + _RUN_CYCLES / min(packed.rows[2], TILE_COLUMNS)
    gathered = multiplying * _in_vectors(packed.pixels, packed.pixels) + copying
    if product.convolution.taps == 1 and packed.channel_step:
        return {Algorithm.PACKED: gathered}
    flat = blocks_of(product, Algorithm.FLAT)
    looked_up = multiplying * _in_vectors(flat.flat_positions, flat.pixels)
    return {Algorithm.PACKED: gathered, Algorithm.FLAT: looked_up}


def _in_vectors(positions: int, pixels: int) -> float:
    """Lanes of the vectors that positions take, for each of the pixels among them."""
    return -(-positions // LANES) * LANES / pixels
