"""Blocks of a result and the padded copy of the source that each needs.

A block is some entries of the batch, or rows of one entry along the first axis that is longer than
1. Its `rows` are those of the result's first phase, which has most; other phases of the same rows
may end before.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.pairs import join_rows, suit_pairs
from opserve_kernels.algorithms.codegen.transfers import fill
from opserve_kernels.algorithms.correlation.layout import DIRECT, SCATTER, CorrelationStage
from opserve_kernels.algorithms.correlation.padded import load_padded, pad_channels
from opserve_kernels.algorithms.correlation.taps import (
    result_stride,
    source_channels,
    source_stride,
    summed_channels,
)
from opserve_kernels.algorithms.host import TILE_COLUMNS
from opserve_kernels.convolution import WIDTH, Triple
from opserve_kernels.loops import compiled
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]

_TURN_VALUES = 1 << 12  # of padded copies that are filled at a time, half of a first-level cache


@compiled()
def extent_of(stage: CorrelationStage) -> Triple:
    """Sizes of a phase of an entry's padded copy."""
    extent = stage.extent
    return extent[0], extent[1], extent[2]


@compiled()
def source_size(stage: CorrelationStage) -> Triple:
    """Positions of the source."""
    shape = stage.geometry
    size = shape.output_size if stage.direction == SCATTER else shape.input_size
    return size[0], size[1], size[2]


@compiled()
def result_size(stage: CorrelationStage) -> Triple:
    """Positions of the result."""
    shape = stage.geometry
    size = shape.input_size if stage.direction == SCATTER else shape.output_size
    return size[0], size[1], size[2]


@compiled()
def block_of(stage: CorrelationStage, number: int) -> tuple[int, int, int, int]:
    """Group, first entry of the batch, entries, and first row of a block."""
    # Numbers count row blocks first, then entries, then groups, as the plan's units do.
    shape = stage.geometry
    row_block, rest = number % stage.row_blocks, number // stage.row_blocks
    batches = -(-shape.batch // stage.block_batch)
    entry = rest % batches * stage.block_batch
    entries = min(stage.block_batch, shape.batch - entry)
    return rest // batches, entry, entries, row_block * stage.block_rows


@compiled(
    "void(float32[::1], float32[::1], UniTuple(int64, 2), UniTuple(int64, 3), "
    "UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3), "
    "UniTuple(int64, 3))"
)
def copy_entries(  # noqa: PLR0913, PLR0917  # arrays, places and triples
    floats: Floats,
    scratch: Floats,
    counts: tuple[int, int],
    source: Triple,
    target: Triple,
    size: Triple,
    stride: Triple,
    begin: Triple,
    extent: Triple,
) -> None:
    """Fills the padded copies of channels from plain float32 images, some channels at a time.

    Args:
        floats: The tensor.
        scratch: The workspace.
        counts: Channels, and entries of the batch.
        source: Start of the first channel of the first entry, and the steps to the next channel and
            to the next entry.
        target: Start of the first copy, and the steps to the next channel and to the next phase.
        size: Of the image.
        stride: Phases along each axis.
        begin: The position at which a copy begins.
        extent: Positions of a phase of an entry.
    """
    channels, entries = counts
    (start, step, entry_step), (place, pitch, phase_pitch) = source, target
    turn = max(1, _TURN_VALUES // pitch)
    # Some channels at a time: their padding is still in the first-level cache when the values
    # overwrite it.
    for k in range(0, channels, turn):
        count, first = min(turn, channels - k), place + k * pitch
        fill(scratch, first, count * pitch, PADDING)
        for i in range(entries):
            to, some = first + i * extent[0] * extent[1] * extent[2], (count, step, pitch)
            places = (start + k * step + i * entry_step, to)
            pad_channels(floats, scratch, some, places, size, stride, begin, extent, phase_pitch)


@compiled()
def _copy_source(  # noqa: PLR0913, PLR0917  # arrays and triples
    stage: CorrelationStage,
    scratch: Floats,
    floats: Floats,
    block: Triple,
    size: Triple,
    stride: Triple,
    begin: Triple,
) -> None:
    """Fills the padded copies of channels from a plain tensor; channels that it lacks are zeros."""
    image = stage.source_image
    (group, entry, entries), channels, pitch = block, source_channels(stage), stage.channel_pitch
    first, step, entry_step = group * channels, image.channel_step, image.entry_step
    # A tensor may have fewer channels than the convolution, whose channels fill whole blocks of
    # FRACTAL_Z.
    exist = min(channels, max(0, image.channels - first))
    start = image.layout.offset + first * step + entry * entry_step
    copy_entries(
        floats,
        scratch,
        (exist, entries),
        (start, step, entry_step),
        (stage.source, pitch, stage.phase_pitch),
        size,
        stride,
        begin,
        extent_of(stage),
    )
    fill(scratch, stage.source + exist * pitch, (channels - exist) * pitch, np.float32(0))


@compiled()
def _convert_source(  # noqa: PLR0913, PLR0917  # arrays and triples
    stage: CorrelationStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    block: Triple,
    size: Triple,
    stride: Triple,
    begin: Triple,
) -> None:
    """The same for any dtype and strides, channel by channel."""
    image = stage.source_image
    group, entry, entries = block
    # Conversion goes through the line: the rows of one channel and entry at a time.
    extent, axis = extent_of(stage), stage.block_axis
    positions = size[0] * size[1] * size[2]
    for k in range(source_channels(stage)):
        channel = group * source_channels(stage) + k
        place = stage.source + k * stage.channel_pitch
        if channel >= image.channels:
            fill(scratch, place, stage.channel_pitch, np.float32(0))
            continue
        for i in range(entries):
            load_padded(
                scratch,
                floats,
                halves,
                image.layout,
                image.number_format,
                (channel * stage.geometry.batch + entry + i) * positions,
                axis,
                size,
                stride,
                begin,
                extent,
                stage.source_line,
                place + i * extent[0] * extent[1] * extent[2],
                stage.phase_pitch,
            )


@compiled()
def load_source(
    stage: CorrelationStage, scratch: Floats, floats: Floats, halves: Halves, number: int
) -> None:
    """Fills the padded copy of a block; channels that the source lacks are zeros."""
    group, entry, entries, row = block_of(stage, number)
    size, origin = source_size(stage), stage.origin
    stride = (source_stride(stage, 0), source_stride(stage, 1), source_stride(stage, 2))
    axis = stage.block_axis
    # The block begins `row` strides after the first block, along the cut axis only.
    begin = (
        origin[0] + (row * stride[0] if axis == 0 else 0),
        origin[1] + (row * stride[1] if axis == 1 else 0),
        origin[2] + (row * stride[2] if axis == WIDTH else 0),
    )
    if stage.source_line == DIRECT:
        _copy_source(stage, scratch, floats, (group, entry, entries), size, stride, begin)
    else:
        _convert_source(
            stage, scratch, floats, halves, (group, entry, entries), size, stride, begin
        )
    # The last tile of positions reads up to TILE_COLUMNS values behind the last channel.
    end = stage.source + source_channels(stage) * stage.channel_pitch
    fill(scratch, end, TILE_COLUMNS, PADDING)


@compiled()
def pair_source(stage: CorrelationStage, scratch: Floats) -> None:
    """Joins pairs of channels of a loaded block; raises the flag if a value suits no pairs."""
    pitch, channels = stage.channel_pitch, source_channels(stage)
    if not suit_pairs(scratch[stage.source : stage.source + channels * pitch]):
        scratch[stage.flags] = np.float32(1)
    join_rows(scratch, stage.source, pitch, 0, channels)
    fill(scratch, stage.source + summed_channels(stage) * pitch, TILE_COLUMNS, PADDING)


@compiled()
def rows_of(stage: CorrelationStage, row: int) -> Triple:
    """Rows of the result's first phase in the block that begins with `row`."""
    # The first phase has most positions: ceil(size / stride).
    size, axis = result_size(stage), stage.block_axis
    d = (size[0] - 1) // result_stride(stage, 0) + 1
    h = (size[1] - 1) // result_stride(stage, 1) + 1
    w = (size[2] - 1) // result_stride(stage, 2) + 1
    return (
        min(d - row, stage.block_rows) if axis == 0 else d,
        min(h - row, stage.block_rows) if axis == 1 else h,
        min(w - row, stage.block_rows) if axis == WIDTH else w,
    )
