"""Taps by phase, with the shift of each: the tables of a packed product.

At the place `table` of the workspace, as int32:
    starts (phases + 1)     taps before each phase of the result
    taps (taps)             phase after phase, those that the phase meets
    shifts (taps)           where each reads the source's padded copy, from the result's position
    offsets (channels, taps of the phase), phase after phase: shifts with the channel's pitch
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.correlation.layout import SCATTER, CorrelationStage
from opserve_kernels.loops import compiled

Offsets = NDArray[np.int32]


@compiled()
def source_channels(stage: CorrelationStage) -> int:
    """Channels of a group that are summed over."""
    shape = stage.geometry
    return shape.output_channels if stage.direction == SCATTER else shape.input_channels


@compiled()
def summed_channels(stage: CorrelationStage) -> int:
    """The same, or pairs of them."""
    channels = source_channels(stage)
    return (channels + 1) // 2 if stage.pairs else channels


@compiled()
def result_channels(stage: CorrelationStage) -> int:
    """Channels of a group of the result."""
    shape = stage.geometry
    return shape.input_channels if stage.direction == SCATTER else shape.output_channels


@compiled()
def source_stride(stage: CorrelationStage, axis: int) -> int:
    """Phases of the source along an axis."""
    return 1 if stage.direction == SCATTER else stage.geometry.stride[axis]


@compiled()
def result_stride(stage: CorrelationStage, axis: int) -> int:
    """Phases of the result along an axis."""
    return stage.geometry.stride[axis] if stage.direction == SCATTER else 1


@compiled()
def result_phases(stage: CorrelationStage) -> int:
    """Phases of the result."""
    return result_stride(stage, 0) * result_stride(stage, 1) * result_stride(stage, 2)


@compiled()
def phase_of(stage: CorrelationStage, phase: int) -> tuple[int, int, int]:
    """A phase of the result along each axis."""
    height, width = result_stride(stage, 1), result_stride(stage, 2)
    return phase // width // height, phase // width % height, phase % width


@compiled()
def _meet(stage: CorrelationStage, axis: int, phase: int, tap: int) -> tuple[int, int, int]:
    """Along an axis: whether a tap meets a phase of the result, its source phase, and its shift."""
    shape = stage.geometry
    stride, offset = shape.stride[axis], tap * shape.dilation[axis]
    if stage.direction == SCATTER:
        # With SCATTER a tap meets a phase where the stride divides their distance: other products
        # would be with the zeros between strided positions.
        distance = phase + shape.padding[axis] - offset
        shift = distance // stride - stage.origin[axis]
        return int(distance % stride == 0), 0, shift
    return 1, offset % stride, offset // stride


@compiled()
def _shift(stage: CorrelationStage, phase: int, tap: int) -> int:
    """Distance from the result's position to the copy's value under a tap; -1 in other phases."""
    shape = stage.geometry
    rest, inner, shift, source_phase, phase_step = tap, 1, 0, 0, 1
    phases = phase_of(stage, phase)
    # From the innermost axis out: extent and phase step of an axis are products of those inside it.
    for axis in range(2, -1, -1):
        meets, part, steps = _meet(stage, axis, phases[axis], rest % shape.kernel_size[axis])
        if not meets:
            return -1
        shift += steps * inner
        source_phase += part * phase_step
        rest //= shape.kernel_size[axis]
        inner *= stage.extent[axis]
        phase_step *= source_stride(stage, axis)
    return source_phase * stage.phase_pitch + shift


@compiled()
def taps_place(stage: CorrelationStage) -> int:
    """Start of the table of taps."""
    return int(stage.table + result_phases(stage) + 1)


@compiled()
def offsets_place(stage: CorrelationStage, table: Offsets, phase: int) -> int:
    """Start of the offsets of a phase."""
    first = taps_place(stage) + 2 * stage.geometry.taps
    return int(first + summed_channels(stage) * table[stage.table + phase])


@compiled()
# Offsets are filled once a call. The innermost loops then read one int32 for each row of a panel,
# whatever the stride, dilation and padding are.
def _fill_offsets(stage: CorrelationStage, table: Offsets, phase: int) -> None:
    first, last = table[stage.table + phase], table[stage.table + phase + 1]
    shifts, place = taps_place(stage) + stage.geometry.taps, offsets_place(stage, table, phase)
    channels, taps = summed_channels(stage), last - first
    channel_step, tap_step = (1, channels) if stage.by_taps else (taps, 1)
    for channel in range(channels):
        for tap in range(taps):
            offset = channel * stage.channel_pitch + table[shifts + first + tap]
            table[place + channel * channel_step + tap * tap_step] = offset


@compiled()
def fill_tables(stage: CorrelationStage, table: Offsets) -> None:
    """Fills all four tables."""
    shape = stage.geometry
    # Taps are sorted by phase, so the taps of a phase are one run of each table.
    starts, taps, found = stage.table, taps_place(stage), 0
    for phase in range(result_phases(stage)):
        table[starts + phase] = found
        for tap in range(shape.taps):
            shift = _shift(stage, phase, tap)
            if shift >= 0:
                table[taps + found] = tap
                table[taps + shape.taps + found] = shift
                found += 1
    table[starts + result_phases(stage)] = found
    for phase in range(result_phases(stage)):
        _fill_offsets(stage, table, phase)
