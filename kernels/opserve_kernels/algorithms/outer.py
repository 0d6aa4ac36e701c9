"""The gradient of the weight as sums of outer products: pixel by pixel, channels by channels.

    W[l, tap, r] = sum over entries and positions of L[pixel, l] * R[pixel under tap, r]

One of L and R is the image, the other the output. A block of each is copied so that channels lie
beside each other; the micro-kernel finds the pixels that meet under a tap in a table.

    X, Y, block     ->  copies (channels / LANES, pixels, LANES)
    tap             ->  pixels (2 * pixels that meet), nothing where the tap lies in padding
    copies, pixels  ->  sums of a tile (rows: left channels, taps, right channels)
    sums            ->  the gradient, row by row

Nothing is multiplied with padding, so that values that are not finite need no care. Strides and
dilations are in the table alone.

Units: for each block of every group, both copies, and after them each tap of each tile of the
gradient; the last block's also store it.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.copies import (
    copy_run,
    copy_steps,
    copy_vectors,
    interleave,
    separate,
)
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.algorithms.outer_kernels import TURN_ROWS, TURN_VECTORS, add_outer
from opserve_kernels.algorithms.outer_layout import (
    BATCH,
    BLOCK_AXIS,
    BLOCK_BATCH,
    BLOCK_ROWS,
    BLOCKS,
    CHANNEL_STEP,
    CHANNELS,
    COPY,
    DEPTH,
    DILATION,
    FORMAT,
    GRADIENT,
    IMAGE,
    IMAGE_SIZE,
    IN_WORKSPACE,
    IS_IMAGE,
    KERNEL,
    LEFT,
    LEFT_STEP,
    LINE,
    OUTPUT,
    OUTPUT_SIZE,
    PADDING,
    PIXELS,
    RIGHT,
    RIGHT_STEP,
    ROW_BLOCKS,
    ROWS,
    STRIDE,
    SUMS,
    TAPS,
    TENSOR_CHANNELS,
    TILES,
    VECTOR_PITCH,
    VIEW,
    WEIGHT_FORMAT,
    WEIGHT_VIEW,
    line_pitch,
)
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load, position_of, store
from opserve_kernels.views import VIEW_LENGTH

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]

_LAST_STEP = VIEW_LENGTH - 1

_copy_run = copy_run(LANES)
_copy_steps = copy_steps()
_interleave = interleave(LANES)
_separate = separate(LANES)
_copy_vector = copy_vectors(1, width=LANES)
_line_pitch = compiled("int64(int64)")(line_pitch)


@compiled("UniTuple(int64, 4)(int64[::1], int64)")
def _block_of(stage: Integers, number: int) -> Quad:
    """First entry of the batch, entries, first row of the output and rows of a block."""
    row = number % stage[ROW_BLOCKS] * stage[BLOCK_ROWS]
    entry = number // stage[ROW_BLOCKS] * stage[BLOCK_BATCH]
    entries = min(stage[BLOCK_BATCH], stage[BATCH] - entry)
    rows = min(stage[BLOCK_ROWS], stage[OUTPUT_SIZE + stage[BLOCK_AXIS]] - row)
    return entry, entries, row, rows


@compiled("UniTuple(int64, 2)(int64[::1], UniTuple(int64, 4))")
def _image_rows(stage: Integers, block: Quad) -> tuple[int, int]:
    """The image's rows first .. last-1 that a block needs."""
    axis = stage[BLOCK_AXIS]
    stride, size = stage[STRIDE + axis], stage[IMAGE_SIZE + axis]
    low = block[2] * stride - stage[PADDING + axis]
    span = (stage[KERNEL + axis] - 1) * stage[DILATION + axis]
    high = low + (block[3] - 1) * stride + span + 1
    first = min(max(low, 0), size)
    return int(first), int(max(first, min(high, size)))


@compiled("int64(int64[::1], int64)")
def _row_pixels(stage: Integers, size: int) -> int:
    """Positions of a row along the axis that blocks are cut along."""
    pixels = 1
    for axis in range(stage[BLOCK_AXIS] + 1, 3):
        pixels *= stage[size + axis]
    return pixels


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 4), "
    "UniTuple(int64, 2))"
)
def _load_pixels(
    operand: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    place: Quad,
    channels: tuple[int, int],
) -> None:
    """Pixels of at most LANES channels beside each other; channels that lack are zeros.

    Args:
        operand: Its description.
        scratch: The workspace.
        floats: The tensor's buffer as float32 values.
        halves: The same as 16-bit patterns.
        place: Index of the first pixel of the first channel, pixels, where they go, and where
            LANES rows of them fit.
        channels: How many, and the pixels of a channel.
    """
    index, count, target, line = place
    some, channel_pixels = channels
    view, step = operand[VIEW:], operand[CHANNEL_STEP]
    start, at_once = position_of(view, index), step > 0 and some == LANES
    if at_once and step == 1:
        for i in range(count):
            _copy_vector(floats, scratch, (start + i * view[_LAST_STEP], target + i * LANES))
    elif at_once:
        _interleave(floats, scratch, (start, step, target, count))
    else:
        pitch = _line_pitch(count)
        for lane in range(LANES):
            row = scratch[line + lane * pitch :][:count]
            if lane < some:
                first = index + lane * channel_pixels
                load(floats, halves, view, operand[FORMAT], first, row)
            else:
                row[:] = np.float32(0)
        _interleave(scratch, scratch, (line, pitch, target, count))


@compiled(
    "void(int64[::1], int64, float32[::1], float32[::1], uint16[::1], int64, UniTuple(int64, 4))"
)
def _load(  # noqa: PLR0913, PLR0917  # arrays, places and a block
    stage: Integers,
    at: int,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    group: int,
    block: Quad,
) -> None:
    """The copy of a block of an operand, whose description is at a place of the stage."""
    operand, size = stage[at:], IMAGE_SIZE if stage[at + IS_IMAGE] else OUTPUT_SIZE
    first, last = block[2], block[2] + block[3]
    if operand[IS_IMAGE]:
        first, last = _image_rows(stage, block)
    pixels = stage[size] * stage[size + 1] * stage[size + 2]
    row = _row_pixels(stage, size)
    count = (last - first) * row
    for vector in range(-(-operand[CHANNELS] // LANES)):
        channel = group * operand[CHANNELS] + vector * LANES
        some = min(LANES, operand[CHANNELS] - vector * LANES, operand[TENSOR_CHANNELS] - channel)
        for i in range(block[1]):
            index = (channel * stage[BATCH] + block[0] + i) * pixels + first * row
            target = operand[COPY] + vector * operand[VECTOR_PITCH] + i * count * LANES
            place = (index, count, target, stage[LINE])
            channels = (some, stage[BATCH] * pixels)
            _load_pixels(operand, scratch, floats, halves, place, channels)


@compiled("UniTuple(int64, 2)(int64[::1], int64, int64)")
def _meeting(stage: Integers, axis: int, tap: int) -> tuple[int, int]:
    """The output positions first .. last-1 for which a tap lies in the image, along an axis."""
    stride = stage[STRIDE + axis]
    before = stage[PADDING + axis] - tap * stage[DILATION + axis]
    first = max(0, -(-before // stride))
    last = (stage[IMAGE_SIZE + axis] - 1 + before) // stride + 1
    return first, max(first, min(last, stage[OUTPUT_SIZE + axis]))


@compiled("UniTuple(int64, 3)(int64[::1], int64)")
def _tap_of(stage: Integers, tap: int) -> Triple:
    """A tap along each axis."""
    height, width = stage[KERNEL + 1], stage[KERNEL + 2]
    return tap // width // height, tap // width % height, tap % width


@compiled("void(int64[::1], int32[::1], UniTuple(int64, 4), int64)")
def _fill_pixels(stage: Integers, table: Offsets, block: Quad, tap: int) -> None:
    """Counts the pixels of a block that meet under a tap, and says where both lie in the copies."""
    taps, axis = _tap_of(stage, tap), stage[BLOCK_AXIS]
    d_first, d_last = _meeting(stage, 0, taps[0])
    h_first, h_last = _meeting(stage, 1, taps[1])
    w_first, w_last = _meeting(stage, 2, taps[2])
    top, bottom = block[2], block[2] + block[3]
    if axis == 0:
        d_first, d_last = max(d_first, top), min(d_last, bottom)
    elif axis == 1:
        h_first, h_last = max(h_first, top), min(h_last, bottom)
    else:
        w_first, w_last = max(w_first, top), min(w_last, bottom)
    low, high = _image_rows(stage, block)
    rows = _row_pixels(stage, OUTPUT_SIZE), _row_pixels(stage, IMAGE_SIZE)
    d_at = taps[0] * stage[DILATION] - stage[PADDING]
    h_at = taps[1] * stage[DILATION + 1] - stage[PADDING + 1]
    w_at = taps[2] * stage[DILATION + 2] - stage[PADDING + 2]
    swap = 1 if stage[LEFT] == IMAGE else 0
    place, step = stage[PIXELS] + 1, stage[STRIDE + 2]
    start = place
    for i in range(block[1]):
        for d in range(d_first, d_last):
            for h in range(h_first, h_last):
                y = (d * stage[OUTPUT_SIZE + 1] + h) * stage[OUTPUT_SIZE + 2] + w_first
                y += i * block[3] * rows[0] - top * rows[0]
                x = (d * stage[STRIDE] + d_at) * stage[IMAGE_SIZE + 1]
                x = (x + h * stage[STRIDE + 1] + h_at) * stage[IMAGE_SIZE + 2]
                x += w_first * step + w_at + i * (high - low) * rows[1] - low * rows[1]
                for w in range(w_last - w_first):
                    table[place + 2 * w + swap] = (y + w) * LANES
                    table[place + 2 * w + 1 - swap] = (x + w * step) * LANES
                place += 2 * max(0, w_last - w_first)
    table[stage[PIXELS]] = (place - start) // 2


@compiled("int64(int64[::1])")
def _row_sums(stage: Integers) -> int:
    """Sums of a row and tap, with those that fill up the last vector."""
    return int(-(-stage[stage[RIGHT] + CHANNELS] // LANES) * LANES)


@compiled("int64(int64[::1], int64)")
def _sums_of(stage: Integers, tile: int) -> int:
    """Where the sums of a tile lie; a single block needs those of one tile at a time."""
    size = stage[ROWS] * stage[TAPS] * _row_sums(stage)
    return int(stage[SUMS] + (tile * size if stage[BLOCKS] > 1 else 0))


@compiled("void(int64[::1], float32[::1], int32[::1], int64, int64, int64)")
def _add_tap(
    stage: Integers, scratch: Floats, table: Offsets, number: int, tile: int, tap: int
) -> None:
    """Adds a tap of a block, the number-th, to a tile of the gradient."""
    left, right = stage[stage[LEFT] :], stage[stage[RIGHT] :]
    count, row_sums = int(table[stage[PIXELS]]), _row_sums(stage)
    sums, pitch = _sums_of(stage, tile) + tap * row_sums, stage[TAPS] * row_sums
    first_row = tile * stage[ROWS]
    rows, columns = min(stage[ROWS], left[CHANNELS] - first_row), row_sums // LANES
    sets, turns = 1 if number == 0 else 0, -(-columns // TURN_VECTORS)
    chunks = max(-(-count // DEPTH), sets)
    for chunk in range(chunks):
        begin = count * chunk // chunks
        depth = count * (chunk + 1) // chunks - begin
        pixels, adds = stage[PIXELS] + 1 + 2 * begin, 0 if chunk < sets else 1
        for turn in range(turns):
            vector = columns * turn // turns
            vectors = columns * (turn + 1) // turns - vector
            source = right[COPY] + vector * right[VECTOR_PITCH]
            for m in range(0, rows, TURN_ROWS):
                row = first_row + m
                factors = left[COPY] + row // LANES * left[VECTOR_PITCH] + row % LANES
                total = sums + m * pitch + vector * LANES
                numbers = (
                    *(depth, factors, source, pixels),
                    *(right[VECTOR_PITCH], total, pitch, adds),
                )
                add_outer(scratch, table, numbers, min(TURN_ROWS, rows - m), vectors)


@compiled("void(int64[::1], float32[::1], float32[::1], int64, int64)")
def _put_tile(stage: Integers, scratch: Floats, target: Floats, group: int, tile: int) -> None:
    """The sums of a tile to where taps lie beside each other, and steps are those of the plan."""
    taps, row_sums, first = stage[TAPS], _row_sums(stage), tile * stage[ROWS]
    left, count = stage[stage[LEFT] + CHANNELS], stage[stage[RIGHT] + CHANNELS]
    sums, step = _sums_of(stage, tile), stage[RIGHT_STEP]
    run, runs = taps, min(stage[ROWS], left - first)
    if stage[LEFT_STEP] == taps and step > 1:
        run, runs = runs * taps, 1
    place = stage[GRADIENT] + group * left * count * taps + first * stage[LEFT_STEP]
    for i in range(runs):
        source, to = sums + i * taps * row_sums, place + i * stage[LEFT_STEP]
        if step == 1:
            _copy_run(scratch, target, (source, to, count))
            continue
        whole = count // LANES * LANES
        for r in range(0, whole, LANES):
            _separate(scratch, target, (source + r, row_sums, to + r * step, step, run))
        for r in range(whole, count):
            _copy_steps(scratch, target, (source + r, row_sums, to + r * step, 1, run))


@compiled("void(int64[::1], float32[::1], float32[::1], uint16[::1], int64, int64)")
def _store_tile(
    stage: Integers, scratch: Floats, floats: Floats, halves: Halves, group: int, tile: int
) -> None:
    """The sums of a tile as rows of the gradient, rounded."""
    left, count = int(stage[stage[LEFT] + CHANNELS]), int(stage[stage[RIGHT] + CHANNELS])
    place = _sums_of(stage, tile)
    for m in range(tile * stage[ROWS], min((tile + 1) * stage[ROWS], left)):
        for tap in range(stage[TAPS]):
            index = ((group * left + m) * stage[TAPS] + tap) * count
            values, view = scratch[place : place + count], stage[WEIGHT_VIEW:]
            store(values, stage[WEIGHT_FORMAT], view, index, floats, halves)
            place += _row_sums(stage)


@compiled(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], float32[::1], "
    "uint16[::1], float32[::1], uint16[::1], int64, int64)"
)
def run_outer(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    image: Floats,
    image_halves: Halves,
    gradient: Floats,
    gradient_halves: Halves,
    output: Floats,
    output_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; the buffers of X, W and Y come as float32 and as halves."""
    block_units = 1 + stage[TILES] * stage[TAPS]
    for unit in range(first, last):
        group, number = unit // block_units // stage[BLOCKS], unit // block_units % stage[BLOCKS]
        block, inside = _block_of(stage, number), unit % block_units - 1
        if inside < 0:
            _load(stage, IMAGE, scratch, image, image_halves, group, block)
            _load(stage, OUTPUT, scratch, output, output_halves, group, block)
            continue
        tile, tap = inside // stage[TAPS], inside % stage[TAPS]
        _fill_pixels(stage, table, block, tap)
        _add_tap(stage, scratch, table, number, tile, tap)
        if tap == stage[TAPS] - 1 and number == stage[BLOCKS] - 1:
            if stage[GRADIENT] < 0:
                _store_tile(stage, scratch, gradient, gradient_halves, group, tile)
            elif stage[IN_WORKSPACE]:
                _put_tile(stage, scratch, scratch, group, tile)
            else:
                _put_tile(stage, scratch, gradient, group, tile)
