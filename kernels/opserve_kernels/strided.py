"""Elements between strided tensors of any dtype and contiguous float32.

Loops run over slices that begin at 0: LLVM turns those into vector instructions.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled, inlined
from opserve_kernels.number_formats import BF16, FLOAT, FLOAT16
from opserve_kernels.precision import from_bfloat, from_half, round_all, to_bfloat, to_half
from opserve_kernels.views import LAST_AXIS, View

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]

_ZERO = np.float32(0)  # -0 + 0 is 0


@compiled()
def position_of(view: View, index: int) -> int:
    """Place in its buffer of element `index` of a view, in row-major order."""
    position = view.offset
    for axis in range(LAST_AXIS, -1, -1):
        # The outer axes of the first elements are all at 0: no more divisions are needed.
        if index == 0:
            break
        size = view.sizes[axis]
        position += index % size * view.steps[axis]
        index //= size
    return position


@compiled("void(int64, float32[::1], uint16[::1], int64, float32[::1])")
def _load_run(dtype: int, floats: Floats, halves: Halves, start: int, target: Floats) -> None:
    if dtype == FLOAT:
        run = floats[start : start + target.size]
        for i in range(target.size):
            target[i] = run[i] + _ZERO
        return
    patterns = halves[start : start + target.size]
    if dtype == FLOAT16:
        for i in range(target.size):
            target[i] = from_half(patterns[i]) + _ZERO
    elif dtype == BF16:
        for i in range(target.size):
            target[i] = from_bfloat(patterns[i]) + _ZERO


@compiled("void(int64, float32[::1], uint16[::1], int64, int64, float32[::1])")
def _load_steps(
    dtype: int, floats: Floats, halves: Halves, start: int, step: int, target: Floats
) -> None:
    if dtype == FLOAT:
        values = floats[start:]
        for i in range(target.size):
            target[i] = values[i * step] + _ZERO
        return
    patterns = halves[start:]
    if dtype == FLOAT16:
        for i in range(target.size):
            target[i] = from_half(patterns[i * step]) + _ZERO
    elif dtype == BF16:
        for i in range(target.size):
            target[i] = from_bfloat(patterns[i * step]) + _ZERO


@compiled()
def load(
    floats: Floats,
    halves: Halves,
    view: View,
    number_format: int,
    first: int,
    target: Floats,
) -> None:
    """target[i] = element first + i of the view, rounded to a number format; a -0 becomes 0.

    Args:
        floats: The buffer as float32 values.
        halves: The same buffer as 16-bit patterns.
        view: See opserve_kernels.views.
        number_format: See opserve_kernels.number_formats.
        first: Row-major index of the first element.
        target: Filled whole.
    """
    dtype, width, step = view.element_type, view.sizes[LAST_AXIS], view.steps[LAST_AXIS]
    done = 0
    while done < target.size:
        run = min(width - (first + done) % width, target.size - done)
        start = position_of(view, first + done)
        if step == 1 or run == 1:
            _load_run(dtype, floats, halves, start, target[done : done + run])
        else:
            _load_steps(dtype, floats, halves, start, step, target[done : done + run])
        done += run
    if number_format != dtype:
        round_all(target, number_format)
        for i in range(target.size):  # a negative number may round to -0
            target[i] += _ZERO


@compiled("void(float32[::1], int64, int64, float32[::1], uint16[::1])")
def _store_run(source: Floats, dtype: int, start: int, floats: Floats, halves: Halves) -> None:
    if dtype == FLOAT:
        run = floats[start : start + source.size]
        for i in range(source.size):
            run[i] = source[i]
        return
    patterns = halves[start : start + source.size]
    if dtype == FLOAT16:
        for i in range(source.size):
            patterns[i] = to_half(source[i])
    elif dtype == BF16:
        for i in range(source.size):
            patterns[i] = to_bfloat(source[i])


@compiled("void(float32[::1], int64, int64, int64, float32[::1], uint16[::1])")
def _store_steps(
    source: Floats, dtype: int, start: int, step: int, floats: Floats, halves: Halves
) -> None:
    if dtype == FLOAT:
        values = floats[start:]
        for i in range(source.size):
            values[i * step] = source[i]
        return
    patterns = halves[start:]
    if dtype == FLOAT16:
        for i in range(source.size):
            patterns[i * step] = to_half(source[i])
    elif dtype == BF16:
        for i in range(source.size):
            patterns[i * step] = to_bfloat(source[i])


@compiled()
def store(
    source: Floats,
    number_format: int,
    view: View,
    first: int,
    floats: Floats,
    halves: Halves,
) -> None:
    """Element first + i of the view = source[i], rounded to a number format and then to its dtype.

    Arguments are as for load; the source is rounded in its own memory.
    """
    dtype, width, step = view.element_type, view.sizes[LAST_AXIS], view.steps[LAST_AXIS]
    if number_format != dtype:
        round_all(source, number_format)
    done = 0
    while done < source.size:
        run = min(width - (first + done) % width, source.size - done)
        start = position_of(view, first + done)
        if step == 1 or run == 1:
            _store_run(source[done : done + run], dtype, start, floats, halves)
        else:
            _store_steps(source[done : done + run], dtype, start, step, floats, halves)
        done += run


@inlined
def as_floats(buffer: NDArray[np.uint8]) -> Floats:
    """A buffer's whole float32 values."""
    return buffer[: buffer.size // 4 * 4].view(np.float32)


@inlined
def as_halves(buffer: NDArray[np.uint8]) -> Halves:
    """A buffer's whole 16-bit patterns."""
    return buffer[: buffer.size // 2 * 2].view(np.uint16)
