"""Which taps meet which phase, and by how much each shifts: the tables of a packed product.

At the place TABLE of the workspace, as int32:
    starts (phases + 1)     taps before each phase of the result
    taps (taps)             phase after phase, those that the phase meets
    shifts (taps)           where each reads the source's padded copy, from the result's position
    offsets (channels, taps of the phase), phase after phase: shifts with the channel's pitch
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.correlation.layout import (
    CHANNEL_PITCH,
    DILATION,
    DIRECTION,
    EXTENT,
    IMAGE_CHANNELS,
    KERNEL,
    ORIGIN,
    OUTPUT_CHANNELS,
    PADDING,
    PHASE_PITCH,
    SCATTER,
    STRIDE,
    TABLE,
    TAPS,
)
from opserve_kernels.loops import compiled

Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]


@compiled("int64(int64[::1])")
def source_channels(stage: Integers) -> int:
    """Channels of a group that are summed over."""
    place = OUTPUT_CHANNELS if stage[DIRECTION] == SCATTER else IMAGE_CHANNELS
    return int(stage[place])


@compiled("int64(int64[::1])")
def result_channels(stage: Integers) -> int:
    """Channels of a group of the result."""
    place = IMAGE_CHANNELS if stage[DIRECTION] == SCATTER else OUTPUT_CHANNELS
    return int(stage[place])


@compiled("int64(int64[::1], int64)")
def source_stride(stage: Integers, axis: int) -> int:
    """Phases of the source along an axis."""
    return 1 if stage[DIRECTION] == SCATTER else int(stage[STRIDE + axis])


@compiled("int64(int64[::1], int64)")
def result_stride(stage: Integers, axis: int) -> int:
    """Phases of the result along an axis."""
    return int(stage[STRIDE + axis]) if stage[DIRECTION] == SCATTER else 1


@compiled("int64(int64[::1])")
def result_phases(stage: Integers) -> int:
    """Phases of the result."""
    return result_stride(stage, 0) * result_stride(stage, 1) * result_stride(stage, 2)


@compiled("UniTuple(int64, 3)(int64[::1], int64)")
def phase_of(stage: Integers, phase: int) -> tuple[int, int, int]:
    """A phase of the result along each axis."""
    height, width = result_stride(stage, 1), result_stride(stage, 2)
    return phase // width // height, phase // width % height, phase % width


@compiled("UniTuple(int64, 3)(int64[::1], int64, int64, int64)")
def _meet(stage: Integers, axis: int, phase: int, tap: int) -> tuple[int, int, int]:
    """Along an axis: whether a tap meets a phase of the result, its source phase, its shift."""
    stride, reach = stage[STRIDE + axis], tap * stage[DILATION + axis]
    if stage[DIRECTION] == SCATTER:
        distance = phase + stage[PADDING + axis] - reach
        shift = distance // stride - stage[ORIGIN + axis]
        return int(distance % stride == 0), 0, shift
    return 1, reach % stride, reach // stride


@compiled("int64(int64[::1], int64, int64)")
def _shift(stage: Integers, phase: int, tap: int) -> int:
    """Where a tap reads the padded copy from the result's position; -1 if not in this phase."""
    rest, inner, shift, source_phase, phase_step = tap, 1, 0, 0, 1
    phases = phase_of(stage, phase)
    for axis in range(2, -1, -1):
        meets, part, steps = _meet(stage, axis, phases[axis], rest % stage[KERNEL + axis])
        if not meets:
            return -1
        shift += steps * inner
        source_phase += part * phase_step
        rest //= stage[KERNEL + axis]
        inner *= stage[EXTENT + axis]
        phase_step *= source_stride(stage, axis)
    return int(source_phase * stage[PHASE_PITCH] + shift)


@compiled("int64(int64[::1])")
def taps_place(stage: Integers) -> int:
    """Where the table of taps starts."""
    return int(stage[TABLE] + result_phases(stage) + 1)


@compiled("int64(int64[::1], int32[::1], int64)")
def offsets_place(stage: Integers, table: Offsets, phase: int) -> int:
    """Where the offsets of a phase start."""
    first = taps_place(stage) + 2 * stage[TAPS]
    return int(first + source_channels(stage) * table[stage[TABLE] + phase])


@compiled("void(int64[::1], int32[::1], int64)")
def _fill_offsets(stage: Integers, table: Offsets, phase: int) -> None:
    first, last = table[stage[TABLE] + phase], table[stage[TABLE] + phase + 1]
    shifts, place = taps_place(stage) + stage[TAPS], offsets_place(stage, table, phase)
    for channel in range(source_channels(stage)):
        for tap in range(first, last):
            table[place] = channel * stage[CHANNEL_PITCH] + table[shifts + tap]
            place += 1


@compiled("void(int64[::1], int32[::1])")
def fill_tables(stage: Integers, table: Offsets) -> None:
    """Fills the tables."""
    starts, taps, found = stage[TABLE], taps_place(stage), 0
    for phase in range(result_phases(stage)):
        table[starts + phase] = found
        for tap in range(stage[TAPS]):
            shift = _shift(stage, phase, tap)
            if shift >= 0:
                table[taps + found] = tap
                table[taps + stage[TAPS] + found] = shift
                found += 1
    table[starts + result_phases(stage)] = found
    for phase in range(result_phases(stage)):
        _fill_offsets(stage, table, phase)
