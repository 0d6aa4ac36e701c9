"""The record of a weight gradient by outer products: the plan fills it, the loops read it."""

from typing import NamedTuple

from opserve_kernels.algorithms.host import LANES
from opserve_kernels.convolution import Geometry
from opserve_kernels.views import View

DEPTH = 256  # pixels that are summed in registers at most, before they are added to the sums


class OuterOperand(NamedTuple):
    """One of the two operands.

    Attributes:
        size: Pixels of an entry of the batch along each axis.
        channels: Channels of a group.
        tensor_channels: Channels of the tensor.
        channel_step: Distance of channels in the tensor; 0 if it is not plain float32, or if its
            pixels are not a row of equal steps.
        in_place: Whether the micro-kernel reads the tensor; else a copy in the workspace.
        row_step: Distance of two adjacent channels, as the micro-kernel reads them.
        vector_pitch: Distance of two vectors of channels.
        pixel_step: Distance of two pixels.
        group_step: Distance of two groups of channels in the tensor; 0 if it is not in place.
        entry_step: Distance of two entries of the batch in the tensor; 0 if it is not in place.
        copy: Place of the copy in the workspace; or of the first pixel in the tensor.
        singles: Distance from words of pairs to those of single pixels, behind them; 0 without.
        number_format: Format that its elements are rounded to.
        layout: Its view.
    """

    size: tuple[int, int, int]
    channels: int
    tensor_channels: int
    channel_step: int
    in_place: int
    row_step: int
    vector_pitch: int
    pixel_step: int
    group_step: int
    entry_step: int
    copy: int
    singles: int
    number_format: int
    layout: View


# Places and steps of both orders of operands are one record, so that the loops have no case for
# either.
class OuterStage(NamedTuple):
    """A stage: blocks of the output, and tiles of the gradient for each of them.

    Attributes:
        geometry: Geometry of the convolution.
        groups: Groups of channels.
        block_batch: Entries of the batch in a block.
        block_axis: The axis along which an entry is cut.
        block_rows: Rows of a block along that axis.
        row_blocks: Blocks of an entry.
        blocks: Blocks of a group.
        rows: Channels of the left operand in a tile, which has all of the right one.
        tiles: Tiles of the gradient.
        image_is_right: 1 if the image is the right operand and the output the left one, else 0.
        gradient: Target of the gradient: -1 for its view, or a place in its tensor or in the
            workspace.
        in_workspace: Whether that place is in the workspace.
        pairs: Whether the copies have pairs of pixels, as words.
        flag: With pairs, place in the workspace of a value that is 0 if all values suit them.
        left_step: Distance of two left channels there, where taps are contiguous.
        right_step: Distance of two right channels.
        pixels: Place in the workspace of the table of pixels that meet.
        line: Place of LANES rows of pixels.
        sums: Place of the sums.
        weight_format: Format that the gradient is rounded to.
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
    pairs: int
    flag: int
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
    """Distance in memory between two loaded rows of pixels, which is never a power of two."""
    # `_interleave` reads LANES rows together: at a distance of a power of two they would share few
    # sets of the cache and evict each other.
    return (pixels // LANES | 1) * LANES + LANES
