"""The record of a product through the matrix of columns: the plan fills it, the loops read it."""

from typing import NamedTuple

from opserve_kernels.convolution import Geometry


class ColumnsStage(NamedTuple):
    """A product, block of columns by block.

    Attributes:
        block: Place in the workspace of a block of columns.
        product: Place of its product with all channels of the other side.
        image: Place of X, or of its gradient.
        output: Place of Y, or of its total.
        weight: Place of W, or of its gradient.
        pixel_tile: Columns of a block.
        pixel_tiles: Blocks beside each other.
        row_tile: Rows of a block.
        row_tiles: Blocks below each other.
        geometry: Geometry of the convolution.
    """

    block: int
    product: int
    image: int
    output: int
    weight: int
    pixel_tile: int
    pixel_tiles: int
    row_tile: int
    row_tiles: int
    geometry: Geometry
