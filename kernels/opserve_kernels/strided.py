"""Elements between strided tensors of any dtype and contiguous float32."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled
from opserve_kernels.number_formats import BF16, FLOAT, FLOAT16
from opserve_kernels.precision import from_bfloat, from_half, to_bfloat, to_half
from opserve_kernels.views import VIEW_RANK

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]

_DTYPE, _OFFSET, _SIZES = 0, 1, 2
_STEPS = _SIZES + VIEW_RANK
_LAST = VIEW_RANK - 1


@compiled("int64(int64[::1], int64)")
def position_of(view: Integers, index: int) -> int:
    """Where element `index` of a view, in row-major order, lies in its buffer."""
    position = view[_OFFSET]
    for axis in range(_LAST, -1, -1):
        size = view[_SIZES + axis]
        position += index % size * view[_STEPS + axis]
        index //= size
    return int(position)


@compiled("void(int64, float32[::1], uint16[::1], int64, int64, float32[::1])")
def _load_run(  # noqa: C901  # one loop for each dtype and step
    dtype: int, floats: Floats, halves: Halves, start: int, step: int, target: Floats
) -> None:
    if dtype == FLOAT and step == 1:
        for i in range(target.size):
            target[i] = floats[start + i]
    elif dtype == FLOAT:
        for i in range(target.size):
            target[i] = floats[start + i * step]
    elif dtype == FLOAT16 and step == 1:
        for i in range(target.size):
            target[i] = from_half(halves[start + i])
    elif dtype == FLOAT16:
        for i in range(target.size):
            target[i] = from_half(halves[start + i * step])
    elif dtype == BF16:
        for i in range(target.size):
            target[i] = from_bfloat(halves[start + i * step])


@compiled("void(float32[::1], uint16[::1], int64[::1], int64, float32[::1])")
def load(floats: Floats, halves: Halves, view: Integers, first: int, target: Floats) -> None:
    """target[i] = element first + i of the view.

    Args:
        floats: The buffer as float32 values.
        halves: The same buffer as 16-bit patterns.
        view: See opserve_kernels.views.
        first: Row-major index of the first element.
        target: Filled whole.
    """
    width, step = view[_SIZES + _LAST], view[_STEPS + _LAST]
    done = 0
    while done < target.size:
        run = min(width - (first + done) % width, target.size - done)
        start = position_of(view, first + done)
        _load_run(view[_DTYPE], floats, halves, start, step, target[done : done + run])
        done += run


@compiled("void(float32[::1], int64, int64, int64, float32[::1], uint16[::1])")
def _store_run(
    source: Floats, dtype: int, start: int, step: int, floats: Floats, halves: Halves
) -> None:
    if dtype == FLOAT:
        for i in range(source.size):
            floats[start + i * step] = source[i]
    elif dtype == FLOAT16:
        for i in range(source.size):
            halves[start + i * step] = to_half(source[i])
    elif dtype == BF16:
        for i in range(source.size):
            halves[start + i * step] = to_bfloat(source[i])


@compiled("void(float32[::1], int64[::1], int64, float32[::1], uint16[::1])")
def store(source: Floats, view: Integers, first: int, floats: Floats, halves: Halves) -> None:
    """Element first + i of the view = source[i] in the view's dtype; arguments as for load."""
    width, step = view[_SIZES + _LAST], view[_STEPS + _LAST]
    done = 0
    while done < source.size:
        run = min(width - (first + done) % width, source.size - done)
        start = position_of(view, first + done)
        _store_run(source[done : done + run], view[_DTYPE], start, step, floats, halves)
        done += run


def as_floats(buffer: NDArray[np.uint8]) -> Floats:
    """A buffer's whole float32 values."""
    return buffer[: buffer.size // 4 * 4].view(np.float32)


def as_halves(buffer: NDArray[np.uint8]) -> Halves:
    """A buffer's whole 16-bit patterns."""
    return buffer[: buffer.size // 2 * 2].view(np.uint16)
