"""Conversions between number formats, bit by bit."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.oracles.rounding import round_to_hf32
from kernels.samples.sample import NUMPY_DTYPES
from opserve_kernels.number_formats import BF16, FLOAT, FLOAT16, HF32
from opserve_kernels.precision import round_all
from opserve_kernels.strided import load, store
from opserve_kernels.tensor import DataType, Tensor
from opserve_kernels.views import encode_view

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
_NO_FLOATS = np.empty(0, dtype=np.float32)


def _view(dtype: DataType, count: int) -> NDArray[np.int64]:
    tensor = Tensor(shape=(count,), dtype=dtype)
    return np.array(encode_view(tensor, shape=(count,), strides=(1,)), dtype=np.int64)


def _widened(patterns: Halves, dtype: DataType) -> Floats:
    target = np.empty(patterns.size, dtype=np.float32)
    load(_NO_FLOATS, patterns, _view(dtype, patterns.size), 0, target)
    return target


def _narrowed(values: Floats, dtype: DataType) -> Halves:
    target = np.empty(values.size, dtype=np.uint16)
    store(values, _view(dtype, values.size), 0, _NO_FLOATS, target)
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
def test_every_16_bit_pattern_widens_as_numpy_widens_it(dtype: DataType) -> None:
    patterns = np.arange(0x10000, dtype=np.uint16)
    wide = _widened(patterns, dtype)
    reference = patterns.view(NUMPY_DTYPES[dtype]).astype(np.float32)

    numbers = ~np.isnan(reference)
    np.testing.assert_array_equal(wide[numbers].view(np.uint32), reference[numbers].view(np.uint32))
    assert np.all(np.isnan(wide[~numbers]))


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BF16])
def test_every_16_bit_pattern_survives_the_way_there_and_back(dtype: DataType) -> None:
    patterns = np.arange(0x10000, dtype=np.uint16)
    numbers = ~np.isnan(patterns.view(NUMPY_DTYPES[dtype]).astype(np.float32))

    back = _narrowed(_widened(patterns, dtype), dtype)

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


def test_hf32_ties_go_away_from_zero() -> None:
    kept = np.arange(0x100, 0x7F7FF, 0x101, dtype=np.uint32)  # sign, exponent, 11 mantissa bits
    ties = (kept << 12) | 0x800
    both_signs = np.concatenate([ties, ties | 0x80000000]).view(np.float32)

    rounded = _rounded(both_signs, HF32)

    away = (kept + 1) << 12
    np.testing.assert_array_equal(
        rounded.view(np.uint32), np.concatenate([away, away | 0x80000000])
    )


def test_hf32_keeps_infinities_and_nans() -> None:
    values = np.array([np.inf, -np.inf, np.nan], dtype=np.float32)

    np.testing.assert_array_equal(_rounded(values, HF32), values)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_hf32_is_the_nearest_value_of_12_digits(value: float) -> None:
    rounded = _rounded(np.array([value], dtype=np.float32), HF32)

    with np.errstate(over="ignore"):
        reference = round_to_hf32(np.array([value])).astype(np.float32)
    np.testing.assert_array_equal(rounded, reference)


@given(st.integers(0, 0x7FFFFF), st.booleans())
def test_hf32_rounds_subnormals_in_the_same_places(mantissa: int, negative: bool) -> None:  # drawn
    sign = 0x80000000 if negative else 0
    rounded = _rounded(np.array([mantissa | sign], dtype=np.uint32).view(np.float32), HF32)

    nearest = (mantissa + 0x800) // 0x1000 * 0x1000
    assert rounded.view(np.uint32)[0] == nearest | sign
