"""Rounding to a dtype in one step, against exact arithmetic; distances in its values."""

from fractions import Fraction
from math import frexp

import numpy as np
import pytest
from numpy.typing import NDArray

from opserve_kernels.verdict.dtypes import DTYPES, Dtype, rounded, ulps

NARROW = [DTYPES[name] for name in ("float32", "float16", "bfloat16")]
every_dtype = pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.name)


def nearest(value: Fraction, dtype: Dtype) -> float:
    """The value of a dtype next to a rational one, ties to even, worked out with integers."""
    size = abs(value)
    exponent = max(frexp(float(size))[1] - dtype.digits, dtype.least_exponent)
    steps = size / Fraction(2) ** exponent
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    result = whole * Fraction(2) ** exponent
    found = float("inf") if result > Fraction(dtype.greatest) else float(result)
    return -found if value < 0 else found


def difficult(dtype: Dtype, seed: int) -> NDArray[np.float64]:
    """Midpoints of a dtype, their neighbours on either side, and the ends of its range."""
    random = np.random.default_rng(seed)
    sides = random.integers(0, 1 << (dtype.digits - 1), 300) + (1 << (dtype.digits - 1))
    least = dtype.least_exponent
    most = int(np.frexp(dtype.greatest)[1]) - dtype.digits
    exponents = random.integers(least, most + 1, 300)
    exponents[:60], exponents[60:90] = least, most
    sides[:40] = random.integers(0, 20, 40)
    middles = np.ldexp(sides + 0.5, exponents)
    ends = np.array([dtype.greatest, dtype.overflow, np.ldexp(1.0, least - 1)])
    places = np.concatenate([middles, ends])
    around = [np.nextafter(places, 0), places, np.nextafter(places, np.inf), places * (1 + 2e-9)]
    return np.concatenate([*around, *(-side for side in around)])


@every_dtype
def test_rounding_is_one_step_to_nearest_even(dtype: Dtype) -> None:
    values = difficult(dtype, seed=1)
    expected = [nearest(Fraction(float(value)), dtype) for value in values]
    np.testing.assert_array_equal(rounded(values, dtype).astype(np.float64), expected)


@every_dtype
def test_nan_and_infinities_survive_rounding(dtype: Dtype) -> None:
    given = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300])
    expected = [np.nan, np.inf, -np.inf, np.inf, -np.inf]
    np.testing.assert_array_equal(rounded(given, dtype).astype(np.float64), expected)


@every_dtype
def test_limits_are_those_of_the_bits(dtype: Dtype) -> None:
    one, infinity = (int(np.array(v, dtype.name).view(dtype.bits)) for v in (1.0, np.inf))
    bits = np.array([infinity - 1, one + 1, 1]).astype(dtype.bits)
    greatest, next_to_one, smallest = bits.view(dtype.name).astype(np.float64).tolist()
    assert dtype.greatest == greatest
    assert dtype.unit == (next_to_one - 1) / 2
    assert dtype.half_step == smallest / 2


@pytest.mark.parametrize("name", DTYPES)
def test_values_are_counted_across_zero(name: str) -> None:
    dtype = DTYPES[name]
    step = np.ldexp(1.0, dtype.least_exponent)
    first = np.array([step, 0.0, 1.0, np.nan]).astype(name)
    second = np.array([-step, -0.0, 1.0 + 2 * dtype.unit, 1.0]).astype(name)
    assert ulps(first, second, dtype).tolist() == [2, 0, 1, np.inf]
