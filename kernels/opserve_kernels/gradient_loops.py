"""The gradients of a convolution in float32: loops over blocks of the matrix of columns.

Per group, with image X (C, positions), output Y (K, Q) and weight W (K, R), R = C * taps:
    columns(X) (R, Q)                  the image's values under every tap, at every output position
    grad_image  = scatter(W^T @ Y)     every column added back to where it would come from
    grad_output = W @ columns(X)       the forward convolution
    grad_weight = Y @ columns(X)^T
    sums        = sum of an image over batch and positions

Plans of `reference` have stages of opserve_kernels.exact_loops instead.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.columns import (
    INPUT_CHANNELS,
    INPUT_PIXELS,
    OUTPUT_CHANNELS,
    OUTPUT_PIXELS,
    TAPS,
    gather_columns,
    scatter_columns,
)
from opserve_kernels.exact_loops import run_exact_stage
from opserve_kernels.exact_plan import FIRST_EXACT_KIND
from opserve_kernels.gradient_plan import (
    FILL,
    GATHER_OUTPUT,
    GATHER_WEIGHT,
    KEEP_DIAGONAL,
    LOAD,
    SCATTER_IMAGE,
    STORE,
    SUM_CHANNELS,
)
from opserve_kernels.loops import compiled
from opserve_kernels.precision import round_all
from opserve_kernels.stages import stages_between
from opserve_kernels.strided import as_floats, as_halves, load, store
from opserve_kernels.sums import (
    LANES,
    add_matrix,
    add_product,
    add_product_but_padding,
    all_finite,
    total,
)

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]

_NUMBERS = 9  # of a product's stage, before the geometry
_BLOCK, _PRODUCT, _IMAGE, _OUTPUT, _WEIGHT, _PIXEL_TILE, _PIXEL_TILES, _ROW_TILE, _ROW_TILES = (
    range(_NUMBERS)
)


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Runs the work units first_unit .. last_unit-1; what lives between is in the workspace.

    Args:
        parameters: Those of the plan.
        tensors: The buffers of the schema's tensors, in order; empty where there is none.
        workspace: As many bytes as the plan says.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    scratch = workspace.view(np.float32)
    for kind, stage, first, last in stages_between(parameters, first_unit, last_unit):
        if kind >= FIRST_EXACT_KIND:
            run_exact_stage(kind, stage, tensors, workspace, first, last)
        elif kind in _WITHIN:
            _WITHIN[kind](stage, scratch, first, last)
        else:
            buffer = tensors[int(stage[0])]
            _COPIES[kind](stage, as_floats(buffer), as_halves(buffer), scratch, first, last)


@compiled("void(int64[::1], float32[::1], int64, int64)")
def _fill(stage: Integers, scratch: Floats, first: int, last: int) -> None:
    start, count, chunk = stage[0], stage[1], stage[2]
    scratch[start + first * chunk : start + min(last * chunk, count)] = np.float32(0)


@compiled("void(int64[::1], float32[::1], uint16[::1], float32[::1], int64, int64)")
def _load(
    stage: Integers, floats: Floats, halves: Halves, scratch: Floats, first: int, last: int
) -> None:
    """Copies an operand into the workspace, rounded as the cube does; -0 becomes 0."""
    start, count, chunk, number_format = stage[1], stage[2], stage[3], stage[4]
    begin, end = first * chunk, min(last * chunk, count)
    target = scratch[start + begin : start + end]
    load(floats, halves, stage[5:], begin, target)
    round_all(target, number_format)
    for i in range(target.size):
        target[i] += np.float32(0)


@compiled("void(int64[::1], float32[::1], uint16[::1], float32[::1], int64, int64)")
def _store(
    stage: Integers, floats: Floats, halves: Halves, scratch: Floats, first: int, last: int
) -> None:
    """Copies a result out of the workspace, rounded as the cube does and then to its dtype."""
    start, count, chunk, number_format = stage[1], stage[2], stage[3], stage[4]
    begin, end = first * chunk, min(last * chunk, count)
    source = scratch[start + begin : start + end]
    round_all(source, number_format)
    store(source, stage[5:], begin, floats, halves)


@compiled("void(int64[::1], float32[::1], uint16[::1], float32[::1], int64, int64)")
def _sum_channels(
    stage: Integers, floats: Floats, halves: Halves, scratch: Floats, first: int, last: int
) -> None:
    """Adds a chunk of a channel's pixels to its total, block by block."""
    totals, block, lanes = scratch[stage[1] :], stage[2], scratch[stage[4] :][:LANES]
    block_size, pixels, chunks, chunk = stage[3], stage[5], stage[6], stage[7]
    for unit in range(first, last):
        channel = unit // chunks
        begin = unit % chunks * chunk
        end = min(begin + chunk, pixels)
        for pixel in range(begin, end, block_size):
            values = scratch[block : block + min(block_size, end - pixel)]
            load(floats, halves, stage[8:], channel * pixels + pixel, values)
            totals[channel] += total(values, lanes)


@compiled("UniTuple(int64, 5)(int64[::1], int64)")
def _block_of(stage: Integers, unit: int) -> tuple[int, int, int, int, int]:
    """Group, first row, rows, first pixel and pixels of a unit's block of columns."""
    geometry = stage[_NUMBERS:]
    row_tile, pixel_tile = stage[_ROW_TILE], stage[_PIXEL_TILE]
    row = unit % stage[_ROW_TILES] * row_tile
    tile = unit // stage[_ROW_TILES]
    pixel = tile % stage[_PIXEL_TILES] * pixel_tile
    rows = min(row_tile, geometry[INPUT_CHANNELS] * geometry[TAPS] - row)
    pixels = min(pixel_tile, geometry[OUTPUT_PIXELS] - pixel)
    return tile // stage[_PIXEL_TILES], row, rows, pixel, pixels


@compiled("void(int64[::1], float32[::1], int64, int64)")
def _scatter_image(stage: Integers, scratch: Floats, first: int, last: int) -> None:
    """W^T (rows, K) @ Y (K, pixels) is a block of columns, added to the image."""
    geometry = stage[_NUMBERS:]
    k_size, q_size = geometry[OUTPUT_CHANNELS], geometry[OUTPUT_PIXELS]
    r_size = geometry[INPUT_CHANNELS] * geometry[TAPS]
    for unit in range(first, last):
        group, row, rows, pixel, pixels = _block_of(stage, unit)
        block = scratch[stage[_BLOCK] :][: rows * pixels]
        weight = scratch[stage[_WEIGHT] + (group * r_size + row) * k_size :]
        output = scratch[stage[_OUTPUT] + group * k_size * q_size + pixel :]
        image = scratch[stage[_IMAGE] + group * geometry[INPUT_CHANNELS] * geometry[INPUT_PIXELS] :]
        block[:] = np.float32(0)
        add_product(weight, k_size, output, q_size, block, pixels, rows, k_size, pixels)
        scatter_columns(block, geometry, row, rows, pixel, pixels, image)


@compiled("void(int64[::1], float32[::1], int64, int64)")
def _gather_output(stage: Integers, scratch: Floats, first: int, last: int) -> None:
    """Adds W (K, rows) @ a block (rows, pixels) of columns to Y (K, pixels)."""
    geometry = stage[_NUMBERS:]
    k_size, q_size = geometry[OUTPUT_CHANNELS], geometry[OUTPUT_PIXELS]
    r_size = geometry[INPUT_CHANNELS] * geometry[TAPS]
    for unit in range(first, last):
        group, row, rows, pixel, pixels = _block_of(stage, unit)
        block = scratch[stage[_BLOCK] :][: rows * pixels]
        product = scratch[stage[_PRODUCT] :][: k_size * pixels]
        weight = scratch[stage[_WEIGHT] + group * k_size * r_size + row :]
        output = scratch[stage[_OUTPUT] + group * k_size * q_size + pixel :]
        image = scratch[stage[_IMAGE] + group * geometry[INPUT_CHANNELS] * geometry[INPUT_PIXELS] :]
        padded = gather_columns(image, geometry, row, rows, pixel, pixels, block, pixels, 1)
        product[:] = np.float32(0)
        if padded and not all_finite(weight, r_size, k_size, rows):
            add_product_but_padding(weight, r_size, block, pixels, product, k_size, rows, pixels)
        else:
            add_product(weight, r_size, block, pixels, product, pixels, k_size, rows, pixels)
        add_matrix(product, output, q_size, k_size, pixels)


@compiled("void(int64[::1], float32[::1], int64, int64)")
def _gather_weight(stage: Integers, scratch: Floats, first: int, last: int) -> None:
    """Adds Y (K, pixels) @ a block (pixels, rows) of transposed columns to W (K, rows)."""
    geometry = stage[_NUMBERS:]
    k_size, q_size = geometry[OUTPUT_CHANNELS], geometry[OUTPUT_PIXELS]
    r_size = geometry[INPUT_CHANNELS] * geometry[TAPS]
    for unit in range(first, last):
        group, row, rows, pixel, pixels = _block_of(stage, unit)
        block = scratch[stage[_BLOCK] :][: rows * pixels]
        product = scratch[stage[_PRODUCT] :][: k_size * rows]
        weight = scratch[stage[_WEIGHT] + group * k_size * r_size + row :]
        output = scratch[stage[_OUTPUT] + group * k_size * q_size + pixel :]
        image = scratch[stage[_IMAGE] + group * geometry[INPUT_CHANNELS] * geometry[INPUT_PIXELS] :]
        padded = gather_columns(image, geometry, row, rows, pixel, pixels, block, 1, rows)
        product[:] = np.float32(0)
        if padded and not all_finite(output, q_size, k_size, pixels):
            add_product_but_padding(output, q_size, block, rows, product, k_size, pixels, rows)
        else:
            add_product(output, q_size, block, rows, product, rows, k_size, pixels, rows)
        add_matrix(product, weight, r_size, k_size, rows)


@compiled("void(int64[::1], float32[::1], int64, int64)")
def _keep_diagonal(stage: Integers, scratch: Floats, first: int, last: int) -> None:
    """Zeros where an output and an input channel of a superblock belong to different groups."""
    groups, extend, k_group, c_group = stage[1], stage[2], stage[3], stage[4]
    k_size, c_size, taps = stage[5], stage[6], stage[7]
    for unit in range(first, last):
        member = unit % k_size // k_group
        exists = member < extend and unit // k_size * extend + member < groups
        row = scratch[stage[0] + unit * c_size * taps :][: c_size * taps]
        if exists:
            row[: member * c_group * taps] = np.float32(0)
            row[(member + 1) * c_group * taps :] = np.float32(0)
        else:
            row[:] = np.float32(0)


# With a buffer of the call, whose place is the stage's first parameter, and without.
_COPIES: dict[int, Callable[[Integers, Floats, Halves, Floats, int, int], None]] = {
    LOAD: _load,
    STORE: _store,
    SUM_CHANNELS: _sum_channels,
}
_WITHIN: dict[int, Callable[[Integers, Floats, int, int], None]] = {
    FILL: _fill,
    SCATTER_IMAGE: _scatter_image,
    GATHER_OUTPUT: _gather_output,
    GATHER_WEIGHT: _gather_weight,
    KEEP_DIAGONAL: _keep_diagonal,
}
