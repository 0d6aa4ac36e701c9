"""Conversions between float64 and every dtype, bit by bit: they round once."""

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
    DOUBLE,
    FLOAT,
    FLOAT16,
    FLOAT16_SATURATED,
    HF32,
    HF32_10_BITS,
)
from opserve_kernels.records import dtype_of, encode
from opserve_kernels.reference_strided import elements_of, load, store
from opserve_kernels.tensor import DataType, Tensor
from opserve_kernels.views import View, view_of

Doubles = NDArray[np.float64]
_DTYPES = [DataType.DOUBLE, DataType.FLOAT, DataType.FLOAT16, DataType.BF16]
_NARROW = [DataType.FLOAT, DataType.FLOAT16, DataType.BF16]


def _view(tensor: Tensor) -> View:
    view: View = np.array(encode(view_of(tensor)), dtype=np.int64).view(dtype_of(View))[0]
    return view


def _stored(values: Doubles, dtype: DataType, number_format: int = DOUBLE) -> Doubles:
    """The values in a dtype, widened again by NumPy."""
    buffer = np.zeros(values.size * dtype.size_bytes, dtype=np.uint8)
    view = _view(Tensor(shape=(values.size,), dtype=dtype))
    store(values, number_format, view, 0, elements_of(buffer))
    with np.errstate(invalid="ignore"):
        return buffer.view(NUMPY_DTYPES[dtype]).astype(np.float64)


def _loaded(values: Doubles, number_format: int) -> Doubles:
    target = np.empty_like(values)
    view = _view(Tensor(shape=(values.size,), dtype=DataType.DOUBLE))
    load(elements_of(values.view(np.uint8)), view, number_format, 0, target)
    return target


def _hard_values() -> Doubles:
    """Every FLOAT16 and BF16 value, the midpoints between them, and their nearest float64s."""
    patterns = np.arange(0x8000, dtype=np.uint16)
    halves = patterns.view(np.float16).astype(np.float64)
    with np.errstate(invalid="ignore"):
        bfloats = patterns.view(ml_dtypes.bfloat16).astype(np.float64)
    exact = np.concatenate([halves[np.isfinite(halves)], bfloats[np.isfinite(bfloats)]])
    exact = np.unique(exact)
    middles = (exact[1:] + exact[:-1]) / 2
    beyond = np.array([65520.0, 2.0**128 - 2.0**119, 2.0**128 - 2.0**103, 1e300, 5e-324, np.inf])
    centres = np.concatenate([exact, middles, beyond])
    with np.errstate(over="ignore"):
        near = [centres, np.nextafter(centres, np.inf), np.nextafter(centres, 0)]
        near += [centres * (1 + 2.0**-40), centres * (1 - 2.0**-40)]
    positive = np.concatenate(near)
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("dtype", _NARROW)
def test_float64_is_rounded_once_to_the_nearest_value(dtype: DataType) -> None:
    values = _hard_values()

    stored = _stored(values, dtype)

    np.testing.assert_array_equal(stored, round_to(values, dtype))
    np.testing.assert_array_equal(np.signbit(stored), np.signbit(values))


@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.FLOAT16])
def test_float64_narrows_as_numpy_narrows_it(dtype: DataType) -> None:
    values = _hard_values()
    with np.errstate(over="ignore"):
        reference = values.astype(NUMPY_DTYPES[dtype]).astype(np.float64)

    np.testing.assert_array_equal(_stored(values, dtype), reference)


def test_a_value_just_above_a_midpoint_is_not_rounded_twice() -> None:
    above = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40])

    assert _stored(above, DataType.BF16)[0] == 1 + 2.0**-7
    assert _stored(above, DataType.FLOAT16)[1] == 1 + 2.0**-10


@pytest.mark.parametrize("dtype", _NARROW)
@given(st.floats(allow_nan=False))
def test_any_float64_is_rounded_once(dtype: DataType, value: float) -> None:
    values = np.array([value])

    np.testing.assert_array_equal(_stored(values, dtype), round_to(values, dtype))


def test_saturation_keeps_float16_within_its_range_and_other_dtypes_as_they_are() -> None:
    values = _hard_values()

    stored = _stored(values, DataType.FLOAT16, FLOAT16_SATURATED)

    np.testing.assert_array_equal(stored, saturate(round_to(values, DataType.FLOAT16)))
    for dtype in (DataType.DOUBLE, DataType.FLOAT, DataType.BF16):
        np.testing.assert_array_equal(
            _stored(values, dtype, FLOAT16_SATURATED), _stored(values, dtype)
        )


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("number_format", [DOUBLE, FLOAT16_SATURATED])
def test_a_nan_is_stored_as_a_nan(dtype: DataType, number_format: int) -> None:
    assert np.isnan(_stored(np.array([np.nan]), dtype, number_format)).all()


@pytest.mark.parametrize("number_format", [FLOAT, DOUBLE])
def test_operands_of_float_and_double_stay_as_they_are(number_format: int) -> None:
    values = _hard_values()

    np.testing.assert_array_equal(_loaded(values, number_format), values)


@pytest.mark.parametrize(
    ("number_format", "dtype"), [(FLOAT16, DataType.FLOAT16), (BF16, DataType.BF16)]
)
def test_operands_are_rounded_once(number_format: int, dtype: DataType) -> None:
    values = _hard_values()

    np.testing.assert_array_equal(_loaded(values, number_format), round_to(values, dtype))


def test_operands_are_kept_within_float16() -> None:
    values = np.array([1e6, -np.inf, np.nan, 1.0])

    np.testing.assert_array_equal(_loaded(values, FLOAT16_SATURATED), [65504, -65504, np.nan, 1])


@pytest.mark.parametrize(("number_format", "mantissa_bits"), [(HF32, 11), (HF32_10_BITS, 10)])
def test_operands_are_rounded_once_to_hf32(number_format: int, mantissa_bits: int) -> None:
    magnitude = np.abs(_hard_values())
    values = magnitude[(magnitude > 2.0**-126) & (magnitude < 2.0**127)]
    nearest = round_to_hf32(values, mantissa_bits=mantissa_bits)

    np.testing.assert_array_equal(_loaded(values, number_format), nearest)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_a_strided_view_is_loaded_and_stored_element_by_element(dtype: DataType) -> None:
    tensor = Tensor(shape=(2, 3, 4), dtype=dtype, strides=(5, 11, 40), offset=3)
    values = np.arange(24, dtype=np.float64)
    buffer = np.full(tensor.end * dtype.size_bytes, 0x2A, dtype=np.uint8)
    untouched = buffer.copy()
    for first in range(0, 24, 5):
        store(values[first : first + 5], DOUBLE, _view(tensor), first, elements_of(buffer))
    elements = buffer.view(NUMPY_DTYPES[dtype])
    places = 3 + np.ravel(np.add.outer(np.add.outer([0, 5], [0, 11, 22]), [0, 40, 80, 120]))
    loaded = np.empty(20)

    load(elements_of(buffer), _view(tensor), DOUBLE, 4, loaded)

    np.testing.assert_array_equal(elements[places].astype(np.float64), values)
    np.testing.assert_array_equal(loaded, values[4:])
    rest = np.ones(elements.size, dtype=bool)
    rest[places] = False
    still: NDArray[np.generic] = untouched.view(NUMPY_DTYPES[dtype])
    np.testing.assert_array_equal(elements[rest], still[rest])
