"""The weight as panels of the micro-kernels: TILE_ROWS channels of the result beside each other.

W[k, c, tap]  ->  panels (group, phase, channels of the result / TILE_ROWS,
                          channels of the source, taps of the phase, TILE_ROWS)
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.copies import copy_vectors, interleave
from opserve_kernels.algorithms.host import TILE_ROWS
from opserve_kernels.algorithms.product import (
    DIRECTION,
    FLAGS,
    GATHER,
    IMAGE_CHANNELS,
    LINE,
    OUTPUT_CHANNELS,
    TABLE,
    TAPS,
    WEIGHT_FORMAT,
    WEIGHT_VIEW,
    WEIGHTS,
)
from opserve_kernels.algorithms.taps import (
    result_channels,
    result_phases,
    source_channels,
    taps_place,
)
from opserve_kernels.algorithms.transfers import all_finite, fill
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]

_copy_row = copy_vectors(1, width=TILE_ROWS)
_interleave = interleave(TILE_ROWS)


@compiled("int64(int64[::1])")
def panels_of(stage: Integers) -> int:
    """Panels of a group."""
    return -(-result_channels(stage) // TILE_ROWS)


@compiled("int64(int64[::1])")
def line_pitch(stage: Integers) -> int:
    """From one row W[k, :, :] to the next, with room for whole panels of input channels."""
    return int(-(-stage[IMAGE_CHANNELS] // TILE_ROWS) * TILE_ROWS * stage[TAPS])


@compiled("int64(int64[::1], int32[::1], int64, int64, int64)")
def panel_place(stage: Integers, table: Offsets, group: int, phase: int, panel: int) -> int:
    """Where a panel starts."""
    first, last = table[stage[TABLE] + phase], table[stage[TABLE] + phase + 1]
    whole = panels_of(stage) * source_channels(stage) * TILE_ROWS
    inside = panel * source_channels(stage) * (last - first) * TILE_ROWS
    return int(stage[WEIGHTS] + group * whole * stage[TAPS] + whole * first + inside)


@compiled("void(float32[::1], int64, int64, int64)")
def _order_taps(scratch: Floats, source: int, taps: int, target: int) -> None:
    """TILE_ROWS channels with their taps (TILE_ROWS, taps) to (taps, TILE_ROWS)."""
    if taps == 1:
        _copy_row(scratch, scratch, (source, target))
    else:
        _interleave(scratch, scratch, (source, taps, target, taps))


@compiled("int64(int64[::1])")
def _ordered_values(stage: Integers) -> int:
    """Values that are put in order before they go to the phases that meet their taps."""
    if result_phases(stage) == 1:
        return 0
    return int(min(TILE_ROWS, stage[OUTPUT_CHANNELS]) * stage[TAPS] * TILE_ROWS)


@compiled("void(int64[::1], float32[::1], int32[::1], int64, int64, int64, int64)")
def _copy_phase(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers, scratch: Floats, table: Offsets, phase: int, target: int, row: int, rows: int
) -> None:
    """The taps of a phase out of rows that are in order, into a panel of the phase at `target`."""
    first, last = table[stage[TABLE] + phase], table[stage[TABLE] + phase + 1]
    taps = taps_place(stage)
    target += int(row * (last - first) * TILE_ROWS)
    for i in range(rows):
        source = stage[LINE] + i * stage[TAPS] * TILE_ROWS
        for tap in range(first, last):
            _copy_row(scratch, scratch, (source + table[taps + tap] * TILE_ROWS, target))
            target += TILE_ROWS


@compiled("void(int64[::1], float32[::1], int32[::1], int64, int64, int64, int64)")
def _spread_rows(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers, scratch: Floats, table: Offsets, group: int, row: int, rows: int, lines: int
) -> None:
    """Some rows W[k, :, :] into the panels of all input channels, from row k = `row` on."""
    taps, pitch, phases = stage[TAPS], line_pitch(stage), result_phases(stage)
    for panel in range(panels_of(stage)):
        target, source = stage[LINE], lines + panel * TILE_ROWS * taps
        if phases == 1:
            target = panel_place(stage, table, group, 0, panel) + row * taps * TILE_ROWS
        for i in range(rows):
            _order_taps(scratch, source + i * pitch, taps, target + i * taps * TILE_ROWS)
        if phases > 1:
            for phase in range(phases):
                place = panel_place(stage, table, group, phase, panel)
                _copy_phase(stage, scratch, table, phase, place, row, rows)


@compiled(
    "void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], int64, int64, int64)"
)
def _load_row(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers,
    scratch: Floats,
    table: Offsets,
    floats: Floats,
    halves: Halves,
    row: int,
    line: int,
    length: int,
) -> None:
    """A row W[k, :, :]; raises the flag if it is not finite."""
    view, number_format = stage[WEIGHT_VIEW:], stage[WEIGHT_FORMAT]
    values = scratch[line : line + length]
    load(floats, halves, view, number_format, row * length, values)
    if not all_finite(table, line, length):
        scratch[stage[FLAGS]] = np.float32(1)


@compiled("void(int64[::1], float32[::1], int32[::1], float32[::1], uint16[::1], int64)")
def pack_weights(
    stage: Integers, scratch: Floats, table: Offsets, floats: Floats, halves: Halves, unit: int
) -> None:
    """TILE_ROWS rows W[k, :, :] of a group; raises the flag if one is not finite."""
    length = stage[IMAGE_CHANNELS] * stage[TAPS]
    pitch = line_pitch(stage)
    units = -(-stage[OUTPUT_CHANNELS] // TILE_ROWS)
    group, first = unit // units, unit % units * TILE_ROWS
    rows = min(TILE_ROWS, stage[OUTPUT_CHANNELS] - first)
    lines = stage[LINE] + _ordered_values(stage)
    for row in range(TILE_ROWS):
        line, number = lines + row * pitch, group * stage[OUTPUT_CHANNELS] + first + row
        if row < rows:
            _load_row(stage, scratch, table, floats, halves, number, line, length)
            fill(scratch, line + length, pitch - length, np.float32(0))
        else:
            fill(scratch, line, pitch, np.float32(0))
    if stage[DIRECTION] == GATHER:
        panel = panel_place(stage, table, group, 0, first // TILE_ROWS)
        _interleave(scratch, scratch, (lines, pitch, panel, length))
    else:
        _spread_rows(stage, scratch, table, group, first, rows, lines)
