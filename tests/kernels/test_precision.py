"""Conversions between number formats, bit by bit."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.oracles.rounding import round_to, round_to_hf32, saturate
from kernels.samples.sample import NUMPY_DTYPES
from opserve_kernels.number_formats import (
    BF16,
    FLOAT,
    FLOAT16,
    FLOAT16_SATURATED,
    HF32,
    HF32_10_BITS,
)
from opserve_kernels.precision import round_all
from opserve_kernels.records import dtype_of, encode
from opserve_kernels.strided import load, store
from opserve_kernels.tensor import DataType, Tensor
from opserve_kernels.views import View, view_of

# On aarch64 NumPy warns of the signalling NaNs among all patterns, on x86-64 it does not.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
both_hf32 = pytest.mark.parametrize(
    ("number_format", "mantissa_bits"), [(HF32, 11), (HF32_10_BITS, 10)]
)
_MINUS_0 = 0x8000  # of either; it is loaded as 0
_NO_FLOATS = np.empty(0, dtype=np.float32)


def _view(dtype: DataType, count: int) -> View:
    tensor = Tensor(shape=(count,), dtype=dtype)
    view: View = np.array(encode(view_of(tensor)), dtype=np.int64).view(dtype_of(View))[0]
    return view


def _widened(patterns: Halves, dtype: DataType) -> Floats:
    target = np.empty(patterns.size, dtype=np.float32)
    load(_NO_FLOATS, patterns, _view(dtype, patterns.size), FLOAT, 0, target)
    return target


def _narrowed(values: Floats, dtype: DataType) -> Halves:
    target = np.empty(values.size, dtype=np.uint16)
    store(values, FLOAT, _view(dtype, values.size), 0, _NO_FLOATS, target)
    return target


def _rounded(values: Floats, number_format: int) -> Floats:
    result = values.copy()
    round_all(result, number_format)
    return result


def _hard_values() -> Floats:
    """Every FLOAT16 and BF16 value, the midpoints between them, and their neighbours."""
    patterns = np.arange(0x10000, dtype=np.uint32)
    exact = np.concatenate(
        [
            patterns.astype(np.uint16).view(np.float16).astype(np.float32),
            (patterns << 16).view(np.float32),
        ]
    )
    bits = exact.view(np.uint32)
    steps = (0, 1, 2, 0x7FF, 0x800, 0x801, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001)
    return np.concatenate([bits + np.uint32(step) for step in steps]).view(np.float32)


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BF16])
def test_every_16_bit_pattern_but_minus_0_widens_as_numpy_widens_it(dtype: DataType) -> None:
    patterns = np.arange(0x10000, dtype=np.uint16)
    wide = _widened(patterns, dtype)
    reference = patterns.view(NUMPY_DTYPES[dtype]).astype(np.float32)
    reference[_MINUS_0] = 0

    numbers = ~np.isnan(reference)
    np.testing.assert_array_equal(wide[numbers].view(np.uint32), reference[numbers].view(np.uint32))
    assert np.all(np.isnan(wide[~numbers]))


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BF16])
def test_every_16_bit_pattern_but_minus_0_survives_a_round_trip(dtype: DataType) -> None:
    patterns = np.arange(0x10000, dtype=np.uint16)
    numbers = ~np.isnan(patterns.view(NUMPY_DTYPES[dtype]).astype(np.float32))

    back = _narrowed(_widened(patterns, dtype), dtype)

    patterns[_MINUS_0] = 0
    np.testing.assert_array_equal(back[numbers], patterns[numbers])
    assert np.all(np.isnan(back[~numbers].view(NUMPY_DTYPES[dtype]).astype(np.float32)))


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BF16])
def test_float32_narrows_to_the_nearest_value_as_numpy_narrows_it(dtype: DataType) -> None:
    generator = np.random.default_rng(20260822)
    drawn = generator.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([_hard_values(), drawn])
    with np.errstate(over="ignore", invalid="ignore"):
        reference = values.astype(NUMPY_DTYPES[dtype])
    numbers = ~np.isnan(values)

    narrow = _narrowed(values, dtype)

    np.testing.assert_array_equal(narrow[numbers], reference.view(np.uint16)[numbers])
    assert np.all(np.isnan(narrow[~numbers].view(NUMPY_DTYPES[dtype]).astype(np.float32)))


@pytest.mark.parametrize(
    ("number_format", "dtype"), [(FLOAT16, np.float16), (BF16, ml_dtypes.bfloat16)]
)
def test_rounding_in_place_is_narrowing_and_widening(number_format: int, dtype: type) -> None:
    values = _hard_values()
    numbers = ~np.isnan(values)
    with np.errstate(over="ignore", invalid="ignore"):
        reference = values.astype(dtype).astype(np.float32)

    rounded = _rounded(values, number_format)

    np.testing.assert_array_equal(rounded[numbers], reference[numbers])
    assert np.all(np.isnan(rounded[~numbers]))


def test_rounding_to_float_changes_no_bit() -> None:
    values = _hard_values()

    np.testing.assert_array_equal(_rounded(values, FLOAT).view(np.uint32), values.view(np.uint32))


def test_saturation_keeps_every_value_within_the_range_of_float16() -> None:
    values = _hard_values()
    numbers = ~np.isnan(values)
    nearest = round_to(values[numbers].astype(np.float64), DataType.FLOAT16)

    rounded = _rounded(values, FLOAT16_SATURATED)

    np.testing.assert_array_equal(rounded[numbers], saturate(nearest))
    assert np.all(np.isnan(rounded[~numbers]))


def test_saturation_begins_where_rounding_would_overflow_and_takes_infinities() -> None:
    values = [65503.9, 65504.0, 65519.99, 65520.0, 1e9, np.inf, -65520.0, -np.inf]

    rounded = _rounded(np.array(values, dtype=np.float32), FLOAT16_SATURATED)

    np.testing.assert_array_equal(rounded, [65504.0] * 6 + [-65504.0] * 2)


@both_hf32
def test_hf32_ties_are_rounded_away_from_zero(number_format: int, mantissa_bits: int) -> None:
    dropped = 23 - mantissa_bits
    kept = np.arange(0x100, (0x7F800000 >> dropped) - 1, 0x101, dtype=np.uint32)
    ties = (kept << dropped) | (1 << (dropped - 1))
    both_signs = np.concatenate([ties, ties | 0x80000000]).view(np.float32)

    rounded = _rounded(both_signs, number_format)

    away = (kept + 1) << dropped
    np.testing.assert_array_equal(
        rounded.view(np.uint32), np.concatenate([away, away | 0x80000000])
    )


@both_hf32
def test_hf32_keeps_infinities_and_the_bits_of_nans(number_format: int, mantissa_bits: int) -> None:
    lowest = (1 << (22 - mantissa_bits)) + 1  # a NaN only by bits that HF32 does not have
    patterns = np.array(
        [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFF800000 | lowest],
        dtype=np.uint32,
    )

    rounded = _rounded(patterns.view(np.float32), number_format)

    np.testing.assert_array_equal(rounded.view(np.uint32), patterns)


@both_hf32
def test_hf32_of_the_greatest_floats_is_infinite(number_format: int, mantissa_bits: int) -> None:
    greatest = (2 - 2.0**-mantissa_bits) * 2.0**127
    below_tie = np.nextafter(np.float32(greatest + 2.0 ** (126 - mantissa_bits)), np.float32(0))
    tie = np.float32(greatest + 2.0 ** (126 - mantissa_bits))

    rounded = _rounded(np.array([below_tie, tie, -tie], dtype=np.float32), number_format)

    np.testing.assert_array_equal(rounded, [np.float32(greatest), np.inf, -np.inf])


@both_hf32
def test_hf32_is_the_nearest_value_of_its_digits_over_all_floats(
    number_format: int, mantissa_bits: int
) -> None:
    patterns = np.arange(0x00800000, 0x7F000000, 0x1777, dtype=np.uint32)  # normal numbers
    values = np.concatenate([patterns, patterns | 0x80000000]).view(np.float32)

    rounded = _rounded(values, number_format)

    nearest = round_to_hf32(values.astype(np.float64), mantissa_bits=mantissa_bits)
    np.testing.assert_array_equal(rounded, nearest)


@both_hf32
@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_hf32_is_the_nearest_value_of_its_digits(
    number_format: int, mantissa_bits: int, value: float
) -> None:
    rounded = _rounded(np.array([value], dtype=np.float32), number_format)

    with np.errstate(over="ignore"):
        nearest = round_to_hf32(np.array([value]), mantissa_bits=mantissa_bits).astype(np.float32)
    np.testing.assert_array_equal(rounded, nearest)


@both_hf32
@given(mantissa=st.integers(0, 0x7FFFFF), negative=st.booleans())
def test_hf32_rounds_subnormals_in_the_same_places(
    number_format: int, mantissa_bits: int, *, mantissa: int, negative: bool
) -> None:
    sign, step = 0x80000000 if negative else 0, 1 << (23 - mantissa_bits)
    pattern = np.array([mantissa | sign], dtype=np.uint32)

    rounded = _rounded(pattern.view(np.float32), number_format)

    assert rounded.view(np.uint32)[0] == (mantissa + step // 2) // step * step | sign


@pytest.mark.parametrize(
    ("number_format", "dtype"), [(FLOAT16, DataType.FLOAT16), (BF16, DataType.BF16)]
)
@given(pattern=st.integers(0, 0xFFFFFFFF))
def test_any_float32_is_rounded_to_the_nearest_value(
    number_format: int, dtype: DataType, pattern: int
) -> None:
    values = np.array([pattern], dtype=np.uint32).view(np.float32)

    rounded = _rounded(values, number_format)

    with np.errstate(invalid="ignore"):
        nearest = round_to(values.astype(np.float64), dtype)
    np.testing.assert_array_equal(rounded, nearest)
