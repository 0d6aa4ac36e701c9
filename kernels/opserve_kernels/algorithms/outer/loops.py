"""The gradient of the weight as sums of outer products: pixel by pixel, channels by channels.

    W[l, tap, r] = sum over entries and positions of L[pixel, l] * R[pixel under tap, r]

One of L and R is the image, the other the output. A block of each is copied with channels
contiguous; the micro-kernel looks the pixels that meet under a tap up in a table.

    X, Y, block     ->  copies (channels / LANES, pixels, LANES)
    tap             ->  pixels (pixels that meet, 2), none where the tap is in padding
    copies, pixels  ->  sums of a tile (rows: left channels, taps, right channels)
    sums            ->  the gradient, row by row

No padding is multiplied, so values that are not finite need no special case. Strides and dilations
are in the table alone.

For each block of every group, one unit makes both copies; the units behind it add one tap of one
tile of the gradient each. The last block's units also store it.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.copies import (
    copy_run,
    copy_steps,
    copy_vectors,
    interleave,
    separate,
)
from opserve_kernels.algorithms.codegen.pairs import join, keep_upper, suit_pairs
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.algorithms.outer.kernels import (
    TURN_ROWS,
    TURN_VECTORS,
    Nine,
    add_outer,
    add_outer_in_place,
    add_outer_pairs,
)
from opserve_kernels.algorithms.outer.layout import DEPTH, OuterOperand, OuterStage, line_pitch
from opserve_kernels.convolution import Geometry
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load, position_of, store
from opserve_kernels.views import LAST_AXIS

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]


_RIGHT = 1 << 32  # the right operand's half of a number in the table of pixels
_copy_run = copy_run(LANES)
_copy_steps = copy_steps()
_interleave = interleave(LANES)
_separate = separate(LANES)
_copy_vector = copy_vectors(1, width=LANES)
_line_pitch = compiled("int64(int64)")(line_pitch)


@compiled()
def _block_of(stage: OuterStage, number: int) -> Quad:
    """First entry of the batch, entries, first row of the output and rows of a block."""
    row = number % stage.row_blocks * stage.block_rows
    entry = number // stage.row_blocks * stage.block_batch
    entries = min(stage.block_batch, stage.geometry.batch - entry)
    rows = min(stage.block_rows, stage.output.size[stage.block_axis] - row)
    return entry, entries, row, rows


@compiled()
def _image_rows(stage: OuterStage, block: Quad) -> tuple[int, int]:
    """The image's rows first .. last-1 that a block needs."""
    # Rows in padding do not exist: the bounds are cut to the image.
    shape, axis = stage.geometry, stage.block_axis
    stride, size = shape.stride[axis], shape.input_size[axis]
    low = block[2] * stride - shape.padding[axis]
    span = (shape.kernel_size[axis] - 1) * shape.dilation[axis]
    high = low + (block[3] - 1) * stride + span + 1
    first = min(max(low, 0), size)
    return first, max(first, min(high, size))


@compiled()
def _row_pixels(size: Triple, cut_axis: int) -> int:
    """Positions of a row along the axis on which blocks are cut."""
    pixels = 1
    for axis in range(cut_axis + 1, 3):
        pixels *= size[axis]
    return pixels


@compiled()
def _load_pixels(
    operand: OuterOperand,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    place: Quad,
    channels: tuple[int, int],
) -> None:
    """Copies pixels of at most LANES channels, channels contiguous; missing channels are zeros.

    Args:
        operand: Its description.
        scratch: The workspace.
        floats: The tensor's buffer as float32 values.
        halves: The same as 16-bit patterns.
        place: Index of the first pixel of the first channel, number of pixels, target, and the
            place of LANES loaded rows of them.
        channels: Number of channels, and the pixels of a channel.
    """
    index, count, target, line = place
    some, channel_pixels = channels
    layout, step = operand.layout, operand.channel_step
    start, at_once = position_of(layout, index), step > 0 and some == LANES
    # Three ways, the fastest first: channels last, one vector a pixel; planes of channels,
    # transposed in registers; and any other layout or dtype, loaded row by row first.
    if at_once and step == 1:
        for i in range(count):
            _copy_vector(floats, scratch, (start + i * layout.steps[LAST_AXIS], target + i * LANES))
    elif at_once:
        _interleave(floats, scratch, (start, step, target, count))
    else:
        pitch = _line_pitch(count)
        for lane in range(LANES):
            row = scratch[line + lane * pitch :][:count]
            if lane < some:
                first = index + lane * channel_pixels
                load(floats, halves, layout, operand.number_format, first, row)
            else:
                row[:] = np.float32(0)
        _interleave(scratch, scratch, (line, pitch, target, count))


@compiled()
def _pair_pixels(
    stage: OuterStage, operand: OuterOperand, scratch: Floats, count: int, step: int
) -> None:
    """Joins each pixel of a copy with the one `step` pixels behind it, in place.

    The last pixels stay alone: no pair begins there. Raises the flag if a value suits no pairs.

    Args:
        stage: The stage.
        operand: The operand.
        scratch: The workspace.
        count: Pixels of a vector of channels.
        step: Distance of two pixels that are joined.
    """
    joined = max(0, count - step) * LANES
    for vector in range(-(-operand.channels // LANES)):
        first = operand.copy + vector * operand.vector_pitch
        if not suit_pairs(scratch[first : first + count * LANES]):
            scratch[stage.flag] = np.float32(1)
        if operand.singles:
            keep_upper(scratch, first, first + operand.singles, count * LANES)
        join(scratch, first, first + step * LANES, first, joined)
        keep_upper(scratch, first + joined, first + joined, count * LANES - joined)


@compiled()
def _load(  # noqa: PLR0913, PLR0917  # arrays, and a block
    stage: OuterStage,
    operand: OuterOperand,
    step: int,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    group: int,
    block: Quad,
    rows: tuple[int, int],
) -> None:
    """Copies an operand's rows first .. last-1 of a block.

    Neighbours in a row of the output meet pixels of the operand that are `step` apart.
    """
    if operand.in_place:
        return
    # One vector of channels after the other, so that a pixel's vector is contiguous for the
    # micro-kernel.
    size, (first, last) = operand.size, rows
    pixels = size[0] * size[1] * size[2]
    row = _row_pixels((size[0], size[1], size[2]), stage.block_axis)
    count = (last - first) * row
    for vector in range(-(-operand.channels // LANES)):
        channel = group * operand.channels + vector * LANES
        some = min(LANES, operand.channels - vector * LANES, operand.tensor_channels - channel)
        for i in range(block[1]):
            index = (channel * stage.geometry.batch + block[0] + i) * pixels + first * row
            target = operand.copy + vector * operand.vector_pitch + i * count * LANES
            place = (index, count, target, stage.line)
            channels = (some, stage.geometry.batch * pixels)
            _load_pixels(operand, scratch, floats, halves, place, channels)
    if stage.pairs:
        _pair_pixels(stage, operand, scratch, block[1] * count, step)


@compiled()
def _meeting(shape: Geometry, axis: int, tap: int) -> tuple[int, int]:
    """The output positions first .. last-1 along an axis at which a tap reads the image."""
    # Positions whose tap is in padding are not in the table: no product with padding is ever made.
    stride = shape.stride[axis]
    before = shape.padding[axis] - tap * shape.dilation[axis]
    first = max(0, -(-before // stride))
    last = (shape.input_size[axis] - 1 + before) // stride + 1
    return first, max(first, min(last, shape.output_size[axis]))


@compiled()
def _tap_of(shape: Geometry, tap: int) -> Triple:
    """Position of a tap along each axis."""
    height, width = shape.kernel_size[1], shape.kernel_size[2]
    return tap // width // height, tap // width % height, tap % width


@compiled()
def _entries(operand: OuterOperand, rows: tuple[int, int], pixels: int) -> tuple[int, int]:
    """Place of the first pixel of the first entry of a block, and the distance of entries.

    A copy has only the block's rows, of this many pixels each.
    """
    if operand.in_place:
        return 0, operand.entry_step
    return -rows[0] * pixels * LANES, (rows[1] - rows[0]) * pixels * LANES


@compiled()
def _box_of(stage: OuterStage, block: Quad, taps: Triple) -> tuple[Triple, Triple]:
    """The first of a block's output positions at which a tap reads the image; one past the last."""
    shape, axis = stage.geometry, stage.block_axis
    d_first, d_last = _meeting(shape, 0, taps[0])
    h_first, h_last = _meeting(shape, 1, taps[1])
    w_first, w_last = _meeting(shape, 2, taps[2])
    top, bottom = block[2], block[2] + block[3]
    if axis == 0:
        d_first, d_last = max(d_first, top), min(d_last, bottom)
    elif axis == 1:
        h_first, h_last = max(h_first, top), min(h_last, bottom)
    else:
        w_first, w_last = max(w_first, top), min(w_last, bottom)
    return (d_first, h_first, w_first), (d_last, h_last, w_last)


@compiled()
def _fill_pixels(stage: OuterStage, scratch: Floats, block: Quad, tap: int) -> int:
    """Fills the table with the pixels of a block that meet under a tap; returns their number.

    The two places of a pixel are halves of a number of 64 bits, left's the lower one. So a row of
    pixels is a row of numbers with equal steps. Of BF16 pairs, every other pixel is in the table.
    """
    shape, axis = stage.geometry, stage.block_axis
    image, output, stride = shape.input_size, shape.output_size, shape.stride
    dilation, padding = shape.dilation, shape.padding
    taps = _tap_of(shape, tap)
    firsts, lasts = _box_of(stage, block, taps)
    low, high = _image_rows(stage, block)
    output_row = _row_pixels((output[0], output[1], output[2]), axis)
    image_row = _row_pixels((image[0], image[1], image[2]), axis)
    # The image's position under the output's first one.
    at = (taps[0] * dilation[0] - padding[0]) * image[1] + taps[1] * dilation[1] - padding[1]
    at = at * image[2] + taps[2] * dilation[2] - padding[2]
    y_start, y_step = _entries(stage.output, (block[2], block[2] + block[3]), output_row)
    x_start, x_step = _entries(stage.image, (low, high), image_row)
    x_unit, y_unit = (_RIGHT, 1) if stage.image_is_right else (1, _RIGHT)
    start, i_step = x_start * x_unit + y_start * y_unit, x_step * x_unit + y_step * y_unit
    x, y = x_unit * stage.image.pixel_step, y_unit * stage.output.pixel_step
    w_step = stride[2] * x + y
    h_step = stride[1] * image[2] * x + output[2] * y
    d_step = stride[0] * image[1] * image[2] * x + output[1] * output[2] * y
    start += at * x + firsts[2] * w_step
    apart, width = 1 + stage.pairs, max(0, lasts[2] - firsts[2])
    count, alone, done = -(-width // apart), width % apart, 0
    pixels = scratch[stage.pixels :].view(np.int64)
    # Pixels that meet, in the order of the output.
    for i in range(block[1]):
        for d in range(firsts[0], lasts[0]):
            for h in range(firsts[1], lasts[1]):
                row = pixels[done : done + count]
                first = start + i * i_step + d * d_step + h * h_step
                for w in range(count):
                    row[w] = first + w * apart * w_step
                # The last one of an odd row of pairs has no neighbour: it meets a single word.
                if alone:
                    row[count - 1] += stage.output.singles * y_unit
                done += count
    return done


@compiled()
def _operands(stage: OuterStage) -> tuple[OuterOperand, OuterOperand]:
    """The left and the right operand."""
    if stage.image_is_right:
        return stage.output, stage.image
    return stage.image, stage.output


@compiled()
def _row_sums(stage: OuterStage) -> int:
    """Sums of a row and tap, up to the end of the last vector."""
    return -(-_operands(stage)[1].channels // LANES) * LANES


@compiled()
def _sums_of(stage: OuterStage, tile: int) -> int:
    """Place of the sums of a tile; a single block keeps those of one tile at a time."""
    # With several blocks, sums of all tiles wait for the last block.
    size = stage.rows * stage.geometry.taps * _row_sums(stage)
    return stage.sums + (tile * size if stage.blocks > 1 else 0)


@compiled()
def _multiply(  # arrays and integers
    stage: OuterStage,
    floats: Floats,
    scratch: Floats,
    numbers: Nine,
    rows: int,
    vectors: int,
) -> None:
    """Adds a tile of outer products; floats is left's tensor."""
    if stage.pairs:
        add_outer_pairs(scratch, numbers, rows, vectors)
    elif _operands(stage)[0].in_place:
        add_outer_in_place(floats, scratch, numbers, vectors)
    else:
        add_outer(scratch, numbers, rows, vectors)


@compiled()
def _add_tap(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: OuterStage,
    floats: Floats,
    scratch: Floats,
    group: int,
    number: int,
    tile: int,
    tap: int,
    count: int,
) -> None:
    """Adds a tap of a block, the number-th of a group, to a tile.

    Args:
        stage: The stage.
        floats: Left's tensor.
        scratch: The workspace, with the table of pixels.
        group: The group.
        number: The block.
        tile: The tile.
        tap: The tap.
        count: Pixels in the table.
    """
    left, right = _operands(stage)
    # Steps of an operand in place: a copy has one group and begins with the block's first entry.
    first = left.copy + group * left.group_step + _block_of(stage, number)[0] * left.entry_step
    row_sums = _row_sums(stage)
    sums, pitch = _sums_of(stage, tile) + tap * row_sums, stage.geometry.taps * row_sums
    first_row = tile * stage.rows
    rows, columns = min(stage.rows, left.channels - first_row), row_sums // LANES
    # The first block sets the sums, also where no pixels meet: a depth of 0 sets zeros.
    sets, turns = 1 if number == 0 else 0, -(-columns // TURN_VECTORS)
    # Chunks and groups of vectors of nearly equal size: a short last one would use the registers
    # badly.
    chunks = max(-(-count // DEPTH), sets)
    for chunk in range(chunks):
        begin = count * chunk // chunks
        depth = count * (chunk + 1) // chunks - begin
        pixels, adds = stage.pixels + 2 * begin, 0 if chunk < sets else 1
        for turn in range(turns):
            # Right vectors are outermost, so the same pixels of right serve all rows of left from
            # the cache.
            vector = columns * turn // turns
            vectors = columns * (turn + 1) // turns - vector
            source = right.copy + vector * right.vector_pitch
            for m in range(0, rows, TURN_ROWS):
                row = first_row + m
                factors = first + row // LANES * left.vector_pitch
                factors += row % LANES * left.row_step
                total = sums + m * pitch + vector * LANES
                places = (depth, factors, left.row_step, source, pixels)
                numbers = (*places, right.vector_pitch, total, pitch, adds)
                _multiply(stage, floats, scratch, numbers, min(TURN_ROWS, rows - m), vectors)


@compiled()
def _put_tile(stage: OuterStage, scratch: Floats, target: Floats, group: int, tile: int) -> None:
    """Stores the sums of a tile in the layout of the plan, where taps are contiguous."""
    taps, row_sums, first = stage.geometry.taps, _row_sums(stage), tile * stage.rows
    left, right = _operands(stage)
    sums, step, count = _sums_of(stage, tile), stage.right_step, right.channels
    run, runs = taps, min(stage.rows, left.channels - first)
    # Without a gap between left channels all their taps are one run.
    if stage.left_step == taps and step > 1:
        run, runs = runs * taps, 1
    place = stage.gradient + group * left.channels * count * taps + first * stage.left_step
    for i in range(runs):
        source, to = sums + i * taps * row_sums, place + i * stage.left_step
        if step == 1:
            _copy_run(scratch, target, (source, to, count))
            continue
        whole = count // LANES * LANES
        # LANES right channels at a time are transposed in registers, from channels to taps
        # innermost.
        for r in range(0, whole, LANES):
            _separate(scratch, target, (source + r, row_sums, to + r * step, step, run))
        for r in range(whole, count):
            _copy_steps(scratch, target, (source + r, row_sums, to + r * step, 1, run))


@compiled()
def _store_tile(
    stage: OuterStage, scratch: Floats, floats: Floats, halves: Halves, group: int, tile: int
) -> None:
    """Stores the sums of a tile as rows of the gradient, rounded."""
    # The gradient has other strides or another dtype: each row of sums goes through its view.
    left, right = _operands(stage)
    count, taps, place = right.channels, stage.geometry.taps, _sums_of(stage, tile)
    for m in range(tile * stage.rows, min((tile + 1) * stage.rows, left.channels)):
        for tap in range(taps):
            index = ((group * left.channels + m) * taps + tap) * count
            values, layout = scratch[place : place + count], stage.weight_layout
            store(values, stage.weight_format, layout, index, floats, halves)
            place += _row_sums(stage)


@compiled()
def _finish_tile(
    stage: OuterStage, scratch: Floats, floats: Floats, halves: Halves, group: int, tile: int
) -> None:
    """Stores the sums of a tile."""
    if stage.gradient < 0:
        _store_tile(stage, scratch, floats, halves, group, tile)
    elif stage.in_workspace:
        _put_tile(stage, scratch, scratch, group, tile)
    else:
        _put_tile(stage, scratch, floats, group, tile)


@compiled()
def run_outer(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: OuterStage,
    scratch: Floats,
    image: Floats,
    image_halves: Halves,
    gradient: Floats,
    gradient_halves: Halves,
    output: Floats,
    output_halves: Halves,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1; the buffers of X, W and Y are given as float32 and as halves."""
    taps, blocks = stage.geometry.taps, stage.blocks
    block_units = 1 + stage.tiles * taps
    for unit in range(first, last):
        group, number = unit // block_units // blocks, unit // block_units % blocks
        block, inside = _block_of(stage, number), unit % block_units - 1
        if inside < 0:
            if stage.pairs and unit == 0:
                scratch[stage.flag] = np.float32(0)
            rows, step = _image_rows(stage, block), stage.geometry.stride[2]
            _load(stage, stage.image, step, scratch, image, image_halves, group, block, rows)
            rows = block[2], block[2] + block[3]
            _load(stage, stage.output, 1, scratch, output, output_halves, group, block, rows)
            continue
        if stage.pairs and scratch[stage.flag] != 0:
            return  # the stage behind this one computes the gradient
        tile, tap = inside // taps, inside % taps
        # The table is filled for each tap anew: it is small, and slices may begin at any unit.
        count = _fill_pixels(stage, scratch, block, tap)
        left = output if stage.image_is_right else image
        _add_tap(stage, left, scratch, group, number, tile, tap, count)
        if tap == taps - 1 and number == blocks - 1:
            _finish_tile(stage, scratch, gradient, gradient_halves, group, tile)
