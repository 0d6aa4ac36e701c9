"""The micro-kernels in plain loops, with and without products of PADDING.

The module micro_kernels beside it has their formulas. The plain ones serve computers without wide
vectors or fused multiply-add.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.loops import compiled
from opserve_kernels.sums import is_padding

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Six = tuple[int, int, int, int, int, int]
Seven = tuple[int, int, int, int, int, int, int]


@compiled("int64(int64)")
def _whole(rows: int) -> int:
    """Rows that the generated micro-kernels compute."""
    whole = TILE_ROWS
    # The same rounding as host.whole_rows: callers rely on which rows are written.
    while whole > TILE_ROWS // 4 and whole // 2 >= rows:
        whole //= 2
    return whole


@compiled("void(float32[::1], UniTuple(int64, 6), int64, int64)")
def multiply_packed(memory: Floats, numbers: Six, rows: int, vectors: int) -> None:
    """Plain loops."""
    depth, left, right, total, pitch, adds = numbers
    columns = vectors * LANES
    # Rows are outermost, so that the innermost loop runs over contiguous columns: LLVM turns it
    # into vectors of any width.
    for row in range(_whole(rows)):
        target = memory[total + row * pitch :][:columns]
        if not adds:
            target[:] = np.float32(0)
        for k in range(depth):
            factor = memory[left + k * TILE_ROWS + row]
            source = memory[right + k * TILE_COLUMNS :][:columns]
            for column in range(columns):
                target[column] += factor * source[column]


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 7), int64, int64)")
def multiply_flat(memory: Floats, table: Offsets, numbers: Seven, rows: int, vectors: int) -> None:
    """Plain loops."""
    depth, left, right, offsets, total, pitch, adds = numbers
    columns = vectors * LANES
    for row in range(_whole(rows)):
        target = memory[total + row * pitch :][:columns]
        if not adds:
            target[:] = np.float32(0)
        for k in range(depth):
            factor = memory[left + k * TILE_ROWS + row]
            source = memory[right + int(table[offsets + k]) :][:columns]
            for column in range(columns):
                target[column] += factor * source[column]


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 6), int64, int64)")
def add_dots(memory: Floats, table: Offsets, numbers: Six, rows: int, columns: int) -> None:
    """Plain loops, with two partial sums a dot."""
    count, left, left_pitch, right, offsets, total = numbers
    for row in range(_whole(rows)):
        for column in range(columns):
            start = right + int(table[offsets + column])
            # `count` is even: a multiple of LANES. Two sums halve the chain of dependent additions.
            even, odd = np.float32(0), np.float32(0)
            for i in range(0, count, 2):
                even += memory[left + row * left_pitch + i] * memory[start + i]
                odd += memory[left + row * left_pitch + i + 1] * memory[start + i + 1]
            memory[total + column * TILE_ROWS + row] += even + odd


@compiled("void(float32[::1], UniTuple(int64, 6), int64, int64)")
def multiply_packed_skip_padding(memory: Floats, numbers: Six, rows: int, vectors: int) -> None:
    """Plain loops that skip padding in the right operand."""
    depth, left, right, total, pitch, adds = numbers
    columns = vectors * LANES
    for row in range(_whole(rows)):
        target = memory[total + row * pitch :][:columns]
        if not adds:
            target[:] = np.float32(0)
        for k in range(depth):
            factor = memory[left + k * TILE_ROWS + row]
            source = memory[right + k * TILE_COLUMNS :][:columns]
            for column in range(columns):
                value = source[column]
                target[column] += np.float32(0) if is_padding(value) else factor * value


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 7), int64, int64)")
def multiply_flat_skip_padding(
    memory: Floats, table: Offsets, numbers: Seven, rows: int, vectors: int
) -> None:
    """Plain loops that skip padding in the right operand."""
    depth, left, right, offsets, total, pitch, adds = numbers
    columns = vectors * LANES
    for row in range(_whole(rows)):
        target = memory[total + row * pitch :][:columns]
        if not adds:
            target[:] = np.float32(0)
        for k in range(depth):
            factor = memory[left + k * TILE_ROWS + row]
            source = memory[right + int(table[offsets + k]) :][:columns]
            for column in range(columns):
                value = source[column]
                target[column] += np.float32(0) if is_padding(value) else factor * value
