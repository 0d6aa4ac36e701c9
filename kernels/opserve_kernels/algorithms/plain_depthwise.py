"""The depthwise row kernels in plain loops, and without products of PADDING.

opserve_kernels.algorithms.depthwise_tiles says what each computes. The careful ones serve operands
that are infinite or not a number: padding is a zero, but its product with such a value is none.
"""

from math import copysign

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Six = tuple[int, int, int, int, int, int]


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 6))")
def weigh(memory: Floats, table: Offsets, numbers: Six) -> None:
    """target[i] = sum over k < depth of weights[k] * source[offsets[k] + i], i < count."""
    depth, weights, offsets, source, target, count = numbers
    total = memory[target : target + count]
    total[:] = np.float32(0)
    for k in range(depth):
        weight, start = memory[weights + k], source + table[offsets + k]
        row = memory[start : start + count]
        for i in range(count):
            total[i] += weight * row[i]


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 6))")
def compare(memory: Floats, table: Offsets, numbers: Six) -> None:
    """totals[k] = sum over i < count of left[i] * source[offsets[k] + i], k < taps."""
    taps, left, offsets, source, totals, count = numbers
    for k in range(taps):
        start = source + table[offsets + k]
        total = np.float32(0)
        for i in range(count):
            total += memory[left + i] * memory[start + i]
        memory[totals + k] = total


@compiled("boolean(float32)")
def _is_padding(value: np.float32) -> bool:
    return bool(value == 0 and copysign(1.0, value) < 0)


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 6))")
def weigh_carefully(memory: Floats, table: Offsets, numbers: Six) -> None:
    """As weigh, without padding in the source."""
    depth, weights, offsets, source, target, count = numbers
    for i in range(count):
        total = np.float32(0)
        for k in range(depth):
            value = np.float32(memory[source + table[offsets + k] + i])
            if not _is_padding(value):
                total += memory[weights + k] * value
        memory[target + i] = total


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 6))")
def compare_carefully(memory: Floats, table: Offsets, numbers: Six) -> None:
    """As compare, without padding on either side."""
    taps, left, offsets, source, totals, count = numbers
    for k in range(taps):
        start = source + table[offsets + k]
        total = np.float32(0)
        for i in range(count):
            factor, value = np.float32(memory[left + i]), np.float32(memory[start + i])
            if not (_is_padding(factor) or _is_padding(value)):
                total += factor * value
        memory[totals + k] = total
