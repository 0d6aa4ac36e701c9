"""Conversions between float32, float64 and the narrower number formats, bit by bit.

To nearest; ties go to even, in HF32 away from zero. Subnormals are kept, a NaN stays a NaN, and
values beyond the range become infinite, except for FLOAT16_SATURATED. The vendor does not document
which devices saturate, nor how HF32 breaks ties: both are unverified (opserve_kernels.profiles).
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.host import VARIANT
from opserve_kernels.half_instructions import narrowed, widened
from opserve_kernels.loops import compiled
from opserve_kernels.number_formats import (
    BF16,
    BF16_TO_FLOAT16_SATURATED,
    FLOAT16,
    FLOAT16_SATURATED,
    HF32,
    HF32_10_BITS,
)

HF32_DROPPED_BITS = 12  # of float32's 23 mantissa bits
HF32_10_DROPPED_BITS = 13
_INFINITY = np.uint32(0x7F800000)
_QUIET = np.uint32(0x00400000)
_SIGN = np.uint32(0x80000000)
_HALF_INFINITY = np.uint32(0x7C00 << 13)  # in the place of a float32's exponent and mantissa
_HALF_REBIAS = np.float32(2.0**112)  # 2**(127 - 15), the distance of the exponents' biases
_HALF_OVERFLOW = np.uint32(0x477FF000)  # 65520.0, the smallest value that rounds to infinity
_HALF_SMALLEST_NORMAL = np.uint32(0x38800000)  # 2**-14
_HALF_SUBNORMAL_STEP = np.float32(0.5)  # adding it leaves a multiple of 2**-24 in the low bits


@compiled("float32(uint32)")
def float_of(bits: np.uint32) -> np.float32:
    """The float32 with these bits."""
    return np.uint32(bits).view(np.float32)


@compiled("uint32(float32)")
def bits_of(value: np.float32) -> np.uint32:
    """The bits of a float32."""
    return np.float32(value).view(np.uint32)


@compiled("float32(uint16)")
def _plain_from_half(half: np.uint16) -> np.float32:
    # The exponent and mantissa move to float32's place; a product with a power of two corrects the
    # bias, also of subnormals, exactly.
    wide = np.uint32(half)
    magnitude = np.uint32((wide & np.uint32(0x7FFF)) << np.uint32(13))
    sign = np.uint32((wide & np.uint32(0x8000)) << np.uint32(16))
    finite = bits_of(float_of(magnitude) * _HALF_REBIAS)
    result = np.uint32(magnitude | _INFINITY) if magnitude >= _HALF_INFINITY else finite
    return float_of(np.uint32(result | sign))


@compiled("uint16(float32)")
def _plain_to_half(value: np.float32) -> np.uint16:
    bits = bits_of(value)
    magnitude = np.uint32(bits & ~_SIGN)
    sign = np.uint32((bits & _SIGN) >> np.uint32(16))
    # Adding half a step less one, and the last kept bit, rounds to nearest with ties to even.
    odd = np.uint32((magnitude >> np.uint32(13)) & np.uint32(1))
    rebased = np.uint32(magnitude - np.uint32(112 << 23))
    normal = np.uint32((rebased + np.uint32(0xFFF) + odd) >> np.uint32(13))
    # Below the normal range, the float32 addition itself rounds to a multiple of 2**-24.
    shifted = bits_of(float_of(magnitude) + _HALF_SUBNORMAL_STEP)
    subnormal = np.uint32(shifted - bits_of(_HALF_SUBNORMAL_STEP))
    result = subnormal if magnitude < _HALF_SMALLEST_NORMAL else normal
    result = np.uint32(0x7C00) if magnitude >= _HALF_OVERFLOW else result
    result = np.uint32(0x7E00) if magnitude > _INFINITY else result
    return np.uint16(result | sign)


@compiled("float32(uint16)")
def _from_half(half: np.uint16) -> np.float32:
    return np.float32(widened(half))


@compiled("uint16(float32)")
def _to_half(value: np.float32) -> np.uint16:
    return np.uint16(narrowed(value))


from_half = _plain_from_half if VARIANT.plain else _from_half
"""FLOAT16 to float32, exact."""

to_half = _plain_to_half if VARIANT.plain else _to_half
"""Float32 to FLOAT16."""


@compiled("float32(uint16)")
def from_bfloat(bfloat: np.uint16) -> np.float32:
    """BF16 to float32, exact."""
    return float_of(np.uint32(np.uint32(bfloat) << np.uint32(16)))


@compiled("uint16(float32)")
def to_bfloat(value: np.float32) -> np.uint16:
    """Float32 to BF16."""
    bits = bits_of(value)
    odd = np.uint32((bits >> np.uint32(16)) & np.uint32(1))
    nearest = np.uint32((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))
    not_a_number = np.uint32((bits | _QUIET) >> np.uint32(16))
    return np.uint16(not_a_number if np.uint32(bits & ~_SIGN) > _INFINITY else nearest)


@compiled("uint16(float32)")
def to_half_saturated(value: np.float32) -> np.uint16:
    """Float32 to FLOAT16; the greatest value replaces everything beyond it, infinity too."""
    half = to_half(value)
    infinite = np.uint16(half & np.uint16(0x7FFF)) == np.uint16(0x7C00)
    return np.uint16(half - np.uint16(1)) if infinite else half


@compiled("float32(float64)")
def to_odd_float(value: np.float64) -> np.float32:
    """Float64 to float32, rounding inexact values to the neighbour whose last bit is 1.

    Rounding the result again, to at most 22 digits, gives the same as rounding the value once.
    Rounding to nearest first does not.
    """
    nearest = np.float32(value)
    wide = np.float64(nearest)
    bits = bits_of(nearest)
    if wide == value or value != value or (bits & np.uint32(1)) != 0:  # noqa: PLR0124  # a NaN
        return nearest
    inward = abs(wide) > abs(value)
    return float_of(np.uint32(bits - np.uint32(1)) if inward else np.uint32(bits + np.uint32(1)))


@compiled("float32(float32, int64)")
def round_to_hf32(value: np.float32, dropped: int) -> np.float32:
    """A float32 without its last mantissa bits: nearest, ties away from zero.

    Args:
        value: Infinities and NaNs stay as they are.
        dropped: Mantissa bits of float32's 23 that HF32 does not have.
    """
    bits = bits_of(value)
    half_step = np.uint32(1) << np.uint32(dropped - 1)
    kept = ~np.uint32((half_step << np.uint32(1)) - np.uint32(1))
    nearest = np.uint32((bits + half_step) & kept)
    return float_of(bits if np.uint32(bits & _INFINITY) == _INFINITY else nearest)


@compiled("void(float32[::1], int64)")
def _round_all_to_hf32(values: NDArray[np.float32], dropped: int) -> None:
    for i in range(values.size):
        values[i] = round_to_hf32(values[i], dropped)


@compiled("void(float32[::1], int64)")
def round_all(  # noqa: C901  # one loop for each format
    values: NDArray[np.float32], number_format: int
) -> None:
    """Rounds every value, in place, to a number format; FLOAT changes nothing."""
    if number_format == FLOAT16:
        for i in range(values.size):
            values[i] = from_half(to_half(values[i]))
    elif number_format == FLOAT16_SATURATED:
        for i in range(values.size):
            values[i] = from_half(to_half_saturated(values[i]))
    elif number_format == BF16:
        for i in range(values.size):
            values[i] = from_bfloat(to_bfloat(values[i]))
    elif number_format == BF16_TO_FLOAT16_SATURATED:
        for i in range(values.size):
            values[i] = from_half(to_half_saturated(from_bfloat(to_bfloat(values[i]))))
    elif number_format == HF32:
        _round_all_to_hf32(values, HF32_DROPPED_BITS)
    elif number_format == HF32_10_BITS:
        _round_all_to_hf32(values, HF32_10_DROPPED_BITS)
