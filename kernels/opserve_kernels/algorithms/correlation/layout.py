"""The record of a product of a convolution with its weight: the plan fills it, the loops read it.

    image from output    result[c] = sum over k and taps of W[k, c] * source[k]     SCATTER
    output from image    result[k] = sum over c and taps of W[k, c] * source[c]     GATHER

Both are one correlation. The stride splits positions into phases, p = u * stride + phase: with
SCATTER those of the result, each of which meets only some of the taps (no zeros are multiplied),
with GATHER those of the source. Within phases every tap is a shift:
    result[phase, u] = sum over channels and taps of the phase of W * source[its phase, u + shift]
"""

from typing import NamedTuple

from opserve_kernels.convolution import Geometry, Triple
from opserve_kernels.views import View

SCATTER, GATHER = range(2)

# In the place of a line: rows are the copy as they are; rows go from the tensor into the copy.
WHOLE, DIRECT = -1, -2


class ImageTensor(NamedTuple):
    """An image as its tensor has it.

    Attributes:
        channels: That there are.
        channel_step: From a channel to the next; 0 where values are rounded or do not lie side by
            side.
        entry_step: From an entry to the next; or 0.
        number_format: What its elements are rounded to.
        layout: Its view.
    """

    channels: int
    channel_step: int
    entry_step: int
    number_format: int
    layout: View


class CorrelationStage(NamedTuple):
    """What the stages of direct algorithms share: tensors, blocks of the result, padded copies.

    Of the gradient of the weight by dots, the result is the left operand and the weight is the
    gradient.

    Attributes:
        geometry: Of the convolution.
        groups: Of channels.
        direction: SCATTER or GATHER.
        source_image: The source as its tensor has it.
        result_image: The result as its tensor has it.
        weight_format: What the weight is rounded to.
        weight_layout: Its view.
        block_batch: Entries of the batch in a block of the result.
        block_axis: Along which an entry is cut.
        block_rows: Rows of a block along it.
        row_blocks: Blocks of an entry.
        blocks: Of a group.
        source_line: Where rows of the source are made ready; or WHOLE or DIRECT.
        phase_pitch: Of the padded copy, from a phase of a channel to the next.
        channel_pitch: From a channel to the next, in the copy or in a source that is read in place.
        flags: Place in the workspace of a value that is not 0 where values are not finite.
        table: Place of the tables of taps.
        line: Place of rows that are at hand.
        source: Place of the padded copy, or in the source.
        extent: Sizes of a phase of an entry's padded copy.
        origin: The source position that the copy begins with.
    """

    geometry: Geometry
    groups: int
    direction: int
    source_image: ImageTensor
    result_image: ImageTensor
    weight_format: int
    weight_layout: View
    block_batch: int
    block_axis: int
    block_rows: int
    row_blocks: int
    blocks: int
    source_line: int
    phase_pitch: int
    channel_pitch: int
    flags: int
    table: int
    line: int
    source: int
    extent: Triple
    origin: Triple
