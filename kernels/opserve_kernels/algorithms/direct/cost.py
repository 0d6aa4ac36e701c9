"""Costs of a product with the direct algorithms, in cycles; measured constants are named.

Of an image or an output, in cycles for a pixel and tap:

PACKED   rows / lanes for the micro-kernel, and the copy of a value into a panel
FLAT     rows / lanes, and the same again for every position between the rows

Of a gradient of the weight, in cycles for a position of the output, with all taps:

DOTS     channels of the output in rows, each column of the matrix alone; multiplies padding
OUTER    channels of one operand in rows, those of the other in vectors; both rounded up
"""

from math import prod

from opserve_kernels.algorithms.correlation.plan import Correlation, ResultBlocks
from opserve_kernels.algorithms.dots import plan as dots
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS, TILE_VECTORS, whole_rows
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.packed import plan as packed

PAIR_PRODUCTS = 0.6
"""Time of the products of BF16 pairs, where 1 is that of float32."""

# Measured on one core with AVX-512; only their relation matters to the choice.
_COPY_CYCLES = 0.25  # of a value into a panel
_RUN_CYCLES = 4.0  # of starting a run of them

_DOT_CYCLES = 1.03  # of a multiply-add of vectors, with its loads
_LOAD_CYCLES = 1.6  # of a value into a padded copy
_SPLIT_CYCLES = 3.0  # the same if it is split into phases
_SUM_CYCLES = 4.0  # of a sum of dots that leaves the registers and is stored
_TURN_CYCLES = 1.0  # of starting a tile's products of one pixel
_PIXEL_CYCLES = 1.5  # of a pixel in the table of a tap
_TURN_LANES = 1.0  # of a value among LANES channels into a copy
_REST_LANES = 2.0  # the same for fewer channels
_TAP_CYCLES = 300.0  # of starting a tap of a block
_STORE_CYCLES = 80.0  # of starting to store a row of sums
_BLOCK_PIXELS = 512
_MOST_LEFT = 1 << 22  # values of a block of the output, which DOTS loads at once: 16 MiB


def image_costs(product: Correlation) -> dict[Algorithm, float]:
    """Costs of PACKED and FLAT; one tap of a source that is read in place gains nothing by FLAT."""
    # PACKED pays for copying values into panels, FLAT for positions that it drops; both multiply
    # whole vectors.
    blocks = packed.blocks_of(product, Algorithm.PACKED)
    multiplying = whole_rows(product.result_channels) / LANES
    copying = _COPY_CYCLES + _RUN_CYCLES / min(blocks.rows[2], TILE_COLUMNS)
    gathered = multiplying * _in_vectors(blocks.pixels, blocks.pixels) + copying
    if product.convolution.taps == 1 and blocks.channel_step:
        return {Algorithm.PACKED: gathered}
    flat = packed.blocks_of(product, Algorithm.FLAT)
    looked_up = multiplying * _in_vectors(flat.flat_positions, flat.pixels)
    return {Algorithm.PACKED: gathered, Algorithm.FLAT: looked_up}


def _in_vectors(positions: int, pixels: int) -> float:
    """Lanes of the vectors that the positions fill, for each of the pixels among them."""
    return -(-positions // LANES) * LANES / pixels


def weight_costs(product: Correlation, *, pairs: bool = False) -> dict[Algorithm, float]:
    """Costs of DOTS, OUTER and, if possible, PAIRS, of a GATHER with the gradient as its weight.

    Output blocks that are too large for DOTS leave OUTER as the only choice.
    """
    # DOTS loads all output channels of a block at once, so large outputs would take too much
    # workspace.
    blocks = dots.blocks_of(product)
    left = product.convolution.output_channels * blocks.batch * prod(blocks.extent)
    outer = {Algorithm.OUTER: _outer_cycles(product)}
    if pairs:
        outer[Algorithm.PAIRS] = _outer_cycles(product, products=PAIR_PRODUCTS)
    return outer if left > _MOST_LEFT else {Algorithm.DOTS: _dot_cycles(product, blocks), **outer}


def _dot_cycles(product: Correlation, blocks: ResultBlocks) -> float:
    convolution = product.convolution
    # DOTS also multiplies the padding between rows: positions of the copy for each pixel.
    positions = prod(blocks.extent) / prod(blocks.rows)
    products = whole_rows(convolution.output_channels) * convolution.column_rows / LANES
    loading = _LOAD_CYCLES * convolution.output_channels
    if product.source_phases == 1:
        loading += _LOAD_CYCLES * convolution.input_channels
    else:
        loading += _SPLIT_CYCLES * convolution.input_channels * product.source_phases
    sums = whole_rows(convolution.output_channels) * convolution.column_rows
    storing = _SUM_CYCLES * sums / convolution.output_pixels
    return positions * (_DOT_CYCLES * products + loading) + storing


def _outer_cycles(product: Correlation, *, products: float = 1.0) -> float:
    convolution = product.convolution
    inputs, outputs = convolution.input_channels, convolution.output_channels
    # Either operand may be on the left: outer/plan.py chooses.
    turns = min(_turn_cycles(inputs, outputs), _turn_cycles(outputs, inputs))
    pixels = convolution.input_pixels / convolution.output_pixels
    loads = _load_cycles(outputs), pixels * _load_cycles(inputs)
    # Of one tap, the operand with more channels may be read in place.
    in_place = convolution.taps == 1 and max(inputs, outputs) % TILE_ROWS == 0
    loading = min(loads) if in_place else sum(loads)
    pixel = _PIXEL_CYCLES + _TAP_CYCLES / min(_BLOCK_PIXELS, convolution.output_pixels)
    storing = _STORE_CYCLES * min(inputs, outputs) / convolution.output_pixels
    return convolution.taps * (products * turns + pixel + storing) + loading


def _turn_cycles(left: int, right: int) -> float:
    """Cycles of the products of a pixel under a tap."""
    vectors = -(-right // LANES)
    turns = -(-vectors // TILE_VECTORS) * -(-left // TILE_ROWS)
    # Loads for each multiply-add of a tile: above one, loading is the bound, below it the products.
    loads = (whole_rows(left) + vectors) / (whole_rows(left) * vectors)
    return turns * _TURN_CYCLES + whole_rows(left) * vectors * max(1.0, loads)


def _load_cycles(channels: int) -> float:
    rest = LANES if channels % LANES else 0
    return _TURN_LANES * (channels // LANES * LANES) + _REST_LANES * rest
