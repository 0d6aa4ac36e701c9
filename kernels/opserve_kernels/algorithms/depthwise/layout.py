"""The record of a depthwise stage: the plan fills it, the loops read it.

Every group has one channel c of the image X and some channels k of the output Y:

    WEIGH_OUTPUT    X[c] = sum over k and taps of W[k] * Y[k], shifted         grad_image
    WEIGH_IMAGE     Y[k] = sum over taps of W[k] * X[c], shifted               grad_output
    COMPARE         W[k, tap] = sum over positions of Y[k] * X[c], shifted     grad_weight

The stride splits the image into phases, x = u * stride + phase: within phases every tap is a shift.
The source, Y for the first and X for the others, is copied into planes (extent) with enough padding
that the shift beyond a row reads padding: the next row's or plane's padding is also this one's. So
a whole block of planes is one run, whose sums at padding are left out at the end:

    a b c .        weight * run shifted to the left + weight * run + ...
    d e f .   ->   a b c . d e f . g h i .
    g h i .
"""

from typing import Generic, NamedTuple, TypeVar

from opserve_kernels.convolution import Geometry, Triple
from opserve_kernels.views import View

Number = TypeVar("Number")

# A weighted sum of planes is elementwise, so vectors need no folding; a comparison folds one vector
# for each tap at the end.
WEIGH_OUTPUT, WEIGH_IMAGE, COMPARE = range(3)


class PlainImage(NamedTuple):
    """An image whose planes are runs of float32; zeros for any other image.

    Attributes:
        is_plain: 1, or 0.
        start: Start of its first plane.
        channel_step: From one channel to the next.
        entry_step: From one entry of the batch to the next.
    """

    is_plain: int
    start: int
    channel_step: int
    entry_step: int


class DepthwiseTensor(NamedTuple):
    """A tensor of a product.

    Attributes:
        number_format: Format that its elements are rounded to.
        plain: Its planes, if it is a plain image.
        layout: Its view.
    """

    number_format: int
    plain: PlainImage
    layout: View


class DepthwiseBlocks(NamedTuple):
    """The cut of groups: entries of the batch, or rows of one entry.

    Attributes:
        entries: Entries of a block.
        axis: Axis along which entries are cut; -1 is no axis.
        rows: Rows of a block along the axis.
        row_blocks: Blocks of an entry.
        per_group: Blocks of a group.
        per_unit: Blocks of a unit.
        extent: Sizes of a plane of the copy.
        base: The shift that reads the first of a block's rows, for each dimension.
    """

    entries: int
    axis: int
    rows: int
    row_blocks: int
    per_group: int
    per_unit: int
    extent: Triple
    base: Triple


class DepthwiseStage(NamedTuple):
    """A product of every group.

    Attributes:
        geometry: Geometry of the convolution.
        groups: Number of groups.
        kind: WEIGH_OUTPUT, WEIGH_IMAGE or COMPARE.
        source_tensor: The image that is shifted.
        other_tensor: W, or Y for COMPARE.
        result_tensor: The third of X, Y and W.
        blocks: The cut of the groups.
        in_place: Whether blocks are computed without a copy, by the module `planes`.
        result_phases: Phases of the result.
        phase_pitch: Distance of two phases of the copy.
        channel_pitch: Distance of two channels of the copy.
        total_pitch: Distance of the sums of two phases.
        table: Place in the workspace of the tables of taps.
        weights: Place of the weights.
        line: Place of a line of loaded or stored values; from here to the end, all is PADDING at
            first.
        source: Place of the copy's first plane.
        other: Place of Y, for COMPARE.
        total: Place of the sums.
        bias: Place of what is added to the sums of the result's first channel.
        bias_step: Distance to that of the next channel; 0 if PADDING is added to all.
        end: Place behind the sums.
    """

    geometry: Geometry
    groups: int
    kind: int
    source_tensor: DepthwiseTensor
    other_tensor: DepthwiseTensor
    result_tensor: DepthwiseTensor
    blocks: DepthwiseBlocks
    in_place: int
    result_phases: int
    phase_pitch: int
    channel_pitch: int
    total_pitch: int
    table: int
    weights: int
    line: int
    source: int
    other: int
    total: int
    bias: int
    bias_step: int
    end: int


# Generic, since loops pass it with integers and the generator with LLVM values: one list of
# arguments for both.
class Strip(NamedTuple, Generic[Number]):
    """Arguments of a kernel of `plane_tiles` besides its three arrays: planes A, values, planes B.

    Attributes:
        first: Place of planes A in their array.
        values: Place of weights or totals.
        bias: Place, among the weights, of what is added to every sum of B.
        second: Place of planes B.
        first_step: Distance of two planes of A.
        second_step: Distance of two planes of B.
        planes: Number of planes.
        first_rows: Rows of a plane of A.
        first_columns: Columns of a row of A.
        second_rows: Rows of a plane of B.
        second_columns: Columns of a row of B.
        up: Padding before rows.
        before: Padding before columns.
        column: The strip's first column.
        first_following: Distance to the next plane of A, which is prefetched.
        second_following: The same for B.
    """

    first: Number
    values: Number
    bias: Number
    second: Number
    first_step: Number
    second_step: Number
    planes: Number
    first_rows: Number
    first_columns: Number
    second_rows: Number
    second_columns: Number
    up: Number
    before: Number
    column: Number
    first_following: Number
    second_following: Number
