"""Costs of a product with the direct algorithms, in cycles; measured constants are named.

Of an image or an output, in cycles for a pixel and tap:

PACKED   rows / lanes for the micro-kernel, and the copy of a value into a panel
FLAT     rows / lanes, and the same again for every position between the rows

Of a gradient of the weight, in cycles for a group:

DOTS     channels of the output in rows, each column of the matrix alone; multiplies padding
OUTER    channels of one operand in rows, those of the other in vectors; both rounded up
"""

from math import prod

from opserve_kernels.algorithms.correlation.plan import Correlation, ResultBlocks
from opserve_kernels.algorithms.dots import plan as dots
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS, TILE_VECTORS, whole_rows
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.packed import plan as packed
from opserve_kernels.convolution import WIDTH

PAIR_PRODUCTS = 0.6
"""Time of the products of BF16 pairs, where 1 is that of float32."""

# Fitted to the times of random calls on one core with AVX-512, where a multiply-add of vectors
# takes one; only their relation matters to the choice.
_COPY_CYCLES = 0.4  # of a value into a panel
_RUN_CYCLES = 8.0  # of starting a run of them
_ACROSS_LINES = 1.15  # of a multiply-add whose vector is read in the padded copy, across two lines

_DOT_CYCLES = 1.05  # of a multiply-add, with its loads
_LOAD_CYCLES = 2.5  # of a value into a padded copy
_SPLIT_CYCLES = 7.0  # the same if it is split into phases
_ROW_CYCLES = 5.5  # of starting a row of them
_COLUMN_CYCLES = 170.0  # of TILE_ROWS sums of a column and chunk, which leave the registers

_PLACES_CYCLES = 6.0  # of looking up both places of a pixel, beside loads
_TURN_CYCLES = 4.0  # of starting a tile's products of one pixel
_TAP_CYCLES = 3800.0  # of starting a tap of a block
_STORE_CYCLES = 75.0  # of storing a vector of sums
_TURN_LANES = 0.55  # of a value among LANES channels into a copy
_REST_LANES = 2.5  # the same for fewer channels
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
    looked_up = _ACROSS_LINES * multiplying * _in_vectors(flat.flat_positions, flat.pixels)
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
    inputs, outputs = convolution.input_channels, convolution.output_channels
    columns, phases = convolution.column_rows, product.source_phases
    # DOTS also multiplies the padding between rows: positions of the copies.
    positions = convolution.output_pixels * prod(blocks.extent) / prod(blocks.rows)
    products = _DOT_CYCLES * whole_rows(outputs) * columns / LANES
    loading = _LOAD_CYCLES * outputs
    loading += (_LOAD_CYCLES if phases == 1 else _SPLIT_CYCLES * phases) * inputs
    rows = _ROW_CYCLES * (outputs + inputs * phases) / blocks.extent[WIDTH]
    chunk = min(dots.CHUNK_PIXELS, blocks.batch * prod(blocks.extent))
    leaving = _COLUMN_CYCLES * columns * -(-outputs // TILE_ROWS) / chunk
    return positions * (products + loading + rows + leaving)


def _outer_cycles(product: Correlation, *, products: float = 1.0) -> float:
    convolution = product.convolution
    taps, pixels = convolution.taps, convolution.output_pixels
    inputs, outputs = convolution.input_channels, convolution.output_channels
    # Either operand may be on the left: outer/plan.py chooses. Pixels in padding are left out.
    turns = min(_turn_cycles(products, *sides) for sides in ((inputs, outputs), (outputs, inputs)))
    starting = _TAP_CYCLES / min(_BLOCK_PIXELS, pixels)
    storing = _STORE_CYCLES * min(inputs * _vectors(outputs), outputs * _vectors(inputs))
    loads = pixels * _load_cycles(outputs), convolution.input_pixels * _load_cycles(inputs)
    # Of one tap, the operand with more channels may be read in place.
    in_place = taps == 1 and max(inputs, outputs) % TILE_ROWS == 0
    loading = min(loads) if in_place else sum(loads)
    return taps * (pixels * (convolution.met_share * turns + starting) + storing) + loading


def _turn_cycles(products: float, left: int, right: int) -> float:
    """Cycles of the products of a pixel under a tap."""
    cycles = 0.0
    turns = -(-_vectors(right) // TILE_VECTORS)
    vectors = _vectors(right) / turns
    whole, rest = divmod(left, TILE_ROWS)
    for rows, tiles in ((TILE_ROWS, whole), (whole_rows(rest), 1 if rest else 0)):
        # Few sums wait for the loads of their factors.
        tile = max(rows * vectors, rows + vectors + _PLACES_CYCLES)
        cycles += products * turns * tiles * (tile + _TURN_CYCLES)
    return cycles


def _vectors(channels: int) -> int:
    return -(-channels // LANES)


def _load_cycles(channels: int) -> float:
    rest = LANES if channels % LANES else 0
    return _TURN_LANES * (channels // LANES * LANES) + _REST_LANES * rest
