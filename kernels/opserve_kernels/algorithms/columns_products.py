"""The products of opserve_kernels.algorithms.columns_plan: loops over blocks of columns.

Per group, with image X (C, positions), output Y (K, Q) and weight W (K, R), R = C * taps:
    columns(X) (R, Q)                  the image's values under every tap, at every output position
    grad_image  = scatter(W^T @ Y)     every column added back to where it would come from
    grad_output = W @ columns(X)       the forward convolution
    grad_weight = Y @ columns(X)^T
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.columns import (
    INPUT_CHANNELS,
    INPUT_PIXELS,
    OUTPUT_CHANNELS,
    OUTPUT_PIXELS,
    TAPS,
    gather_columns,
    scatter_columns,
)
from opserve_kernels.algorithms.columns_plan import GATHER_OUTPUT, SCATTER_IMAGE
from opserve_kernels.loops import compiled
from opserve_kernels.sums import add_matrix, add_product, add_product_but_padding, all_finite

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

_NUMBERS = 9  # of a product's stage, before the geometry
_BLOCK, _PRODUCT, _IMAGE, _OUTPUT, _WEIGHT, _PIXEL_TILE, _PIXEL_TILES, _ROW_TILE, _ROW_TILES = (
    range(_NUMBERS)
)


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


@compiled("void(int64, int64[::1], float32[::1], int64, int64)")
def run_columns(kind: int, stage: Integers, scratch: Floats, first: int, last: int) -> None:
    """Runs units first .. last-1 of a product."""
    if kind == SCATTER_IMAGE:
        _scatter_image(stage, scratch, first, last)
    elif kind == GATHER_OUTPUT:
        _gather_output(stage, scratch, first, last)
    else:
        _gather_weight(stage, scratch, first, last)
