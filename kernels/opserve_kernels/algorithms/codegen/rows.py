"""Rows of planes, from one array to another or within one: the copies around the row kernels.

    numbers     (source, source_planes, source_rows, target, target_planes, target_rows,
                 planes, rows, count)
    copy_rows   target[p * target_planes + r * target_rows + i]
                    = source[p * source_planes + r * source_rows + i]
    add_rows    target[...] += source[...], while memory a distance ahead is fetched
    step_rows   target[... + i * target_step] = source[... + i * source_step]
    split_rows  target[... + i] = source[... + 2 * i]
    join_rows   target[... + i * step + p] = source[... + p * pitch + i]; steps of JOINED only

Places and pitches count float32 values. All but add_rows and copy_rows_exactly turn -0 into 0.
Nothing beyond the rows is read or written, except by add_rows: it adds zero to fewer than LANES
values behind a row of the target.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen import plain_rows
from opserve_kernels.algorithms.codegen.row_tiles import (
    add_rows_tile,
    copy_rows_tile,
    join_rows_tile,
    split_rows_tile,
    step_rows_tile,
)
from opserve_kernels.algorithms.host import LANES, VARIANT
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Nine = tuple[int, int, int, int, int, int, int, int, int]

_PAIR = 2
JOINED = (2, 4, 8, 16)
_copy_tile = copy_rows_tile(LANES)
_exact_copy_tile = copy_rows_tile(1 if VARIANT.plain else LANES, exact=True)
_add_tile = add_rows_tile(LANES)
_split_tile = split_rows_tile(LANES)
_join_2, _join_4, _join_8, _join_16 = (join_rows_tile(step, LANES) for step in JOINED)
_step_tile = step_rows_tile()


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9))")
def _copy_rows(read: Floats, written: Floats, numbers: Nine) -> None:
    _copy_tile(read, written, numbers)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9))")
def copy_rows_exactly(read: Floats, written: Floats, numbers: Nine) -> None:
    """As copy_rows; a -0 stays."""
    _exact_copy_tile(read, written, numbers)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64)")
def _add_rows(read: Floats, written: Floats, numbers: Nine, distance: int) -> None:
    _add_tile(read, written, (*numbers, distance))


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9))")
def _split_rows(read: Floats, written: Floats, numbers: Nine) -> None:
    _split_tile(read, written, numbers)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64, int64)")
def _join_rows(read: Floats, written: Floats, numbers: Nine, step: int, pitch: int) -> None:
    if step == JOINED[0]:
        _join_2(read, written, (*numbers, pitch))
    elif step == JOINED[1]:
        _join_4(read, written, (*numbers, pitch))
    elif step == JOINED[2]:
        _join_8(read, written, (*numbers, pitch))
    elif step == JOINED[3]:
        _join_16(read, written, (*numbers, pitch))


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64, int64)")
def _step_rows(
    read: Floats, written: Floats, numbers: Nine, source_step: int, target_step: int
) -> None:
    _step_tile(read, written, (*numbers, source_step, target_step))


copy_rows = plain_rows.copy_rows if VARIANT.plain else _copy_rows
add_rows = plain_rows.add_rows if VARIANT.plain else _add_rows
split_rows = plain_rows.split_rows if VARIANT.plain else _split_rows
join_rows = plain_rows.join_rows if VARIANT.plain else _join_rows
step_rows = plain_rows.step_rows if VARIANT.plain else _step_rows


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64)")
def copy_rows_from(read: Floats, written: Floats, numbers: Nine, step: int) -> None:
    """As copy_rows, with a distance of `step` between the values that a row is read from."""
    # Steps of 1 and 2 have vector code; larger ones load single values.
    if step == 1:
        copy_rows(read, written, numbers)
    elif step == _PAIR:
        split_rows(read, written, numbers)
    else:
        step_rows(read, written, numbers, step, 1)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64, int64)")
def interleave_phases(read: Floats, written: Floats, numbers: Nine, step: int, pitch: int) -> None:
    """Interleave rows of `step` phases: target[i * step + p] = source[p * pitch + i].

    Args:
        read: Array of the phases.
        written: Array of the planes.
        numbers: As for copy_rows, where count is the length of a row of a plane.
        step: Phases.
        pitch: Distance from one phase to the next.
    """
    if step == 1:
        copy_rows(read, written, numbers)
        return
    source, source_planes, source_rows, target, target_planes, target_rows = numbers[:6]
    planes, rows, count = numbers[6:]
    pitches = (source_planes, source_rows)
    # Whole groups of `step` values are interleaved in vectors; what is left is fewer than `step`
    # values, at most one of each phase.
    if step in JOINED:
        sizes = (planes, rows, count // step)
        join_rows(read, written, (*numbers[:6], *sizes), step, pitch)
        rest = count % step
        source, target, count = source + count // step, target + count - rest, rest
    # Phases without a generated interleaving, or the rest behind it, are written one phase at a
    # time.
    for number in range(min(step, count)):
        sizes = (planes, rows, (count - number - 1) // step + 1)
        place = (target + number, target_planes, target_rows)
        every = (source + number * pitch, *pitches, *place, *sizes)
        step_rows(read, written, every, 1, step)
