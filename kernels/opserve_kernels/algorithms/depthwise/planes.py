"""Blocks of usual depthwise kernels: planes without padding, strip by strip.

Plain planes are read and written in their tensors, others through the workspace. Groups of one
block each load or store their weights together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.depthwise.copies import (
    load_values,
    planes_of,
    result_size,
    source_size,
    store_values,
)
from opserve_kernels.algorithms.depthwise.layout import (
    COMPARE,
    WEIGH_IMAGE,
    WEIGH_OUTPUT,
    DepthwiseStage,
    DepthwiseTensor,
    PlainImage,
    Strip,
)
from opserve_kernels.algorithms.depthwise.plane_tiles import compare_strip_tile, weigh_strip_tile
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.convolution import WIDTH, Triple
from opserve_kernels.loops import compiled
from opserve_kernels.sums import are_finite

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Pair = tuple[int, int]
Four = tuple[int, int, int, int]

_SMALL, _LARGE = 3, 5  # taps along an axis
_HALF = LANES // 2


def _strip_of(tile_of: Callable[..., Any]) -> Any:  # noqa: ANN401  # numba's
    """Returns the function that runs the tile for a strip with this many columns left."""
    # Planes no wider than half a vector take vectors of half the lanes. With stride 2 there is no
    # such tile: it would double the code of the rarer case.
    small, large = (tile_of(taps, stride=1, width=LANES) for taps in (_SMALL, _LARGE))
    small_half, large_half = (tile_of(taps, stride=1, width=_HALF) for taps in (_SMALL, _LARGE))
    small_apart, large_apart = (tile_of(taps, stride=2, width=LANES) for taps in (_SMALL, _LARGE))

    @compiled()
    def run(  # arrays and places
        stage: DepthwiseStage,
        first: Floats,
        second: Floats,
        third: Floats,
        lanes: int,
        strip: Strip[int],
    ) -> None:
        # The choice is per strip: the last strip of a row may be narrow where the others are wide.
        is_small = stage.geometry.kernel_size[WIDTH] == _SMALL
        if stage.geometry.stride[WIDTH] > 1:
            if is_small:
                small_apart(first, second, third, strip)
            else:
                large_apart(first, second, third, strip)
        elif lanes > _HALF:
            if is_small:
                small(first, second, third, strip)
            else:
                large(first, second, third, strip)
        elif is_small:
            small_half(first, second, third, strip)
        else:
            large_half(first, second, third, strip)

    return run


_weigh_strip = _strip_of(weigh_strip_tile)
_compare_strip = _strip_of(compare_strip_tile)


@compiled()
def _next_plane(stage: DepthwiseStage, plain: PlainImage, entry: int) -> int:
    """Distance from an entry's plane to the next entry's, or to the next channel's first."""
    # Prefetching follows the order of computation: entries of a channel, then the next channel.
    last = stage.geometry.batch - 1
    return plain.entry_step if entry < last else plain.channel_step - last * plain.entry_step


@compiled()
def _weigh_strips(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: DepthwiseStage,
    source: Floats,
    scratch: Floats,
    result: Floats,
    places: Four,
    planes: Pair,
    weights: Pair,
) -> None:
    """Computes planes (first entry, entries): (place, step) of source and of result."""
    shape, size, wanted = stage.geometry, source_size(stage), result_size(stage)
    up, left, stride = shape.padding[1], shape.padding[2], shape.stride[WIDTH]
    if stage.kind != WEIGH_OUTPUT:
        last = shape.kernel_size[WIDTH] - 1
        up, left = last - up, last - left
    # Strips begin at the first column of the source that reaches the target.
    begin, end = left // stride, (wanted[2] + left - 1) // stride + 1
    # Weights and bias are places. Planes of one strip go in one call, which takes about 250 ns.
    together = planes[1] if end - begin <= LANES else 1
    for entry in range(0, planes[1], together):
        for column in range(begin, end, LANES):
            strip = Strip(
                first=places[0] + entry * places[1],
                values=weights[0],
                bias=weights[1],
                second=places[2] + entry * places[3],
                first_step=places[1],
                second_step=places[3],
                planes=together,
                first_rows=size[1],
                first_columns=size[2],
                second_rows=wanted[1],
                second_columns=wanted[2],
                up=up,
                before=left,
                column=column,
                first_following=_next_plane(stage, stage.source_tensor.plain, planes[0] + entry),
                second_following=_next_plane(stage, stage.result_tensor.plain, planes[0] + entry),
            )
            _weigh_strip(stage, source, scratch, result, end - column, strip)


@compiled()
def _compare_strips(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: DepthwiseStage,
    left: Floats,
    scratch: Floats,
    source: Floats,
    places: Four,
    planes: Pair,
    totals: int,
) -> None:
    """Sums planes (first entry, entries): (place, step) of left and of source."""
    shape, left_size, size = stage.geometry, result_size(stage), source_size(stage)
    together = planes[1] if left_size[2] <= LANES else 1
    for entry in range(0, planes[1], together):
        for column in range(0, left_size[2], LANES):
            strip = Strip(
                first=places[0] + entry * places[1],
                values=totals,
                bias=totals,
                second=places[2] + entry * places[3],
                first_step=places[1],
                second_step=places[3],
                planes=together,
                first_rows=left_size[1],
                first_columns=left_size[2],
                second_rows=size[1],
                second_columns=size[2],
                up=shape.padding[1],
                before=shape.padding[2],
                column=column,
                first_following=_next_plane(stage, stage.other_tensor.plain, planes[0] + entry),
                second_following=_next_plane(stage, stage.source_tensor.plain, planes[0] + entry),
            )
            _compare_strip(stage, left, scratch, source, left_size[2] - column, strip)


@compiled()
def _second_line(stage: DepthwiseStage) -> int:
    """Place of the other image's loaded planes, behind those of the source."""
    if stage.source_tensor.plain.is_plain:
        return stage.line
    size = source_size(stage)
    return stage.line + stage.blocks.entries * size[1] * size[2]


@compiled()
def _load_planes(  # noqa: PLR0913, PLR0917  # arrays and places
    stage: DepthwiseStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    tensor: DepthwiseTensor,
    planes: Triple,
    positions: int,
    line: int,
) -> Pair:
    """Place and distance of planes of this many positions, loaded unless they are plain."""
    # Planes that are not plain are converted into the line, all entries of a block at once.
    channel, entry, entries = planes
    if tensor.plain.is_plain:
        start, step, _ = planes_of(tensor.plain, planes)
        return start, step
    first = (channel * stage.geometry.batch + entry) * positions
    load_values(tensor, scratch, floats, halves, first, line, entries * positions)
    return line, positions


@compiled()
def bias_place(stage: DepthwiseStage, channel: int) -> int:
    """Place of what is added to the sums of a channel of the result."""
    return int(stage.bias + channel * stage.bias_step)


@compiled()
def weigh_planes(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DepthwiseStage,
    scratch: Floats,
    source: Floats,
    source_halves: Halves,
    result: Floats,
    result_halves: Halves,
    planes: Triple,
    weights: int,
) -> None:
    """Computes planes (channel, first entry, entries) of the result from loaded, finite weights."""
    # Source and result are either in their tensors or in the line, independently of each other.
    tensor, wanted, size = stage.source_tensor, stage.result_tensor, source_size(stage)
    positions, line, places = size[1] * size[2], stage.line, (weights, bias_place(stage, planes[0]))
    read = _load_planes(stage, scratch, source, source_halves, tensor, planes, positions, line)
    values, some = source if tensor.plain.is_plain else scratch, (planes[1], planes[2])
    if wanted.plain.is_plain:
        start, step, _ = planes_of(wanted.plain, planes)
        _weigh_strips(stage, values, scratch, result, (*read, start, step), some, places)
        return
    line, size = _second_line(stage), result_size(stage)
    positions = size[1] * size[2]
    _weigh_strips(stage, values, scratch, scratch, (*read, line, positions), some, places)
    first = (planes[0] * stage.geometry.batch + planes[1]) * positions
    store_values(wanted, scratch, result, result_halves, first, line, planes[2] * positions)


@compiled()
def compare_planes(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DepthwiseStage,
    scratch: Floats,
    source: Floats,
    source_halves: Halves,
    other: Floats,
    other_halves: Halves,
    planes: Triple,
    totals: int,
) -> None:
    """Computes the sums of planes (channel, first entry, entries)."""
    # Strips add to the totals in memory, so they begin at zero.
    scratch[totals : totals + stage.geometry.taps] = np.float32(0)
    right, left, size = stage.source_tensor, stage.other_tensor, source_size(stage)
    positions, line = size[1] * size[2], stage.line
    read = _load_planes(stage, scratch, source, source_halves, right, planes, positions, line)
    size, line = result_size(stage), _second_line(stage)
    positions = size[1] * size[2]
    beside = _load_planes(stage, scratch, other, other_halves, left, planes, positions, line)
    values = source if right.plain.is_plain else scratch
    factors = other if left.plain.is_plain else scratch
    _compare_strips(stage, factors, scratch, values, (*beside, *read), planes[1:], totals)


@compiled()
def _reverse(scratch: Floats, place: int, count: int) -> None:
    """Reverses the order of values."""
    for i in range(count // 2):
        other = place + count - 1 - i
        scratch[place + i], scratch[other] = scratch[other], scratch[place + i]


@compiled()
def run_groups(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: DepthwiseStage,
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
    """Runs groups first .. last-1, each of one block.

    Returns:
        0 if not all weights or totals are finite: the caller computes the groups otherwise then.
    """
    taps, place, entries = stage.geometry.taps, stage.weights, stage.geometry.batch
    count, compares = (last - first) * taps, stage.kind == COMPARE
    if not compares:
        tensor = stage.other_tensor
        # Weights of all groups are contiguous in their tensor: one load, and one check.
        load_values(tensor, scratch, other, other_halves, first * taps, place, count)
        if not are_finite(scratch[place : place + count]):
            return 0
    for group in range(first, last):
        # Each group has its own taps and totals, side by side, so that loads and stores are shared.
        weights, planes = place + (group - first) * taps, (group, 0, entries)
        if compares:
            compare_planes(
                stage, scratch, source, source_halves, other, other_halves, planes, weights
            )
            continue
        # With reversed taps the scatter is a forward convolution, as in loops._load_weights.
        if stage.kind == WEIGH_IMAGE:
            _reverse(scratch, weights, taps)
        weigh_planes(stage, scratch, source, source_halves, result, result_halves, planes, weights)
    if compares:
        if not are_finite(scratch[place : place + count]):
            return 0
        tensor = stage.result_tensor
        store_values(tensor, scratch, result, result_halves, first * taps, place, count)
    return 1
