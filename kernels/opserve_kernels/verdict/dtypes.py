"""Dtypes of outputs: their limits, rounding to them, and distances in their units."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Given = NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    """A binary floating-point dtype with infinities.

    Attributes:
        name: NumPy's name.
        digits: Bits of the significand, with the hidden one.
        least_exponent: Exponent of the smallest subnormal number, a power of two.
        greatest: The largest finite number.
        bits: The unsigned integer of its width.
    """

    name: str
    digits: int
    least_exponent: int
    greatest: float
    bits: type[np.unsignedinteger]

    @property
    def unit(self) -> float:
        """The greatest relative error of rounding to nearest."""
        return 2.0**-self.digits

    @property
    def half_step(self) -> float:
        """The greatest absolute error of rounding a subnormal number; 0 if no float64 equals it."""
        return float(np.ldexp(1.0, self.least_exponent - 1))

    @property
    def overflow(self) -> float:
        """The smallest magnitude that rounds to infinity; infinite for float64, which has none."""
        exponent = int(np.frexp(self.greatest)[1])
        return self.greatest + float(np.ldexp(1.0, exponent - self.digits - 1))


DTYPES = {
    "float64": Dtype(
        name="float64",
        digits=53,
        least_exponent=-1074,
        greatest=float(np.finfo(np.float64).max),
        bits=np.uint64,
    ),
    "float32": Dtype(
        name="float32",
        digits=24,
        least_exponent=-149,
        greatest=2.0**128 - 2.0**104,
        bits=np.uint32,
    ),
    "float16": Dtype(
        name="float16", digits=11, least_exponent=-24, greatest=65504.0, bits=np.uint16
    ),
    "bfloat16": Dtype(
        name="bfloat16",
        digits=8,
        least_exponent=-133,
        greatest=2.0**128 - 2.0**120,
        bits=np.uint16,
    ),
}


def rounded(values: Doubles, dtype: Dtype) -> Given:
    """Rounds to the nearest value of a dtype, once, ties to even; infinite beyond the range."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype.name == "bfloat16":
            return _to_odd(values).astype(ml_dtypes.bfloat16)
        return values.astype(dtype.name)


def widened(values: Given) -> Doubles:
    """Converts to float64; a signalling NaN raises no warning."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def ulps(first: Given, second: Given, dtype: Dtype) -> Doubles:
    """Values of a dtype from one number to another; -0 equals +0, NaN is infinitely far."""
    (one, one_negative), (two, two_negative) = _places(first, dtype), _places(second, dtype)
    along = np.abs(one - two).astype(np.float64)
    across = one.astype(np.float64) + two  # of float64 too many for an int64
    apart = np.where(one_negative == two_negative, along, across)
    strange = np.isnan(widened(first)) | np.isnan(widened(second))
    return np.where(strange, np.inf, apart)


def _to_odd(values: Doubles) -> NDArray[np.float32]:
    """Rounds to float32 with an odd last bit if inexact, so that another rounding adds no error."""
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    bits = nearest.view(np.uint32)
    inexact = (back != values) & ~np.isnan(values)
    towards_zero = bits - (inexact & (np.abs(back) > np.abs(values)))
    odd = np.where(inexact, towards_zero | 1, bits).astype(np.uint32)
    return odd.view(np.float32)


def _places(values: Given, dtype: Dtype) -> tuple[NDArray[np.int64], NDArray[np.bool]]:
    """Number of values of a dtype between 0 and each number, and which numbers are negative."""
    sign = dtype.bits(1 << (np.dtype(dtype.bits).itemsize * 8 - 1))
    bits = np.ascontiguousarray(values).view(dtype.bits)
    return (bits & ~sign).astype(np.int64), bits >= sign
