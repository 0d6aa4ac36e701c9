"""Elements between strided tensors of any dtype and contiguous float64, for `reference`."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled
from opserve_kernels.number_formats import (
    BF16,
    DOUBLE,
    FLOAT,
    FLOAT16,
    FLOAT16_SATURATED,
    HF32,
    HF32_10_BITS,
)
from opserve_kernels.precision import (
    HF32_10_DROPPED_BITS,
    HF32_DROPPED_BITS,
    from_bfloat,
    from_half,
    round_to_hf32,
    to_bfloat,
    to_half,
    to_half_saturated,
    to_odd_float,
)
from opserve_kernels.views import LAST_AXIS, View

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]
Elements = tuple[Doubles, Floats, Halves]
"""A buffer by the width of its elements: 8, 4 and 2 bytes."""
ELEMENTS = "Tuple((float64[::1], float32[::1], uint16[::1]))"  # in a loop's signature


def elements_of(buffer: NDArray[np.uint8]) -> Elements:
    """A buffer's whole elements of each width."""
    return (
        buffer[: buffer.size // 8 * 8].view(np.float64),
        buffer[: buffer.size // 4 * 4].view(np.float32),
        buffer[: buffer.size // 2 * 2].view(np.uint16),
    )


@compiled()
def _line_at(view: View, index: int) -> tuple[int, int, int]:
    """Place of a view's element in its buffer, and the rest of its line.

    Returns:
        The place, the distance of the elements that follow, and their number with this one.
    """
    place, step, count = view.offset, 0, 0
    # From the innermost axis out. The first axis longer than 1 has the line; axes of size 1 are
    # skipped, for divisions take most of the time.
    rest = index
    for axis in range(LAST_AXIS, -1, -1):
        size = view.sizes[axis]
        if size > 1:  # divisions take most of the time
            position = rest % size
            place += position * view.steps[axis]
            rest //= size
            if count == 0:
                step, count = view.steps[axis], size - position
    return place, step, max(count, 1)


@compiled(f"float64({ELEMENTS}, int64, int64)")
def _value_at(elements: Elements, dtype: int, place: int) -> np.float64:
    """The element at a place of a buffer in float64, exact."""
    doubles, floats, halves = elements
    if dtype == DOUBLE:
        return np.float64(doubles[place])
    if dtype == FLOAT16:
        return np.float64(from_half(halves[place]))
    if dtype == BF16:
        return np.float64(from_bfloat(halves[place]))
    return np.float64(floats[place])


@compiled()
def value_of(elements: Elements, view: View, index: int) -> np.float64:
    """Element `index` of a view in float64, exact; arguments as for load."""
    place, _, _ = _line_at(view, index)
    return _value_at(elements, view.element_type, place)


@compiled("float64(float64, int64)")
def _rounded(value: np.float64, number_format: int) -> np.float64:
    """The value in an operand's number format; FLOAT and DOUBLE leave it as it is."""
    if number_format in (FLOAT, DOUBLE):
        return value
    # An operand is rounded once: through float32 with an odd last bit, which a second rounding to
    # fewer digits corrects (precision.to_odd_float).
    odd = to_odd_float(value)
    if number_format == FLOAT16:
        value = np.float64(from_half(to_half(odd)))
    elif number_format == FLOAT16_SATURATED:
        value = np.float64(from_half(to_half_saturated(odd)))
    elif number_format == BF16:
        value = np.float64(from_bfloat(to_bfloat(odd)))
    elif number_format == HF32:
        value = np.float64(round_to_hf32(odd, HF32_DROPPED_BITS))
    elif number_format == HF32_10_BITS:
        value = np.float64(round_to_hf32(odd, HF32_10_DROPPED_BITS))
    return value


@compiled()
def load(elements: Elements, view: View, number_format: int, first: int, target: Doubles) -> None:
    """target[i] = element first + i of the view, rounded to a number format.

    Args:
        elements: The buffer.
        view: See opserve_kernels.views.
        number_format: See opserve_kernels.number_formats.
        first: Row-major index of the first element.
        target: Filled whole.
    """
    begin = 0
    while begin < target.size:
        place, step, count = _line_at(view, first + begin)
        line = target[begin : begin + count]
        for i in range(line.size):
            value = _value_at(elements, view.element_type, place + i * step)
            line[i] = _rounded(value, number_format)
        begin += count


@compiled(f"void(float64, int64, {ELEMENTS}, int64, int64)")
def _put(value: np.float64, number_format: int, elements: Elements, dtype: int, place: int) -> None:
    """Writes a value to a place of a buffer, rounded once to its dtype."""
    doubles, floats, halves = elements
    if dtype == DOUBLE:
        doubles[place] = value
    elif dtype == FLOAT:
        floats[place] = np.float32(value)
    elif dtype == BF16:
        halves[place] = to_bfloat(to_odd_float(value))
    elif dtype == FLOAT16 and number_format == FLOAT16_SATURATED:
        halves[place] = to_half_saturated(to_odd_float(value))
    elif dtype == FLOAT16:
        halves[place] = to_half(to_odd_float(value))


@compiled()
def store(source: Doubles, number_format: int, view: View, first: int, elements: Elements) -> None:
    """Element first + i of the view = source[i], rounded once, to the view's dtype.

    Only FLOAT16_SATURATED makes a difference among the number formats, for a view of FLOAT16.
    """
    begin = 0
    while begin < source.size:
        place, step, count = _line_at(view, first + begin)
        line = source[begin : begin + count]
        for i in range(line.size):
            _put(line[i], number_format, elements, view.element_type, place + i * step)
        begin += count
