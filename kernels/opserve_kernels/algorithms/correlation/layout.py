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

# Instead of the place of a line: the copy is a run of the source; or rows are copied without one.
# In the place of a line: rows are the copy as they are; rows go from the tensor into the copy.
WHOLE, DIRECT = -1, -2

NO_BIAS = -1
"""In place of the values of a bias."""


class ImageTensor(NamedTuple):
    """An image and its layout in the tensor.

    Attributes:
        channels: Channels of the tensor.
        channel_step: Distance of channels; 0 where values are rounded or positions not contiguous.
        entry_step: Distance of entries; or 0.
        number_format: Format that its elements are rounded to.
        layout: Its view.
    """

    channels: int
    channel_step: int
    entry_step: int
    number_format: int
    layout: View


class CorrelationStage(NamedTuple):
    """Shared fields of the direct algorithms: tensors, blocks of the result, padded copies.

    For the gradient of the weight by dots, the result is the left operand and the weight is the
    gradient.

    Attributes:
        geometry: Geometry of the convolution.
        groups: Groups of channels.
        direction: SCATTER or GATHER.
        pairs: Whether the copy and the weight's panels have pairs of channels, as words.
        by_taps: Whether sums take all channels of a tap before those of the next one.
        source_image: The source and its layout.
        result_image: The result and its layout.
        weight_format: Format that the weight is rounded to.
        weight_layout: Its view.
        block_batch: Entries of the batch in a block of the result.
        block_axis: Axis along which an entry is cut.
        block_rows: Rows of a block along that axis.
        row_blocks: Blocks of an entry.
        blocks: Blocks of a group.
        source_line: Place of a line of loaded source values; or WHOLE or DIRECT.
        phase_pitch: Distance of two phases of a channel in the padded copy.
        channel_pitch: Distance of two channels, in the copy or in a source that is read in place.
        flags: Place in the workspace of a value that is not 0 if a value is not finite.
        table: Place of the tables of taps.
        line: Place of a line of loaded or stored values.
        source: Place of the padded copy; or, in the source's buffer, of a source read in place.
        extent: Sizes of a phase of an entry's padded copy.
        origin: The source position at which the copy begins.
    """

    geometry: Geometry
    groups: int
    direction: int
    pairs: int
    by_taps: int
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
