"""Blocks of usual depthwise kernels, of plain planes: computed where they lie, strip by strip."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.depthwise_copies import planes_of
from opserve_kernels.algorithms.depthwise_layout import (
    BATCH,
    IMAGE_SIZE,
    KERNEL,
    KIND,
    OTHER_PLAIN,
    OUTPUT_SIZE,
    PADDING,
    RESULT_PLAIN,
    SOURCE_PLAIN,
    STRIDE,
    TOTAL,
    WEIGH_OUTPUT,
    WEIGHTS,
)
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.algorithms.plane_tiles import compare_strip_tile, weigh_strip_tile
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]
Fifteen = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]

_SMALL, _LARGE = 3, 5  # taps along an axis
_HALF = LANES // 2
_weigh_small = weigh_strip_tile(_SMALL, stride=1, width=LANES)
_weigh_small_half = weigh_strip_tile(_SMALL, stride=1, width=_HALF)
_weigh_small_apart = weigh_strip_tile(_SMALL, stride=2, width=LANES)
_weigh_large = weigh_strip_tile(_LARGE, stride=1, width=LANES)
_weigh_large_half = weigh_strip_tile(_LARGE, stride=1, width=_HALF)
_weigh_large_apart = weigh_strip_tile(_LARGE, stride=2, width=LANES)
_compare_small = compare_strip_tile(_SMALL, stride=1, width=LANES)
_compare_small_half = compare_strip_tile(_SMALL, stride=1, width=_HALF)
_compare_small_apart = compare_strip_tile(_SMALL, stride=2, width=LANES)
_compare_large = compare_strip_tile(_LARGE, stride=1, width=LANES)
_compare_large_half = compare_strip_tile(_LARGE, stride=1, width=_HALF)
_compare_large_apart = compare_strip_tile(_LARGE, stride=2, width=LANES)


@compiled("void(int64[::1], float32[::1], float32[::1], float32[::1], int64, UniTuple(int64, 15))")
def _weigh_strip(
    stage: Integers, source: Floats, scratch: Floats, result: Floats, lanes: int, numbers: Fifteen
) -> None:
    """A strip that needs so many lanes, or more than there are."""
    small = stage[KERNEL + WIDTH] == _SMALL
    if stage[STRIDE + WIDTH] > 1:
        if small:
            _weigh_small_apart(source, scratch, result, numbers)
        else:
            _weigh_large_apart(source, scratch, result, numbers)
    elif lanes > _HALF:
        if small:
            _weigh_small(source, scratch, result, numbers)
        else:
            _weigh_large(source, scratch, result, numbers)
    elif small:
        _weigh_small_half(source, scratch, result, numbers)
    else:
        _weigh_large_half(source, scratch, result, numbers)


@compiled("void(int64[::1], float32[::1], float32[::1], float32[::1], int64, UniTuple(int64, 15))")
def _compare_strip(
    stage: Integers, left: Floats, scratch: Floats, source: Floats, lanes: int, numbers: Fifteen
) -> None:
    """A strip that needs so many lanes, or more than there are."""
    small = stage[KERNEL + WIDTH] == _SMALL
    if stage[STRIDE + WIDTH] > 1:
        if small:
            _compare_small_apart(left, scratch, source, numbers)
        else:
            _compare_large_apart(left, scratch, source, numbers)
    elif lanes > _HALF:
        if small:
            _compare_small(left, scratch, source, numbers)
        else:
            _compare_large(left, scratch, source, numbers)
    elif small:
        _compare_small_half(left, scratch, source, numbers)
    else:
        _compare_large_half(left, scratch, source, numbers)


@compiled("int64(int64[::1], int64, int64)")
def _next_plane(stage: Integers, plain: int, entry: int) -> int:
    """From the plane of an entry to the one of the next, or of the next channel's first."""
    step, last = stage[plain + 3], stage[BATCH] - 1
    return int(step if entry < last else stage[plain + 2] - last * step)


@compiled("void(int64[::1], float32[::1], float32[::1], float32[::1], UniTuple(int64, 3))")
def weigh_planes(
    stage: Integers, source: Floats, scratch: Floats, result: Floats, planes: Triple
) -> None:
    """Planes (channel, first entry, entries) of the result; the weights are loaded and finite."""
    up, left, stride = stage[PADDING + 1], stage[PADDING + 2], stage[STRIDE + WIDTH]
    size, wanted = OUTPUT_SIZE, IMAGE_SIZE
    if stage[KIND] != WEIGH_OUTPUT:
        last = stage[KERNEL + WIDTH] - 1
        size, wanted, up, left = IMAGE_SIZE, OUTPUT_SIZE, last - up, last - left
    read, read_step, entries = planes_of(stage, SOURCE_PLAIN, planes)
    write, write_step, _ = planes_of(stage, RESULT_PLAIN, planes)
    sizes = (stage[size + 1], stage[size + 2], stage[wanted + 1], stage[wanted + 2])
    begin, end = left // stride, (stage[wanted + 2] + left - 1) // stride + 1
    together = entries if end - begin <= LANES else 1
    for entry in range(0, entries, together):
        following = (
            _next_plane(stage, SOURCE_PLAIN, planes[1] + entry),
            _next_plane(stage, RESULT_PLAIN, planes[1] + entry),
        )
        for column in range(begin, end, LANES):
            places = (read + entry * read_step, stage[WEIGHTS], write + entry * write_step)
            steps = (read_step, write_step, together)
            numbers = (*places, *steps, *sizes, up, left, column, *following)
            _weigh_strip(stage, source, scratch, result, end - column, numbers)


@compiled("void(int64[::1], float32[::1], float32[::1], float32[::1], UniTuple(int64, 3))")
def compare_planes(
    stage: Integers, left: Floats, source: Floats, scratch: Floats, planes: Triple
) -> None:
    """The sums of planes (channel, first entry, entries), to TOTAL."""
    place, taps = stage[TOTAL], stage[KERNEL + 1] * stage[KERNEL + 2]
    scratch[place : place + taps] = np.float32(0)
    first, left_step, entries = planes_of(stage, OTHER_PLAIN, planes)
    read, read_step, _ = planes_of(stage, SOURCE_PLAIN, planes)
    left_size = (stage[OUTPUT_SIZE + 1], stage[OUTPUT_SIZE + 2])
    size = (stage[IMAGE_SIZE + 1], stage[IMAGE_SIZE + 2])
    padding = (stage[PADDING + 1], stage[PADDING + 2])
    columns = stage[OUTPUT_SIZE + 2]
    together = entries if columns <= LANES else 1
    for entry in range(0, entries, together):
        following = (
            _next_plane(stage, OTHER_PLAIN, planes[1] + entry),
            _next_plane(stage, SOURCE_PLAIN, planes[1] + entry),
        )
        for column in range(0, columns, LANES):
            places = (first + entry * left_step, place, read + entry * read_step)
            steps = (left_step, read_step, together)
            numbers = (*places, *steps, *left_size, *size, *padding, column, *following)
            _compare_strip(stage, left, scratch, source, columns - column, numbers)
