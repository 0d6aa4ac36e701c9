"""Sums of float32 values and of their products, in float32 and in a fixed order.

PADDING marks entries that are no part of a sum. It is a zero, so that finite factors need no special care; an
infinite factor would make a NaN of it, and then the loops that skip it are used.
"""

from math import copysign, isfinite

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]

PADDING = np.float32(-0.0)  # operands hold no negative zero: opserve_kernels.columns sees to it
LANES = 64


@compiled("boolean(float32[::1], int64, int64, int64)")
def all_finite(matrix: Floats, pitch: int, rows: int, columns: int) -> bool:
    """Whether no entry is infinite or NaN."""
    for row in range(rows):
        for column in range(columns):
            if not isfinite(matrix[row * pitch + column]):
                return False
    return True


@compiled("void(float32, float32[::1], float32[::1])")
def _add_row(factor: np.float32, row: Floats, total: Floats) -> None:
    for j in range(total.size):
        total[j] += factor * row[j]


@compiled(
    "void(float32[::1], int64, float32[::1], int64, float32[::1], int64, int64, int64, int64)"
)
def add_product(
    left: Floats,
    left_pitch: int,
    right: Floats,
    right_pitch: int,
    total: Floats,
    total_pitch: int,
    rows: int,
    depth: int,
    columns: int,
) -> None:
    """total (rows x columns) += left (rows x depth) @ right (depth x columns), rows a pitch apart."""
    for row in range(0, rows - 1, 2):
        upper = total[row * total_pitch : row * total_pitch + columns]
        lower = total[(row + 1) * total_pitch : (row + 1) * total_pitch + columns]
        for k in range(0, depth - 3, 4):
            a = left[row * left_pitch + k : row * left_pitch + k + 4]
            b = left[(row + 1) * left_pitch + k : (row + 1) * left_pitch + k + 4]
            a0, a1, a2, a3 = a[0], a[1], a[2], a[3]
            b0, b1, b2, b3 = b[0], b[1], b[2], b[3]
            x0 = right[k * right_pitch : k * right_pitch + columns]
            x1 = right[(k + 1) * right_pitch : (k + 1) * right_pitch + columns]
            x2 = right[(k + 2) * right_pitch : (k + 2) * right_pitch + columns]
            x3 = right[(k + 3) * right_pitch : (k + 3) * right_pitch + columns]
            for j in range(columns):
                upper[j] += (a0 * x0[j] + a1 * x1[j]) + (a2 * x2[j] + a3 * x3[j])
                lower[j] += (b0 * x0[j] + b1 * x1[j]) + (b2 * x2[j] + b3 * x3[j])
        for k in range(depth - depth % 4, depth):
            _add_row(left[row * left_pitch + k], right[k * right_pitch :], upper)
            _add_row(left[(row + 1) * left_pitch + k], right[k * right_pitch :], lower)
    if rows % 2:
        last = (rows - 1) * left_pitch
        row_total = total[(rows - 1) * total_pitch : (rows - 1) * total_pitch + columns]
        for k in range(depth):
            _add_row(left[last + k], right[k * right_pitch :], row_total)


@compiled("boolean(float32)")
def _is_padding(value: np.float32) -> bool:
    return value == 0 and copysign(1.0, value) < 0


@compiled(
    "void(float32[::1], int64, float32[::1], int64, float32[::1], int64, int64, int64, int64)"
)
def add_product_but_padding(
    left: Floats,
    left_pitch: int,
    right: Floats,
    right_pitch: int,
    total: Floats,
    total_pitch: int,
    rows: int,
    depth: int,
    columns: int,
) -> None:
    """As add_product, leaving out the entries of `right` that are PADDING."""
    for row in range(rows):
        for k in range(depth):
            factor = left[row * left_pitch + k]
            for j in range(columns):
                value = right[k * right_pitch + j]
                if not _is_padding(value):
                    total[row * total_pitch + j] += factor * value


@compiled("float32(float32[::1])")
def add_lanes(lanes: Floats) -> np.float32:
    """Pairwise sum of LANES values, which are overwritten."""
    width = LANES // 2
    while width > 0:
        for j in range(width):
            lanes[j] += lanes[j + width]
        width //= 2
    return lanes[0]


@compiled("float32(float32[::1], float32[::1])")
def total(values: Floats, lanes: Floats) -> np.float32:
    """Sum of the values, in LANES partial sums that are then added pairwise; lanes are scratch."""
    lanes[:] = np.float32(0)
    for start in range(0, values.size, LANES):
        a = values[start : start + LANES]
        for j in range(a.size):
            lanes[j] += a[j]
    return add_lanes(lanes)


@compiled("float32(float32[::1], float32[::1], float32[::1])")
def dot(left: Floats, right: Floats, lanes: Floats) -> np.float32:
    """Sum of left[i] * right[i], in LANES partial sums that are then added pairwise.

    Args:
        left: Factors.
        right: As many factors.
        lanes: Scratch of LANES values.
    """
    lanes[:] = np.float32(0)
    for start in range(0, left.size, LANES):
        a, b = left[start : start + LANES], right[start : start + LANES]
        for j in range(a.size):
            lanes[j] += a[j] * b[j]
    return add_lanes(lanes)


@compiled("float32(float32[::1], float32[::1], float32[::1])")
def dot_but_padding(left: Floats, right: Floats, lanes: Floats) -> np.float32:
    """As dot, leaving out the entries of `right` that are PADDING."""
    lanes[:] = np.float32(0)
    for i in range(left.size):
        if not _is_padding(right[i]):
            lanes[i % LANES] += left[i] * right[i]
    return add_lanes(lanes)
