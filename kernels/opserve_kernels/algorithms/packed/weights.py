"""The weight as panels of the micro-kernels: TILE_ROWS channels of the result are contiguous.

W[k, c, tap]  ->  panels (group, phase, channels of the result / TILE_ROWS,
                          channels of the source, taps of the phase, TILE_ROWS)
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.copies import copy_vectors, interleave
from opserve_kernels.algorithms.codegen.pairs import join_rows, suit_pairs
from opserve_kernels.algorithms.codegen.transfers import fill
from opserve_kernels.algorithms.correlation.layout import GATHER
from opserve_kernels.algorithms.correlation.taps import (
    result_channels,
    result_phases,
    source_channels,
    taps_place,
)
from opserve_kernels.algorithms.host import TILE_ROWS
from opserve_kernels.algorithms.packed.layout import PackedStage
from opserve_kernels.loops import compiled
from opserve_kernels.strided import load
from opserve_kernels.sums import are_finite

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]

_copy_row = copy_vectors(1, width=TILE_ROWS)
_interleave = interleave(TILE_ROWS)


@compiled()
def panels_of(stage: PackedStage) -> int:
    """Panels of a group."""
    return -(-result_channels(stage.product) // TILE_ROWS)


@compiled()
def line_pitch(stage: PackedStage) -> int:
    """Distance of two loaded rows W[k, :, :], which end with whole panels of input channels."""
    shape = stage.product.geometry
    return -(-shape.input_channels // TILE_ROWS) * TILE_ROWS * shape.taps


@compiled()
def panel_place(stage: PackedStage, table: Offsets, group: int, phase: int, panel: int) -> int:
    """Start of a panel."""
    # Panels of a group are sorted by phase, then by rows; a phase has only the taps that it meets.
    product = stage.product
    first, last = table[product.table + phase], table[product.table + phase + 1]
    whole = panels_of(stage) * source_channels(product) * TILE_ROWS
    inside = panel * source_channels(product) * (last - first) * TILE_ROWS
    return int(stage.weights + group * whole * product.geometry.taps + whole * first + inside)


@compiled()
def _ordered_values(stage: PackedStage) -> int:
    """Values that are put in order before they are copied to the phases that meet their taps."""
    shape = stage.product.geometry
    if stage.product.by_taps and stage.product.direction == GATHER:
        return shape.input_channels * shape.taps * TILE_ROWS
    if result_phases(stage.product) == 1 and not stage.product.by_taps:
        return 0
    return min(TILE_ROWS, shape.output_channels) * shape.taps * TILE_ROWS


@compiled()
def _copy_phase(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: PackedStage,
    scratch: Floats,
    table: Offsets,
    phase: int,
    target: int,
    row: int,
    rows: int,
) -> None:
    """Copies the taps of a phase from ordered rows into a panel of the phase at `target`."""
    product = stage.product
    # The phase's taps are picked from rows that have all taps in order.
    first, last = table[product.table + phase], table[product.table + phase + 1]
    taps, met = taps_place(product) + first, last - first
    row_step, tap_step = (1, source_channels(product)) if product.by_taps else (met, 1)
    for i in range(rows):
        source = product.line + i * product.geometry.taps * TILE_ROWS
        to = target + (row + i) * row_step * TILE_ROWS
        for tap in range(met):
            _copy_row(scratch, scratch, (source + table[taps + tap] * TILE_ROWS, to))
            to += tap_step * TILE_ROWS


@compiled()
def _spread_rows(  # noqa: PLR0913, PLR0917  # arrays, places and pairs
    stage: PackedStage,
    memory: Floats,
    scratch: Floats,
    table: Offsets,
    group: int,
    k: tuple[int, int],
    lines: tuple[int, int],
) -> None:
    """Writes rows W[k, :, :] into the panels of all input channels.

    Args:
        stage: The stage.
        memory: Array of the rows.
        scratch: The workspace.
        table: The same as int32.
        group: Group of channels.
        k: First row, and number of rows.
        lines: Place of the first row, and distance of rows.
    """
    product = stage.product
    (row, rows), (start, pitch) = k, lines
    taps, ordered = product.geometry.taps, _ordered_values(stage) > 0
    # Input channels become rows of the micro-kernel: TILE_ROWS of them are transposed with their
    # taps. One tap needs no transposition.
    for panel in range(panels_of(stage)):
        source, target = start + panel * TILE_ROWS * taps, product.line
        if not ordered:
            target = panel_place(stage, table, group, 0, panel) + row * taps * TILE_ROWS
        for i in range(rows):
            if taps == 1:
                _copy_row(memory, scratch, (source + i * pitch, target + i * TILE_ROWS))
            else:
                to = target + i * taps * TILE_ROWS
                _interleave(memory, scratch, (source + i * pitch, taps, to, taps))
        if ordered:
            for phase in range(result_phases(product)):
                place = panel_place(stage, table, group, phase, panel)
                _copy_phase(stage, scratch, table, phase, place, row, rows)


@compiled()
def _load_rows(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: PackedStage,
    scratch: Floats,
    floats: Floats,
    halves: Halves,
    first: int,
    rows: int,
    lines: int,
) -> None:
    """Loads rows W[k, :, :] into lines of the workspace; panels are filled up with zeros."""
    product = stage.product
    shape = product.geometry
    length, pitch = shape.input_channels * shape.taps, line_pitch(stage)
    view, number_format = product.weight_layout, product.weight_format
    for row in range(rows):
        line = lines + row * pitch
        values = scratch[line : line + length]
        load(floats, halves, view, number_format, (first + row) * length, values)
        fill(scratch, line + length, pitch - length, np.float32(0))
    fill(scratch, lines + rows * pitch, (TILE_ROWS - rows) * pitch, np.float32(0))


@compiled()
def _pair_panels(
    stage: PackedStage, scratch: Floats, table: Offsets, group: int, row: int, rows: int
) -> None:
    """Joins pairs of source channels in the panels that rows W[k, :, :] were packed into."""
    # With SCATTER, rows are source channels of all panels, and TILE_ROWS of them are whole pairs.
    product = stage.product
    panel, panels, first, last = 0, panels_of(stage), row, row + rows
    if product.direction == GATHER:
        panel, panels, first, last = row // TILE_ROWS, 1, 0, source_channels(product)
    for phase in range(result_phases(product)):
        taps = int(table[product.table + phase + 1] - table[product.table + phase])
        for number in range(panel, panel + panels):
            place = panel_place(stage, table, group, phase, number)
            join_rows(scratch, place, taps * TILE_ROWS, first, last)


@compiled()
def pack_weights(
    stage: PackedStage, scratch: Floats, table: Offsets, floats: Floats, halves: Halves, unit: int
) -> None:
    """Packs TILE_ROWS rows W[k, :, :] of a group; raises the flag if a value is not finite.

    Values of pairs raise it where they do not suit pairs.
    """
    product = stage.product
    shape = product.geometry
    length = shape.input_channels * shape.taps
    units = -(-shape.output_channels // TILE_ROWS)
    group, row = unit // units, unit % units * TILE_ROWS
    rows = min(TILE_ROWS, shape.output_channels - row)
    first = group * shape.output_channels + row
    memory, lines, pitch = floats, product.weight_layout.offset + first * length, length
    if not stage.weight_in_place:
        memory, lines, pitch = scratch, product.line + _ordered_values(stage), line_pitch(stage)
        _load_rows(stage, scratch, floats, halves, first, rows, lines)
    # Checked here, where the values are in the cache; the flag only matters beside padding.
    values = memory[lines : lines + (rows - 1) * pitch + length]
    if stage.weight_pitch and stage.source_in_place:
        return
    if not (suit_pairs(values) if product.pairs else are_finite(values)):
        scratch[product.flags] = np.float32(1)
    if stage.weight_pitch:
        return
    if product.direction == GATHER:
        panel = panel_place(stage, table, group, 0, row // TILE_ROWS)
        place = product.line if product.by_taps else panel
        _interleave(memory, scratch, (lines, pitch, place, length))
        if product.by_taps:
            _copy_phase(stage, scratch, table, 0, panel, 0, shape.input_channels)
    else:
        _spread_rows(stage, memory, scratch, table, group, (row, rows), (lines, pitch))
    if product.pairs:
        _pair_panels(stage, scratch, table, group, row, rows)
