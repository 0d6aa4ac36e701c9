"""Loads and stores of strided views: what is read, what is written, and what stays."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.samples.sample import NUMPY_DTYPES
from opserve_kernels.number_formats import (
    FLOAT,
    FLOAT16,
    FLOAT16_SATURATED,
    HF32,
    HF32_10_BITS,
)
from opserve_kernels.records import dtype_of, encode
from opserve_kernels.strided import as_floats, as_halves, load, store
from opserve_kernels.tensor import DataType, Tensor
from opserve_kernels.views import View, view_of

Integers = NDArray[np.int64]

_SHAPE = (3, 5, 37)
_STRIDES = {
    "contiguous": (185, 37, 1),
    "rows apart": (400, 60, 1),
    "every second": (370, 74, 2),
    "channels last": (185, 1, 5),
    "the same row": (37, 0, 1),
}
_GUARD = 3  # elements before the first and behind the last that a view does not have


def _view(dtype: DataType, strides: tuple[int, ...]) -> View:
    tensor = Tensor(shape=_SHAPE, dtype=dtype, strides=strides, offset=_GUARD)
    view: View = np.array(encode(view_of(tensor)), dtype=np.int64).view(dtype_of(View))[0]
    return view


def _places(strides: tuple[int, ...]) -> Integers:
    plane, row, column = np.indices(_SHAPE, dtype=np.int64)
    places = _GUARD + plane * strides[0] + row * strides[1] + column * strides[2]
    return np.asarray(places).reshape(-1)


@pytest.mark.parametrize("strides", _STRIDES.values(), ids=_STRIDES)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.FLOAT16, DataType.BF16])
@pytest.mark.parametrize(("first", "count"), [(0, 555), (36, 2), (100, 1), (20, 333)])
def test_any_run_of_a_view_is_loaded(
    strides: tuple[int, ...], dtype: DataType, first: int, count: int
) -> None:
    places = _places(strides)
    random = np.random.default_rng(places[-1])
    buffer = np.empty(places[-1] + 2 * _GUARD, dtype=NUMPY_DTYPES[dtype])
    buffer[:] = random.standard_normal(buffer.size)
    expected = np.asarray(buffer[places[first : first + count]], dtype=np.float32)
    memory, target = buffer.view(np.uint8), np.empty(count, dtype=np.float32)

    load(as_floats(memory), as_halves(memory), _view(dtype, strides), FLOAT, first, target)

    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("strides", list(_STRIDES.values())[:-1], ids=list(_STRIDES)[:-1])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.FLOAT16, DataType.BF16])
@pytest.mark.parametrize(("first", "count"), [(0, 555), (36, 2), (100, 1), (20, 333)])
def test_any_run_of_a_view_is_stored_and_nothing_else(
    strides: tuple[int, ...], dtype: DataType, first: int, count: int
) -> None:
    places = _places(strides)
    buffer = np.full(places[-1] + 2 * _GUARD, 7, dtype=NUMPY_DTYPES[dtype])
    memory = buffer.view(np.uint8)
    source = np.random.default_rng(count).standard_normal(count, dtype=np.float32)
    expected = buffer.copy()
    expected[places[first : first + count]] = source.astype(NUMPY_DTYPES[dtype])

    store(source, FLOAT, _view(dtype, strides), first, as_floats(memory), as_halves(memory))

    np.testing.assert_array_equal(buffer, expected)


def test_values_are_rounded_on_both_ways() -> None:
    strides = _STRIDES["contiguous"]
    values = np.random.default_rng(1).standard_normal(555, dtype=np.float32)
    memory = np.zeros(_GUARD + 555, dtype=np.float32).view(np.uint8)
    view, rounded = _view(DataType.FLOAT, strides), values.astype(np.float16).astype(np.float32)
    loaded = np.empty(555, dtype=np.float32)

    store(values.copy(), FLOAT, view, 0, as_floats(memory), as_halves(memory))
    load(as_floats(memory), as_halves(memory), view, FLOAT16, 0, loaded)
    store(values, FLOAT16, view, 0, as_floats(memory), as_halves(memory))

    np.testing.assert_array_equal(loaded, rounded)
    np.testing.assert_array_equal(as_floats(memory)[_GUARD:], rounded)


def test_minus_0_is_loaded_as_0() -> None:
    memory = np.full(_GUARD + 555, -0.0, dtype=np.float32).view(np.uint8)
    loaded = np.empty(555, dtype=np.float32)

    view = _view(DataType.FLOAT, _STRIDES["contiguous"])
    load(as_floats(memory), as_halves(memory), view, FLOAT, 0, loaded)

    assert not np.any(np.signbit(loaded))


@pytest.mark.parametrize(
    ("number_format", "value"),
    [(FLOAT16, -1e-30), (FLOAT16_SATURATED, -1e-30), (HF32, -1e-45), (HF32_10_BITS, -1e-45)],
)
def test_a_negative_number_that_rounds_to_minus_0_is_loaded_as_0(
    number_format: int, value: float
) -> None:
    memory = np.full(_GUARD + 555, value, dtype=np.float32).view(np.uint8)
    loaded = np.empty(555, dtype=np.float32)

    view = _view(DataType.FLOAT, _STRIDES["contiguous"])
    load(as_floats(memory), as_halves(memory), view, number_format, 0, loaded)

    assert not np.any(loaded)
    assert not np.any(np.signbit(loaded))
