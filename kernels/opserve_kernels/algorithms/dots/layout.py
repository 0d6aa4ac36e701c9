"""The record of a weight gradient by dot products: the plan fills it, the loops read it."""

from typing import NamedTuple

from opserve_kernels.algorithms.correlation.layout import CorrelationStage


class DotsStage(NamedTuple):
    """A GATHER whose result is the left operand, and whose weight is the gradient.

    Attributes:
        product: Shared fields of the direct algorithms.
        chunk_pixels: Positions of a chunk.
        chunks: Chunks of a block.
        unit_columns: Columns of a unit.
        chunk_units: Units of a chunk.
        left: Place of the left operand in the workspace.
        left_pitch: Distance of its rows.
        gradient: Place of the gradient; -1 for its tensor.
        total: Place of the sums.
    """

    product: CorrelationStage
    chunk_pixels: int
    chunks: int
    unit_columns: int
    chunk_units: int
    left: int
    left_pitch: int
    gradient: int
    total: int
