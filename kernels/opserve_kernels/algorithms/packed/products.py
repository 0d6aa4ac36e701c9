"""Products of a tile of positions with all channels of the result, into totals or the result."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.micro_kernels import (
    Ten,
    multiply_flat,
    multiply_flat_skip_padding,
    multiply_in_place,
    multiply_in_place_skip_padding,
    multiply_packed,
    multiply_packed_skip_padding,
)
from opserve_kernels.algorithms.codegen.pairs import multiply_flat_pairs, multiply_packed_pairs
from opserve_kernels.algorithms.codegen.transfers import all_finite
from opserve_kernels.algorithms.correlation.layout import NO_BIAS
from opserve_kernels.algorithms.correlation.taps import result_channels, summed_channels
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.algorithms.packed.layout import PackedStage
from opserve_kernels.algorithms.packed.panels import tile_columns
from opserve_kernels.algorithms.packed.weights import panel_place
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Six = tuple[int, int, int, int, int, int]


@compiled()
def depth_of(stage: PackedStage, table: Offsets, phase: int) -> int:
    """Products of each sum of a phase."""
    product = stage.product
    taps = table[product.table + phase + 1] - table[product.table + phase]
    return int(summed_channels(product) * taps)


@compiled()
def _multiply_pairs(  # arrays and integers
    stage: PackedStage, scratch: Floats, table: Offsets, numbers: Six, vectors: int, pitch: int
) -> None:
    """As multiply_tile, with words of pairs; their values are finite."""
    count, left, right, offsets, total, adds = numbers
    for m in range(0, result_channels(stage.product), TILE_ROWS):
        rows = min(TILE_ROWS, result_channels(stage.product) - m)
        if stage.flat:
            looked_up = (count, left, right, offsets, total, stage.total_pitch, adds)
            multiply_flat_pairs(scratch, table, looked_up, rows, vectors)
        else:
            packed = (count, left, right, total, stage.total_pitch, adds)
            multiply_packed_pairs(scratch, packed, rows, vectors)
        left += pitch
        total += TILE_ROWS * stage.total_pitch


@compiled()
def multiply_in_place_tiles(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: PackedStage,
    weight: Floats,
    values: Floats,
    totals: Floats,
    scratch: Floats,
    numbers: Ten,
    columns: int,
    step: int,
) -> None:
    """Multiplies all channels of some tiles, whose panels of values begin a step apart.

    Without a step, tiles are adjacent in rows of values. Numbers are those of multiply_in_place for
    the first panel of channels.
    """
    skips = scratch[stage.product.flags] != 0 and not stage.source_in_place
    depth, left, left_pitch, left_step, right, right_pitch, total, pitch, adds, bias = numbers
    # Rows of a weight in its tensor, or panels one after the other.
    following = TILE_ROWS * (left_pitch if stage.weight_pitch else depth)
    factors = weight if stage.weight_pitch else scratch
    for m in range(0, result_channels(stage.product), TILE_ROWS):
        rows = min(TILE_ROWS, result_channels(stage.product) - m)
        tile, at = right, 0
        while at < columns:
            count = tile_columns(columns - at)
            lefts = (depth, left, left_pitch, left_step)
            one = (*lefts, tile, right_pitch, total + at, pitch, adds, bias)
            arrays = (factors, values, totals, scratch)
            if skips:
                multiply_in_place_skip_padding(*arrays, one, rows, count // LANES)
            else:
                multiply_in_place(*arrays, one, rows, count // LANES)
            tile, at = tile + (step or count), at + count
        left += following
        total += TILE_ROWS * pitch
        bias += TILE_ROWS if bias != NO_BIAS else 0


@compiled()
def multiply_tile(  # noqa: PLR0913, PLR0917  # arrays and integers
    stage: PackedStage,
    weight: Floats,
    scratch: Floats,
    table: Offsets,
    numbers: Six,
    vectors: int,
    pitch: int,
) -> None:
    """Multiplies all channels of a tile; numbers are the first panel's, others a pitch apart."""
    product, (count, left, right, offsets, total, adds) = stage.product, numbers
    if product.pairs:
        _multiply_pairs(stage, scratch, table, numbers, vectors, pitch)
        return
    if stage.weight_pitch:
        lying = (count, left, stage.weight_pitch, 1, right, TILE_COLUMNS)
        in_place = (*lying, total, stage.total_pitch, adds, NO_BIAS)
        arrays = (weight, scratch, scratch, scratch)
        multiply_in_place_tiles(stage, *arrays, in_place, vectors * LANES, 0)
        return
    # Padding times a weight that is not finite would be NaN. Weights are checked panel by panel,
    # and only if the flag says that some weight of the call is not finite.
    is_padded = scratch[product.flags] != 0 and not stage.source_in_place
    # Channels are innermost: the panel of pixels stays in the cache while those of the weight pass.
    for m in range(0, result_channels(product), TILE_ROWS):
        rows = min(TILE_ROWS, result_channels(product) - m)
        finite = not is_padded or all_finite(table, left, count * TILE_ROWS)
        if stage.flat:
            looked_up = (count, left, right, offsets, total, stage.total_pitch, adds)
            if finite:
                multiply_flat(scratch, table, looked_up, rows, vectors)
            else:
                multiply_flat_skip_padding(scratch, table, looked_up, rows, vectors)
        else:
            packed = (count, left, right, total, stage.total_pitch, adds)
            if finite:
                multiply_packed(scratch, packed, rows, vectors)
            else:
                multiply_packed_skip_padding(scratch, packed, rows, vectors)
        left += pitch
        total += TILE_ROWS * stage.total_pitch


@compiled()
def left_place(stage: PackedStage, table: Offsets, group: int, phase: int, k: int) -> int:
    """Place of the first factor of a step: in a panel, or in the weight's tensor."""
    if stage.weight_pitch:
        row = group * result_channels(stage.product)
        return int(stage.product.weight_layout.offset + row * stage.weight_pitch + k)
    return panel_place(stage, table, group, phase, 0) + k * TILE_ROWS
