"""Sums of float32 values and of their products, in float32 and in a fixed order.

PADDING marks entries that belong to no sum. It is a zero, so that finite factors need no special
case. An infinite factor would turn it into NaN, so such factors use the loops that skip padding.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.host import SUM_LANES
from opserve_kernels.loops import compiled
from opserve_kernels.precision import bits_of

Floats = NDArray[np.float32]

PADDING = np.float32(-0.0)  # loaded operands hold none
_PADDING_BITS = np.uint32(0x80000000)
_DOUBLED_INFINITY = np.uint32(0xFF000000)  # its bits without the sign


@compiled("boolean(float32[::1])")
def are_finite(values: Floats) -> bool:
    """Whether no value is infinite or NaN; it checks all of them, which takes vectors."""
    # Shifted left, the sign is gone: infinities and NaNs are the greatest unsigned numbers, so one
    # maximum without a branch finds them.
    greatest = np.uint32(0)
    for i in range(values.size):
        greatest = max(greatest, np.uint32(bits_of(values[i]) << np.uint32(1)))
    return bool(greatest < _DOUBLED_INFINITY)


@compiled("boolean(float32[::1], int64, int64, int64)")
def all_finite(matrix: Floats, pitch: int, rows: int, columns: int) -> bool:
    """Whether no entry is infinite or NaN."""
    finite = True
    for row in range(rows):
        finite &= are_finite(matrix[row * pitch :][:columns])
    return finite


@compiled("void(float32[::1], float32[::1], int64, float32[::1])")
def _add_row(factors: Floats, right: Floats, pitch: int, total: Floats) -> None:
    """Adds to total[j] the sum over k of factors[k] * right[k, j], four products at a time."""
    columns = total.size
    # Four rows of right pass at once, so that each total is loaded and stored once for four
    # products; pairs are added first, which shortens the chain of dependent additions.
    for k in range(0, factors.size - 3, 4):
        a0, a1, a2, a3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        x0 = right[k * pitch :][:columns]
        x1 = right[(k + 1) * pitch :][:columns]
        x2 = right[(k + 2) * pitch :][:columns]
        x3 = right[(k + 3) * pitch :][:columns]
        for j in range(columns):
            total[j] += (a0 * x0[j] + a1 * x1[j]) + (a2 * x2[j] + a3 * x3[j])
    for k in range(factors.size - factors.size % 4, factors.size):
        factor, x0 = factors[k], right[k * pitch :][:columns]
        for j in range(columns):
            total[j] += factor * x0[j]


@compiled("void(float32[::1], float32[::1], float32[::1], int64, float32[::1], float32[::1])")
def _add_two_rows(
    upper: Floats,
    lower: Floats,
    right: Floats,
    pitch: int,
    upper_total: Floats,
    lower_total: Floats,
) -> None:
    """As _add_row for two rows, which share the loads of `right`; the same sums to the bit."""
    columns, whole = upper_total.size, upper.size - upper.size % 4
    for k in range(0, whole, 4):
        a0, a1, a2, a3 = upper[k], upper[k + 1], upper[k + 2], upper[k + 3]
        b0, b1, b2, b3 = lower[k], lower[k + 1], lower[k + 2], lower[k + 3]
        x0 = right[k * pitch :][:columns]
        x1 = right[(k + 1) * pitch :][:columns]
        x2 = right[(k + 2) * pitch :][:columns]
        x3 = right[(k + 3) * pitch :][:columns]
        for j in range(columns):
            upper_total[j] += (a0 * x0[j] + a1 * x1[j]) + (a2 * x2[j] + a3 * x3[j])
            lower_total[j] += (b0 * x0[j] + b1 * x1[j]) + (b2 * x2[j] + b3 * x3[j])
    _add_row(upper[whole:], right[whole * pitch :], pitch, upper_total)
    _add_row(lower[whole:], right[whole * pitch :], pitch, lower_total)


@compiled(
    "void(float32[::1], int64, float32[::1], int64, float32[::1], int64, int64, int64, int64)"
)
def add_product(  # noqa: PLR0913, PLR0917  # arrays and integers
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
    """Adds left (rows x depth) @ right (depth x columns) to total; rows are a pitch apart."""
    for row in range(0, rows - 1, 2):
        upper = left[row * left_pitch :][:depth]
        lower = left[(row + 1) * left_pitch :][:depth]
        upper_total = total[row * total_pitch :][:columns]
        lower_total = total[(row + 1) * total_pitch :][:columns]
        _add_two_rows(upper, lower, right, right_pitch, upper_total, lower_total)
    if rows % 2:
        factors = left[(rows - 1) * left_pitch :][:depth]
        _add_row(factors, right, right_pitch, total[(rows - 1) * total_pitch :][:columns])


@compiled("boolean(float32)")
def is_padding(value: np.float32) -> bool:
    """Whether a value is PADDING, bit by bit."""
    return bool(bits_of(value) == _PADDING_BITS)


@compiled("void(float32[::1], int64, float32[::1], int64, float32[::1], int64, int64, int64)")
def add_product_skip_padding(  # noqa: PLR0913, PLR0917  # arrays and integers
    left: Floats,
    left_pitch: int,
    right: Floats,
    right_pitch: int,
    total: Floats,
    rows: int,
    depth: int,
    columns: int,
) -> None:
    """As add_product for a contiguous total, without the entries of `right` that are PADDING."""
    for row in range(rows):
        target = total[row * columns :][:columns]
        for k in range(depth):
            factor, values = left[row * left_pitch + k], right[k * right_pitch :][:columns]
            for j in range(columns):
                value = values[j]
                target[j] += np.float32(0) if is_padding(value) else factor * value


@compiled("void(float32[::1], float32[::1], int64, int64, int64)")
def add_matrix(matrix: Floats, total: Floats, pitch: int, rows: int, columns: int) -> None:
    """Adds a contiguous matrix (rows x columns) to total, whose rows are a pitch apart."""
    for row in range(rows):
        source, target = matrix[row * columns :][:columns], total[row * pitch :][:columns]
        for column in range(columns):
            target[column] += source[column]


@compiled("float32(float32[::1])")
def add_lanes(lanes: Floats) -> np.float32:
    """Pairwise sum of SUM_LANES values, which are overwritten."""
    width = SUM_LANES // 2
    while width > 0:
        for j in range(width):
            lanes[j] += lanes[j + width]
        width //= 2
    return np.float32(lanes[0])
