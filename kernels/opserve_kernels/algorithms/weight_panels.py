"""The weight as panels of the micro-kernels: TILE_ROWS channels of the result beside each other.

W[k, c, tap]  ->  panels (group, phase, channels of the result / TILE_ROWS,
                          channels of the source, taps of the phase, TILE_ROWS)
"""

import numpy as np
from numpy.typing import NDArray

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
from opserve_kernels.algorithms.transfers import (
    all_finite,
    copy_panel_rows,
    fill,
    interleave_rows,
    load_values,
)
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]


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


@compiled("void(int64[::1], float32[::1], int32[::1], int64, int64, int64, int64)")
def _spread_row(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: Integers, scratch: Floats, table: Offsets, group: int, panel: int, k: int, source: int
) -> None:
    """TILE_ROWS input channels of a row W[k, :, :] into their panel, phase by phase."""
    taps, places, order = stage[TAPS], taps_place(stage), stage[LINE]
    if taps == 1:
        order = source
    else:
        interleave_rows(scratch, source, taps, order, taps)
    for phase in range(result_phases(stage)):
        place = stage[TABLE] + phase
        first, last = int(table[place]), int(table[place + 1])
        if first < last:
            target = panel_place(stage, table, group, phase, panel)
            target += k * (last - first) * TILE_ROWS
            copy_panel_rows(scratch, table, order, places + first, last - first, target)


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
    load_values(floats, halves, view, number_format, row * length, scratch, line, length)
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
    ordered = stage[DIRECTION] != GATHER and stage[TAPS] > 1
    lines = stage[LINE] + (stage[TAPS] * TILE_ROWS if ordered else 0)
    for row in range(TILE_ROWS):
        line, number = lines + row * pitch, group * stage[OUTPUT_CHANNELS] + first + row
        if row < rows:
            _load_row(stage, scratch, table, floats, halves, number, line, length)
            fill(scratch, line + length, pitch - length, np.float32(0))
        else:
            fill(scratch, line, pitch, np.float32(0))
    if stage[DIRECTION] == GATHER:
        panel = panel_place(stage, table, group, 0, first // TILE_ROWS)
        interleave_rows(scratch, lines, pitch, panel, length)
        return
    for panel in range(panels_of(stage)):
        source = lines + panel * TILE_ROWS * stage[TAPS]
        for row in range(rows):
            at = source + row * pitch
            _spread_row(stage, scratch, table, group, panel, first + row, at)
