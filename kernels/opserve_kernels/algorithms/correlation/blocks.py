"""Blocks of a result and the padded copy of the source that each needs.

A block is some entries of the batch, or rows of one entry along the first axis that is longer than
1. Its `rows` are those of the result's first phase, which has most; other phases of the same rows
may end before.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.transfers import fill
from opserve_kernels.algorithms.correlation.layout import (
    BATCH,
    BLOCK_AXIS,
    BLOCK_BATCH,
    BLOCK_ROWS,
    CHANNEL_PITCH,
    DIRECT,
    DIRECTION,
    EXTENT,
    IMAGE_SIZE,
    ORIGIN,
    OUTPUT_SIZE,
    PHASE_PITCH,
    ROW_BLOCKS,
    SCATTER,
    SOURCE,
    SOURCE_CHANNEL_STEP,
    SOURCE_CHANNELS,
    SOURCE_ENTRY_STEP,
    SOURCE_FORMAT,
    SOURCE_LINE,
    SOURCE_VIEW,
)
from opserve_kernels.algorithms.correlation.padded import load_padded, pad_channels
from opserve_kernels.algorithms.correlation.taps import (
    result_stride,
    source_channels,
    source_stride,
)
from opserve_kernels.algorithms.host import TILE_COLUMNS
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]

_TURN_VALUES = 1 << 12  # of padded copies that are filled at a time, half of a first-level cache


@compiled("UniTuple(int64, 3)(int64[::1], int64)")
def triple(stage: Integers, place: int) -> Triple:
    """Three numbers."""
    return int(stage[place]), int(stage[place + 1]), int(stage[place + 2])


@compiled("UniTuple(int64, 3)(int64[::1])")
def _source_size(stage: Integers) -> Triple:
    return triple(stage, OUTPUT_SIZE if stage[DIRECTION] == SCATTER else IMAGE_SIZE)


@compiled("UniTuple(int64, 3)(int64[::1])")
def result_size(stage: Integers) -> Triple:
    """Positions of the result."""
    return triple(stage, IMAGE_SIZE if stage[DIRECTION] == SCATTER else OUTPUT_SIZE)


@compiled("UniTuple(int64, 4)(int64[::1], int64)")
def block_of(stage: Integers, number: int) -> tuple[int, int, int, int]:
    """Group, first entry of the batch, entries, and first row of a block."""
    row_block, rest = number % stage[ROW_BLOCKS], number // stage[ROW_BLOCKS]
    batches = -(-stage[BATCH] // stage[BLOCK_BATCH])
    entry = rest % batches * stage[BLOCK_BATCH]
    entries = min(stage[BLOCK_BATCH], stage[BATCH] - entry)
    return rest // batches, entry, entries, row_block * stage[BLOCK_ROWS]


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
    """The padded copies of channels as they lie in a tensor, some at a time.

    Args:
        floats: The tensor.
        scratch: The workspace.
        counts: Channels, and entries of the batch.
        source: Where the first channel of the first entry is, from a channel to the next, from an
            entry to the next.
        target: Where its copy goes, from a channel to the next, from a phase to the next.
        size: Of the image.
        stride: Phases along each axis.
        begin: The position that a copy begins with.
        extent: Positions of a phase of an entry.
    """
    channels, entries = counts
    (start, step, entry_step), (place, pitch, phase_pitch) = source, target
    turn = max(1, _TURN_VALUES // pitch)
    for k in range(0, channels, turn):
        count, first = min(turn, channels - k), place + k * pitch
        fill(scratch, first, count * pitch, PADDING)
        for i in range(entries):
            to, some = first + i * extent[0] * extent[1] * extent[2], (count, step, pitch)
            places = (start + k * step + i * entry_step, to)
            pad_channels(floats, scratch, some, places, size, stride, begin, extent, phase_pitch)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], UniTuple(int64, 3), UniTuple(int64, 3), "
    "UniTuple(int64, 3), UniTuple(int64, 3))"
)
def _copy_source(  # noqa: PLR0913, PLR0917  # arrays and triples
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    block: Triple,
    size: Triple,
    stride: Triple,
    begin: Triple,
) -> None:
    """The padded copies of channels; those that the tensor does not have are zeros."""
    (group, entry, entries), channels, pitch = block, source_channels(stage), stage[CHANNEL_PITCH]
    first, step, entry_step = group * channels, stage[SOURCE_CHANNEL_STEP], stage[SOURCE_ENTRY_STEP]
    exist = min(channels, max(0, stage[SOURCE_CHANNELS] - first))
    start = stage[SOURCE_VIEW + 1] + first * step + entry * entry_step
    copy_entries(
        floats,
        scratch,
        (exist, entries),
        (start, step, entry_step),
        (stage[SOURCE], pitch, stage[PHASE_PITCH]),
        size,
        stride,
        begin,
        triple(stage, EXTENT),
    )
    fill(scratch, stage[SOURCE] + exist * pitch, (channels - exist) * pitch, np.float32(0))


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 3), "
    "UniTuple(int64, 3), UniTuple(int64, 3), UniTuple(int64, 3))"
)
def _convert_source(  # noqa: PLR0913, PLR0917  # arrays and triples
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    block: Triple,
    size: Triple,
    stride: Triple,
    begin: Triple,
) -> None:
    """The same, of any dtype and strides, channel by channel."""
    group, entry, entries = block
    extent, axis = triple(stage, EXTENT), stage[BLOCK_AXIS]
    positions = size[0] * size[1] * size[2]
    for k in range(source_channels(stage)):
        channel = group * source_channels(stage) + k
        place = stage[SOURCE] + k * stage[CHANNEL_PITCH]
        if channel >= stage[SOURCE_CHANNELS]:
            fill(scratch, place, stage[CHANNEL_PITCH], np.float32(0))
            continue
        for i in range(entries):
            load_padded(
                scratch,
                floats,
                halves,
                stage[SOURCE_VIEW:],
                stage[SOURCE_FORMAT],
                (channel * stage[BATCH] + entry + i) * positions,
                axis,
                size,
                stride,
                begin,
                extent,
                stage[SOURCE_LINE],
                place + i * extent[0] * extent[1] * extent[2],
                stage[PHASE_PITCH],
            )


@compiled("void(int64[::1], float32[::1], float32[::1], uint16[::1], int64)")
def load_source(
    stage: Integers, scratch: Floats, floats: Floats, halves: Halves, number: int
) -> None:
    """The padded copy of a block; channels that the source does not have are zeros."""
    group, entry, entries, row = block_of(stage, number)
    size, origin = _source_size(stage), triple(stage, ORIGIN)
    stride = (source_stride(stage, 0), source_stride(stage, 1), source_stride(stage, 2))
    axis = stage[BLOCK_AXIS]
    begin = (
        origin[0] + (row * stride[0] if axis == 0 else 0),
        origin[1] + (row * stride[1] if axis == 1 else 0),
        origin[2] + (row * stride[2] if axis == WIDTH else 0),
    )
    if stage[SOURCE_LINE] == DIRECT:
        _copy_source(stage, scratch, floats, (group, entry, entries), size, stride, begin)
    else:
        _convert_source(
            stage, scratch, floats, halves, (group, entry, entries), size, stride, begin
        )
    end = stage[SOURCE] + source_channels(stage) * stage[CHANNEL_PITCH]
    fill(scratch, end, TILE_COLUMNS, PADDING)


@compiled("UniTuple(int64, 3)(int64[::1], int64)")
def rows_of(stage: Integers, row: int) -> Triple:
    """Rows of the result's first phase in the block that begins with `row`."""
    size, axis = result_size(stage), stage[BLOCK_AXIS]
    d = (size[0] - 1) // result_stride(stage, 0) + 1
    h = (size[1] - 1) // result_stride(stage, 1) + 1
    w = (size[2] - 1) // result_stride(stage, 2) + 1
    return (
        min(d - row, stage[BLOCK_ROWS]) if axis == 0 else d,
        min(h - row, stage[BLOCK_ROWS]) if axis == 1 else h,
        min(w - row, stage[BLOCK_ROWS]) if axis == WIDTH else w,
    )
