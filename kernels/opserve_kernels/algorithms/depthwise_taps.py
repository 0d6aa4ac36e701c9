"""Which taps meet which phase of a depthwise result, and where they read the copy: tables."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.depthwise_copies import phases_along, result_stride
from opserve_kernels.algorithms.depthwise_layout import (
    BASE,
    CHANNEL_PITCH,
    DILATION,
    EXTENT,
    KERNEL,
    KIND,
    OUTPUT_CHANNELS,
    PADDING,
    PHASE_PITCH,
    RESULT_PHASES,
    STRIDE,
    TABLE,
    TAPS,
    WEIGH_OUTPUT,
)
from opserve_kernels.loops import compiled

Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]
Triple = tuple[int, int, int]


@compiled("UniTuple(int64, 3)(int64[::1], int64, int64, int64)")
def _meet(stage: Integers, axis: int, phase: int, tap: int) -> Triple:
    """Along an axis: whether a tap meets a phase of the result, the source's phase, the shift."""
    stride = stage[STRIDE + axis]
    distance = tap * stage[DILATION + axis] - stage[PADDING + axis]
    base = stage[BASE + axis]
    if stage[KIND] == WEIGH_OUTPUT:
        distance = phase - distance
        return int(distance % stride == 0), 0, int(distance // stride - base)
    return 1, int(distance % stride), int(distance // stride - base)


@compiled("UniTuple(int64, 2)(int64[::1], int64, int64)")
def _offset(stage: Integers, phase: int, tap: int) -> tuple[int, int]:
    """Whether a tap meets a phase of the result, and how far from a sum it reads the copy."""
    phases = phases_along(result_stride(stage), phase)
    rest, inner, offset, source_phase, phase_step = tap, 1, 0, 0, 1
    for axis in range(2, -1, -1):
        meets, found, shift = _meet(stage, axis, phases[axis], rest % stage[KERNEL + axis])
        if not meets:
            return 0, 0
        offset += shift * inner
        source_phase += found * phase_step
        rest //= stage[KERNEL + axis]
        inner *= stage[EXTENT + axis]
        phase_step *= stage[STRIDE + axis]
    return 1, int(offset + source_phase * stage[PHASE_PITCH])


@compiled("UniTuple(int64, 2)(int64[::1], int32[::1], int64)")
def taps_of(stage: Integers, table: Offsets, phase: int) -> tuple[int, int]:
    """The first of a phase's taps in the table, and the one behind the last."""
    return int(table[stage[TABLE] + phase]), int(table[stage[TABLE] + phase + 1])


@compiled("int64(int64[::1])")
def copies_of(stage: Integers) -> int:
    """Channels of the source."""
    return int(stage[OUTPUT_CHANNELS]) if stage[KIND] == WEIGH_OUTPUT else 1


@compiled("void(int64[::1], int32[::1])")
def fill_table(stage: Integers, table: Offsets) -> None:
    """Taps before each phase of the result; the taps; offsets (phase, source channel, tap)."""
    starts, copies = stage[TABLE], copies_of(stage)
    taps = starts + stage[RESULT_PHASES] + 1
    offsets, found = taps + stage[TAPS], 0
    for phase in range(stage[RESULT_PHASES]):
        table[starts + phase] = found
        for tap in range(stage[TAPS]):
            meets, _ = _offset(stage, phase, tap)
            if meets:
                table[taps + found] = tap
                found += 1
        table[starts + phase + 1] = found
        first, last = taps_of(stage, table, phase)
        for channel in range(copies):
            for at in range(first, last):
                _, offset = _offset(stage, phase, int(table[taps + at]))
                table[offsets] = channel * stage[CHANNEL_PITCH] + offset
                offsets += 1
