"""The depthwise row kernels in plain loops, with and without products of PADDING.

opserve_kernels.algorithms.depthwise.tiles has the formulas. The variants without padding serve
operands with infinities or NaNs: padding is a zero, but its product with such a value is not.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.host import SUM_LANES
from opserve_kernels.loops import compiled
from opserve_kernels.sums import add_lanes, is_padding

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


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 6))")
def weigh_skip_padding(memory: Floats, table: Offsets, numbers: Six) -> None:
    """As weigh, but skips padding in the source."""
    depth, weights, offsets, source, target, count = numbers
    total = memory[target : target + count]
    total[:] = np.float32(0)
    for k in range(depth):
        weight, start = memory[weights + k], source + table[offsets + k]
        row = memory[start : start + count]
        for i in range(count):
            total[i] += np.float32(0) if is_padding(row[i]) else weight * row[i]


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 6))")
def compare_skip_padding(memory: Floats, table: Offsets, numbers: Six) -> None:
    """As compare, but skips padding on either side; needs SUM_LANES values behind the totals."""
    taps, left, offsets, source, totals, count = numbers
    factors, lanes = memory[left : left + count], memory[totals + taps :][:SUM_LANES]
    for k in range(taps):
        start = source + table[offsets + k]
        row = memory[start : start + count]
        lanes[:] = np.float32(0)
        for first in range(0, count, SUM_LANES):
            some, others = factors[first : first + SUM_LANES], row[first : first + SUM_LANES]
            for i in range(some.size):
                is_outside = is_padding(some[i]) or is_padding(others[i])
                lanes[i] += np.float32(0) if is_outside else some[i] * others[i]
        memory[totals + k] = add_lanes(lanes)
