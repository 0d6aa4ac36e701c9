"""Rounding of operands as the cube does it, in NumPy."""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_HF32_DIGITS = 12  # binary digits of the significand: one before the point, 11 after it


def round_to_half(values: Doubles) -> Doubles:
    """To FLOAT16: nearest, ties to even."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


def round_to_hf32(values: Doubles) -> Doubles:
    """To 11 mantissa bits: nearest, ties away from zero; values are float32's normal numbers."""
    fraction, exponent = np.frexp(values)
    digits = np.floor(np.ldexp(np.abs(fraction), _HF32_DIGITS) + 0.5)
    rounded = np.copysign(np.ldexp(digits, exponent - _HF32_DIGITS), values)
    return np.where(np.isfinite(values), rounded, values)
