"""Rounding as the cube and the conversions do it, in NumPy, from float64 and in one step."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.tensor import DataType

Doubles = NDArray[np.float64]

DIGITS = {DataType.FLOAT: 24, DataType.FLOAT16: 11, DataType.BF16: 8}  # of the significand
LEAST_STEPS = {DataType.FLOAT: -149, DataType.FLOAT16: -24, DataType.BF16: -133}  # powers of two
GREATEST = {
    DataType.FLOAT: 2.0**128 - 2.0**104,
    DataType.FLOAT16: 65504.0,
    DataType.BF16: 2.0**128 - 2.0**120,
}


def round_to(values: Doubles, dtype: DataType) -> Doubles:
    """To the nearest value of a dtype, ties to even; beyond the greatest, infinite."""
    if dtype == DataType.DOUBLE:
        return values
    _, exponent = np.frexp(values)
    step = np.maximum(exponent - DIGITS[dtype], LEAST_STEPS[dtype])
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.ldexp(np.rint(np.ldexp(values, -step)), step)
        beyond = np.abs(rounded) > GREATEST[dtype]
        return np.where(beyond, np.copysign(np.inf, values), rounded)


def round_to_half(values: Doubles) -> Doubles:
    """To FLOAT16: nearest, ties to even."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


def saturate(values: Doubles) -> Doubles:
    """Within FLOAT16's range; a NaN stays a NaN."""
    return np.clip(values, -GREATEST[DataType.FLOAT16], GREATEST[DataType.FLOAT16])


def round_to_hf32(values: Doubles, *, mantissa_bits: int = 11) -> Doubles:
    """To fewer mantissa bits: nearest, ties away from zero; values are float32's normal numbers.

    Args:
        values: float32 values in float64.
        mantissa_bits: After the point: 11, or 10 where the device keeps fewer.
    """
    fraction, exponent = np.frexp(values)
    digits = np.floor(np.ldexp(np.abs(fraction), mantissa_bits + 1) + 0.5)
    rounded = np.copysign(np.ldexp(digits, exponent - mantissa_bits - 1), values)
    return np.where(np.isfinite(values), rounded, values)
