"""Blocks of usual depthwise kernels: planes without padding, strip by strip.

Plain planes are read and written where they lie, others by way of the workspace. Groups of one
block each load their weights, or store them, together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.depthwise.copies import load_values, planes_of, store_values
from opserve_kernels.algorithms.depthwise.layout import (
    BATCH,
    BLOCK_ENTRIES,
    COMPARE,
    IMAGE_SIZE,
    KERNEL,
    KIND,
    LINE,
    OTHER_FORMAT,
    OTHER_PLAIN,
    OTHER_VIEW,
    OUTPUT_SIZE,
    PADDING,
    RESULT_FORMAT,
    RESULT_PLAIN,
    RESULT_VIEW,
    SOURCE_FORMAT,
    SOURCE_PLAIN,
    SOURCE_VIEW,
    STRIDE,
    TAPS,
    WEIGH_IMAGE,
    WEIGH_OUTPUT,
    WEIGHTS,
)
from opserve_kernels.algorithms.depthwise.plane_tiles import compare_strip_tile, weigh_strip_tile
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.convolution import WIDTH
from opserve_kernels.loops import compiled
from opserve_kernels.sums import are_finite

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]
Four = tuple[int, int, int, int]
Fifteen = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]

_SMALL, _LARGE = 3, 5  # taps along an axis
_HALF = LANES // 2


def _strip_of(tile_of: Callable[..., Any]) -> Any:  # noqa: ANN401  # numba's
    """Runs the tile for a strip that needs so many lanes, or more than there are."""
    small, large = (tile_of(taps, stride=1, width=LANES) for taps in (_SMALL, _LARGE))
    small_half, large_half = (tile_of(taps, stride=1, width=_HALF) for taps in (_SMALL, _LARGE))
    small_apart, large_apart = (tile_of(taps, stride=2, width=LANES) for taps in (_SMALL, _LARGE))

    @compiled(
        "void(int64[::1], float32[::1], float32[::1], float32[::1], int64, UniTuple(int64, 15))"
    )
    def run(  # arrays and places
        stage: Integers, first: Floats, second: Floats, third: Floats, lanes: int, numbers: Fifteen
    ) -> None:
        is_small = stage[KERNEL + WIDTH] == _SMALL
        if stage[STRIDE + WIDTH] > 1:
            if is_small:
                small_apart(first, second, third, numbers)
            else:
                large_apart(first, second, third, numbers)
        elif lanes > _HALF:
            if is_small:
                small(first, second, third, numbers)
            else:
                large(first, second, third, numbers)
        elif is_small:
            small_half(first, second, third, numbers)
        else:
            large_half(first, second, third, numbers)

    return run


_weigh_strip = _strip_of(weigh_strip_tile)
_compare_strip = _strip_of(compare_strip_tile)


@compiled("int64(int64[::1], int64, int64)")
def _next_plane(stage: Integers, plain: int, entry: int) -> int:
    """From the plane of an entry to the one of the next, or of the next channel's first."""
    step, last = stage[plain + 3], stage[BATCH] - 1
    return int(step if entry < last else stage[plain + 2] - last * step)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], float32[::1], UniTuple(int64, 4), "
    "UniTuple(int64, 2), int64)"
)
def _weigh_strips(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    source: Floats,
    scratch: Floats,
    result: Floats,
    places: Four,
    planes: tuple[int, int],
    weights: int,
) -> None:
    """Planes (first entry, entries) of the source and of the result: (place, step) of each."""
    up, left, stride = stage[PADDING + 1], stage[PADDING + 2], stage[STRIDE + WIDTH]
    size, wanted = OUTPUT_SIZE, IMAGE_SIZE
    if stage[KIND] != WEIGH_OUTPUT:
        last = stage[KERNEL + WIDTH] - 1
        size, wanted, up, left = IMAGE_SIZE, OUTPUT_SIZE, last - up, last - left
    read, read_step, write, write_step = places
    first_entry, entries = planes
    sizes = (stage[size + 1], stage[size + 2], stage[wanted + 1], stage[wanted + 2])
    begin, end = left // stride, (stage[wanted + 2] + left - 1) // stride + 1
    together = entries if end - begin <= LANES else 1
    for entry in range(0, entries, together):
        following = (
            _next_plane(stage, SOURCE_PLAIN, first_entry + entry),
            _next_plane(stage, RESULT_PLAIN, first_entry + entry),
        )
        for column in range(begin, end, LANES):
            starts = (read + entry * read_step, weights, write + entry * write_step)
            steps = (read_step, write_step, together)
            numbers = (*starts, *steps, *sizes, up, left, column, *following)
            _weigh_strip(stage, source, scratch, result, end - column, numbers)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], float32[::1], UniTuple(int64, 4), "
    "UniTuple(int64, 2), int64)"
)
def _compare_strips(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    left: Floats,
    scratch: Floats,
    source: Floats,
    places: Four,
    planes: tuple[int, int],
    totals: int,
) -> None:
    """Planes (first entry, entries) of left and of the source: (place, step) of each."""
    start, left_step, read, read_step = places
    first_entry, entries = planes
    left_size = (stage[OUTPUT_SIZE + 1], stage[OUTPUT_SIZE + 2])
    size = (stage[IMAGE_SIZE + 1], stage[IMAGE_SIZE + 2])
    padding = (stage[PADDING + 1], stage[PADDING + 2])
    columns = stage[OUTPUT_SIZE + 2]
    together = entries if columns <= LANES else 1
    for entry in range(0, entries, together):
        following = (
            _next_plane(stage, OTHER_PLAIN, first_entry + entry),
            _next_plane(stage, SOURCE_PLAIN, first_entry + entry),
        )
        for column in range(0, columns, LANES):
            starts = (start + entry * left_step, totals, read + entry * read_step)
            steps = (left_step, read_step, together)
            numbers = (*starts, *steps, *left_size, *size, *padding, column, *following)
            _compare_strip(stage, left, scratch, source, columns - column, numbers)


@compiled("int64(int64[::1], int64)")
def _positions(stage: Integers, size: int) -> int:
    return int(stage[size + 1] * stage[size + 2])


@compiled("int64(int64[::1], int64)")
def _second_line(stage: Integers, size: int) -> int:
    """Where the other image's planes are loaded, behind those of the source."""
    planes = 0 if stage[SOURCE_PLAIN] else stage[BLOCK_ENTRIES] * _positions(stage, size)
    return int(stage[LINE] + planes)


@compiled(
    "UniTuple(int64, 2)(int64[::1], float32[::1], float32[::1], uint16[::1], UniTuple(int64, 4), "
    "UniTuple(int64, 3), int64)"
)
def _load_planes(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: Integers,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    operand: Four,
    planes: Triple,
    line: int,
) -> tuple[int, int]:
    """Where planes of an operand (view, number format, plain, size) are, and their distance."""
    view, number_format, plain, size = operand
    channel, entry, entries = planes
    if stage[plain]:
        start, step, _ = planes_of(stage, plain, planes)
        return start, step
    positions = _positions(stage, size)
    first = (channel * stage[BATCH] + entry) * positions
    count = entries * positions
    load_values(scratch, floats, halves, stage[view:], stage[number_format], first, line, count)
    return line, positions


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], float32[::1], uint16[::1], "
    "UniTuple(int64, 3), int64)"
)
def weigh_planes(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    source: Floats,
    source_halves: Halves,
    result: Floats,
    result_halves: Halves,
    planes: Triple,
    weights: int,
) -> None:
    """Planes (channel, first entry, entries) of the result; the weights are loaded and finite."""
    size, wanted = OUTPUT_SIZE, IMAGE_SIZE
    if stage[KIND] != WEIGH_OUTPUT:
        size, wanted = IMAGE_SIZE, OUTPUT_SIZE
    operand = (SOURCE_VIEW, SOURCE_FORMAT, SOURCE_PLAIN, size)
    line, positions = _second_line(stage, size), _positions(stage, wanted)
    channel, entry, entries = planes
    read = _load_planes(stage, scratch, source, source_halves, operand, planes, stage[LINE])
    values = source if stage[SOURCE_PLAIN] else scratch
    if stage[RESULT_PLAIN]:
        start, step, _ = planes_of(stage, RESULT_PLAIN, planes)
        _weigh_strips(
            stage, values, scratch, result, (*read, start, step), (entry, entries), weights
        )
        return
    _weigh_strips(
        stage, values, scratch, scratch, (*read, line, positions), (entry, entries), weights
    )
    first = (channel * stage[BATCH] + entry) * positions
    view, number_format, count = stage[RESULT_VIEW:], stage[RESULT_FORMAT], entries * positions
    store_values(scratch, result, result_halves, view, number_format, first, line, count)


@compiled(
    "void(int64[::1], float32[::1], float32[::1], uint16[::1], float32[::1], uint16[::1], "
    "UniTuple(int64, 3), int64)"
)
def compare_planes(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    source: Floats,
    source_halves: Halves,
    other: Floats,
    other_halves: Halves,
    planes: Triple,
    totals: int,
) -> None:
    """The sums of planes (channel, first entry, entries)."""
    scratch[totals : totals + stage[TAPS]] = np.float32(0)
    operand = (SOURCE_VIEW, SOURCE_FORMAT, SOURCE_PLAIN, IMAGE_SIZE)
    left = (OTHER_VIEW, OTHER_FORMAT, OTHER_PLAIN, OUTPUT_SIZE)
    line = _second_line(stage, IMAGE_SIZE)
    read = _load_planes(stage, scratch, source, source_halves, operand, planes, stage[LINE])
    beside = _load_planes(stage, scratch, other, other_halves, left, planes, line)
    values = source if stage[SOURCE_PLAIN] else scratch
    factors = other if stage[OTHER_PLAIN] else scratch
    _compare_strips(stage, factors, scratch, values, (*beside, *read), planes[1:], totals)


@compiled("void(float32[::1], int64, int64)")
def _turn(scratch: Floats, place: int, count: int) -> None:
    """Values in the reverse order."""
    for i in range(count // 2):
        other = place + count - 1 - i
        scratch[place + i], scratch[other] = scratch[other], scratch[place + i]


@compiled(
    "int64(int64[::1], float32[::1], float32[::1], uint16[::1], float32[::1], uint16[::1], "
    "float32[::1], uint16[::1], int64, int64)"
)
def run_groups(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    source: Floats,
    source_halves: Halves,
    other: Floats,
    other_halves: Halves,
    result: Floats,
    result_halves: Halves,
    first: int,
    last: int,
) -> int:
    """Groups first .. last-1, each of one block.

    Returns:
        0 if not all their weights are finite: they must be computed otherwise then.
    """
    taps, place, entries = stage[TAPS], stage[WEIGHTS], stage[BATCH]
    count, compares = (last - first) * taps, stage[KIND] == COMPARE
    if not compares:
        view, number_format = stage[OTHER_VIEW:], stage[OTHER_FORMAT]
        load_values(scratch, other, other_halves, view, number_format, first * taps, place, count)
        if not are_finite(scratch[place : place + count]):
            return 0
    for group in range(first, last):
        weights, planes = place + (group - first) * taps, (group, 0, entries)
        if compares:
            compare_planes(
                stage, scratch, source, source_halves, other, other_halves, planes, weights
            )
            continue
        if stage[KIND] == WEIGH_IMAGE:
            _turn(scratch, weights, taps)
        weigh_planes(stage, scratch, source, source_halves, result, result_halves, planes, weights)
    if compares:
        if not are_finite(scratch[place : place + count]):
            return 0
        view, number_format = stage[RESULT_VIEW:], stage[RESULT_FORMAT]
        store_values(
            scratch, result, result_halves, view, number_format, first * taps, place, count
        )
    return 1
