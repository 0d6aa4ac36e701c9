"""The record of a depthwise stage: the plan fills it, the loops read it.

Every group has one channel c of the image X and some channels k of the output Y:

    WEIGH_OUTPUT    X[c] = sum over k and taps of W[k] * Y[k], shifted         grad_image
    WEIGH_IMAGE     Y[k] = sum over taps of W[k] * X[c], shifted               grad_output
    COMPARE         W[k, tap] = sum over positions of Y[k] * X[c], shifted     grad_weight

The stride splits the image into phases, x = u * stride + phase: within phases every tap is a shift.
The source, Y for the first and X for the others, is copied into planes (extent) wide enough that
what a shift reads beyond a row is padding, that of the next row or plane being the same as this
one's. So a whole block of planes is one run, whose sums at padding are left out at the end:

    a b c .        weight * run shifted to the left + weight * run + ...
    d e f .   ->   a b c . d e f . g h i .
    g h i .
"""

from typing import Generic, NamedTuple, TypeVar

from opserve_kernels.convolution import Geometry, Triple
from opserve_kernels.views import View

Number = TypeVar("Number")

WEIGH_OUTPUT, WEIGH_IMAGE, COMPARE = range(3)


class PlainImage(NamedTuple):
    """An image whose planes are runs of float32; zeros for any other.

    Attributes:
        is_plain: 1, or 0.
        start: Where its first plane starts.
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
        number_format: What its elements are rounded to.
        plain: Where its planes lie, of a plain image.
        layout: Its view.
    """

    number_format: int
    plain: PlainImage
    layout: View


class DepthwiseBlocks(NamedTuple):
    """How groups are cut: entries of the batch, or rows of one entry.

    Attributes:
        entries: Of a block.
        axis: Along which entries are cut; -1 is no axis.
        rows: Of a block along it.
        row_blocks: Blocks of an entry.
        per_group: Blocks of a group.
        per_unit: Blocks of a unit.
        extent: Of a plane of the copy.
        base: The shift that is the first of a block's rows, for each dimension.
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
        geometry: Of the convolution.
        groups: That there are.
        kind: WEIGH_OUTPUT, WEIGH_IMAGE or COMPARE.
        source_tensor: The image that is shifted.
        other_tensor: W, or Y for COMPARE.
        result_tensor: What is left of X, Y and W.
        blocks: Of groups.
        in_place: Whether blocks are computed where they lie, by the module `planes`.
        result_phases: Phases of the result.
        phase_pitch: Of the copy, from a phase to the next.
        channel_pitch: Of the copy, from a channel to the next.
        total_pitch: From the sums of a phase to the next.
        table: Place in the workspace of the tables of taps.
        weights: Place of the weights.
        line: Place of values that are at hand; from here to the end, all is PADDING at first.
        source: Place of the copy's first plane.
        other: Place of Y, of COMPARE.
        total: Place of the sums.
        end: Place behind them.
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
    end: int


class Strip(NamedTuple, Generic[Number]):
    """What a kernel of `plane_tiles` takes besides its three arrays: planes A, values, planes B.

    Attributes:
        first: Place of planes A in their array.
        values: Place of weights or totals.
        second: Place of planes B.
        first_step: From plane to plane of A.
        second_step: From plane to plane of B.
        planes: How many.
        first_rows: Of a plane of A.
        first_columns: Of a row of A.
        second_rows: Of a plane of B.
        second_columns: Of a row of B.
        up: Padding before rows.
        before: Padding before columns.
        column: The strip's first.
        first_following: From a plane of A to the one that comes next, which caches then fetch.
        second_following: The same of B.
    """

    first: Number
    values: Number
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
