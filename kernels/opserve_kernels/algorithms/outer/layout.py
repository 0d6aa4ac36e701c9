"""The record of a weight gradient by outer products: the plan fills it, the loops read it."""

from typing import NamedTuple

from opserve_kernels.algorithms.host import LANES
from opserve_kernels.convolution import Geometry
from opserve_kernels.views import View

DEPTH = 256  # pixels that are summed in registers, at most, before they are added to the sums


class OuterOperand(NamedTuple):
    """One of the two operands.

    Attributes:
        size: Pixels of an entry of the batch along each axis.
        channels: Of a group.
        tensor_channels: That the tensor has.
        channel_step: How far channels lie apart in it; 0 where pixels are no row of equal steps, or
            not plain float32.
        vector_pitch: From one vector of channels to the next in the copy.
        copy: Place of the copy in the workspace.
        number_format: What its elements are rounded to.
        layout: Its view.
    """

    size: tuple[int, int, int]
    channels: int
    tensor_channels: int
    channel_step: int
    vector_pitch: int
    copy: int
    number_format: int
    layout: View


class OuterStage(NamedTuple):
    """A stage: blocks of the output, and tiles of the gradient for each of them.

    Attributes:
        geometry: Of the convolution.
        groups: Of channels.
        block_batch: Entries of the batch in a block.
        block_axis: The axis along which an entry is cut.
        block_rows: Rows of a block along it.
        row_blocks: Blocks of an entry.
        blocks: Of a group.
        rows: Channels of the left operand in a tile, which has all of the right one.
        tiles: Of the gradient.
        image_is_right: Whether the image is the right operand, and the output the left one; or 0.
        gradient: Where the gradient is put: -1, through its view, or a place in its tensor or in
            the workspace.
        in_workspace: Whether that place is in the workspace.
        left_step: From one left channel to the next there, where taps lie beside each other.
        right_step: The same of right channels.
        pixels: Place in the workspace of the pixels that meet.
        line: Place of LANES rows of pixels.
        sums: Place of the sums.
        weight_format: What the gradient is rounded to.
        weight_layout: Its view, by groups, left channels, taps and right channels.
        image: X.
        output: Y.
    """

    geometry: Geometry
    groups: int
    block_batch: int
    block_axis: int
    block_rows: int
    row_blocks: int
    blocks: int
    rows: int
    tiles: int
    image_is_right: int
    gradient: int
    in_workspace: int
    left_step: int
    right_step: int
    pixels: int
    line: int
    sums: int
    weight_format: int
    weight_layout: View
    image: OuterOperand
    output: OuterOperand


def line_pitch(pixels: int) -> int:
    """From one row of pixels to the next where they are at hand: not the same set of the cache."""
    return (pixels // LANES | 1) * LANES + LANES
