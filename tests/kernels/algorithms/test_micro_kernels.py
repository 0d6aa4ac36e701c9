"""The micro-kernels, generated, plain and careful, against float64 sums."""

from collections.abc import Callable
from itertools import product
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen import micro_kernels, plain_kernels
from opserve_kernels.algorithms.codegen.micro_kernels import (
    DOT_COLUMNS,
    LANES,
    TILE_COLUMNS,
    TILE_ROWS,
    TILE_VECTORS,
)
from opserve_kernels.algorithms.codegen.tiles import dots_tile, flat_tile, packed_tile
from opserve_kernels.algorithms.correlation.layout import NO_BIAS
from opserve_kernels.algorithms.host import ROW_COUNTS, VARIANT, whole_rows
from opserve_kernels.loops import compiled
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
_UNTOUCHED = np.float32(77)
_SIZE = 1 << 15
_LEFT, _RIGHT, _TOTAL, _TABLE = 0, 4096, 24576, 30000
_PITCH = TILE_COLUMNS + 5
_CALLS = list(product(range(1, TILE_VECTORS + 1), [1, 3, 4, 37], [0, 1]))
"""Vectors of a tile, the depth of its sums, and whether it adds to what is there."""
_ROWS = range(1, TILE_ROWS + 1)
_STEP = 3  # between the rows of right that an offset leads to

_PACKED = {
    "generated": micro_kernels._generated_packed,
    "plain": plain_kernels.multiply_packed,
    "careful": micro_kernels._generated_packed_skip_padding,
    "plain and careful": plain_kernels.multiply_packed_skip_padding,
}
_FLAT = {
    "generated": micro_kernels._generated_flat,
    "plain": plain_kernels.multiply_flat,
    "careful": micro_kernels._generated_flat_skip_padding,
    "plain and careful": plain_kernels.multiply_flat_skip_padding,
}
_IN_PLACE = {
    "generated": micro_kernels.multiply_in_place,
    "careful": micro_kernels.multiply_in_place_skip_padding,
}
_DOTS = {
    "generated": micro_kernels._generated_dots,
    "plain": plain_kernels.add_dots,
}
every_kind = pytest.mark.parametrize("kind", list(_PACKED))


_DRAWN = np.random.default_rng(3).standard_normal(_SIZE, dtype=np.float32)


def _memory() -> Floats:
    memory = _DRAWN.copy()
    memory[_TOTAL:_TABLE] = _UNTOUCHED
    memory.view(np.int32)[_TABLE : _TABLE + 64] = np.arange(64) * _STEP
    return memory


def _left(memory: Floats, depth: int) -> NDArray[np.float64]:
    return memory[_LEFT : _LEFT + depth * TILE_ROWS].reshape(depth, -1).astype(np.float64)


def _windows(memory: Floats, count: int, length: int) -> NDArray[np.float64]:
    rows = [memory[_RIGHT + _STEP * row :][:length] for row in range(count)]
    return np.array(rows, dtype=np.float64)


def _assert_tile(
    memory: Floats,
    expected: NDArray[np.float64],
    rows: int,
    vectors: int,
    call: str = "",
    *,
    written: int | None = None,
) -> None:
    """The rows that count are right, nothing but those that may be written is written."""
    tile = memory[_TOTAL:_TABLE].copy()
    columns = vectors * LANES
    for row in range(rows):
        found = tile[row * _PITCH :][:columns]
        np.testing.assert_allclose(
            found, expected[row, :columns], rtol=1e-5, atol=1e-5, err_msg=call
        )
    for row in range(written or whole_rows(rows)):
        tile[row * _PITCH :][:columns] = _UNTOUCHED
    assert np.all(tile == _UNTOUCHED), call


@every_kind
@pytest.mark.parametrize("rows", _ROWS)
def test_panels_are_multiplied(rows: int, kind: str) -> None:
    for vectors, depth, adds in _CALLS:
        memory = _memory()
        right = memory[_RIGHT : _RIGHT + depth * TILE_COLUMNS].reshape(depth, -1)
        expected = _left(memory, depth).T @ right.astype(np.float64) + adds * float(_UNTOUCHED)

        _PACKED[kind](memory, (depth, _LEFT, _RIGHT, _TOTAL, _PITCH, adds), rows, vectors)

        _assert_tile(memory, expected, rows, vectors, f"{vectors=}, {depth=}, {adds=}")


@pytest.mark.parametrize("kind", list(_IN_PLACE))
@pytest.mark.parametrize("rows", _ROWS)
def test_operands_and_totals_may_lie_in_arrays_of_their_own(rows: int, kind: str) -> None:
    for vectors, depth, adds in _CALLS:
        pitch, row_pitch = 2 * depth + 3, TILE_COLUMNS + 7
        factors, values = _DRAWN[::-1].copy(), np.roll(_DRAWN, 11)
        left = np.array([factors[5 + row * pitch :][: 2 * depth : 2] for row in range(TILE_ROWS)])
        right = np.array([values[9 + k * row_pitch :][:TILE_COLUMNS] for k in range(depth)])
        expected = left.astype(np.float64) @ right.astype(np.float64)
        biased = expected + _DRAWN[3 : 3 + TILE_ROWS, np.newaxis]
        for bias in (NO_BIAS, 3):
            totals, call = _memory(), f"{vectors=}, {depth=}, {adds=}, {bias=}"
            numbers = (depth, 5, pitch, 2, 9, row_pitch, _TOTAL, _PITCH, adds, bias)
            _IN_PLACE[kind](factors, values, totals, _DRAWN, numbers, rows, vectors)
            added = expected + adds * float(_UNTOUCHED)
            result = added if bias == NO_BIAS else biased
            _assert_tile(totals, result, rows, vectors, call, written=rows)


@every_kind
@pytest.mark.parametrize("rows", _ROWS)
def test_rows_are_looked_up(rows: int, kind: str) -> None:
    for vectors, depth, adds in _CALLS:
        memory = _memory()
        right = _windows(memory, depth, TILE_COLUMNS)
        expected = _left(memory, depth).T @ right + adds * float(_UNTOUCHED)
        numbers = (depth, _LEFT, _RIGHT, _TABLE, _TOTAL, _PITCH, adds)

        _FLAT[kind](memory, memory.view(np.int32), numbers, rows, vectors)

        _assert_tile(memory, expected, rows, vectors, f"{vectors=}, {depth=}, {adds=}")


@pytest.mark.parametrize("kind", list(_DOTS))
@pytest.mark.parametrize("count", [LANES, 5 * LANES])
@pytest.mark.parametrize("columns", range(1, DOT_COLUMNS + 1))
@pytest.mark.parametrize("rows", _ROWS)
def test_dots_are_added(rows: int, columns: int, count: int, kind: str) -> None:
    memory, pitch = _memory(), count + 3
    left = np.array([memory[_LEFT + row * pitch :][:count] for row in range(TILE_ROWS)])
    right = _windows(memory, columns, count)
    expected = right @ left.astype(np.float64).T + float(_UNTOUCHED)
    numbers = (count, _LEFT, pitch, _RIGHT, _TABLE, _TOTAL)

    _DOTS[kind](memory, memory.view(np.int32), numbers, rows, columns)

    tile = memory[_TOTAL:_TABLE].copy()
    sums = tile[: columns * TILE_ROWS].reshape(columns, TILE_ROWS)
    np.testing.assert_allclose(sums[:, :rows], expected[:, :rows], rtol=1e-5)
    sums[:, : whole_rows(rows)] = _UNTOUCHED
    assert np.all(tile == _UNTOUCHED)


every_careful_kind = pytest.mark.parametrize("kind", ["careful", "plain and careful"])
every_special_value = pytest.mark.parametrize("special", [inf, -inf, np.nan])


def _with_padding(special: float) -> tuple[Floats, NDArray[np.float64]]:
    """Memory whose first of four weights are special where the source is padding; the products."""
    memory = _memory()
    memory[_LEFT : _LEFT + TILE_ROWS] = special
    memory[_RIGHT : _RIGHT + TILE_COLUMNS] = PADDING
    right = memory[_RIGHT : _RIGHT + 4 * TILE_COLUMNS].reshape(4, -1).astype(np.float64)
    return memory, _left(memory, 4)[1:].T @ right[1:]


@every_careful_kind
@every_special_value
@pytest.mark.parametrize("rows", _ROWS)
def test_careful_ones_leave_padding_out(rows: int, special: float, kind: str) -> None:
    memory, expected = _with_padding(special)

    numbers = (4, _LEFT, _RIGHT, _TOTAL, _PITCH, 0)
    _PACKED[kind](memory, numbers, rows, TILE_VECTORS)

    _assert_tile(memory, expected, rows, TILE_VECTORS)


@every_careful_kind
@every_special_value
@pytest.mark.parametrize("rows", _ROWS)
def test_careful_ones_leave_padding_out_of_rows(rows: int, special: float, kind: str) -> None:
    memory, expected = _with_padding(special)
    table = memory.view(np.int32)
    table[_TABLE : _TABLE + 4] = np.arange(4) * TILE_COLUMNS

    numbers = (4, _LEFT, _RIGHT, _TABLE, _TOTAL, _PITCH, 0)
    _FLAT[kind](memory, table, numbers, rows, TILE_VECTORS)

    _assert_tile(memory, expected, rows, TILE_VECTORS)


def test_whole_rows_are_those_of_the_row_counts() -> None:
    assert [whole_rows(rows) for rows in ROW_COUNTS] == list(ROW_COUNTS)
    assert whole_rows(TILE_ROWS + 1) == TILE_ROWS + ROW_COUNTS[0]


@pytest.mark.parametrize("width", [4, 8, 16])
def test_the_generator_makes_packed_tiles_of_any_width(width: int) -> None:
    tile = packed_tile(4, 2, width=width, pitches=(4, 2 * width))

    @compiled("void(float32[::1], UniTuple(int64, 6))")
    def multiply(memory: Floats, numbers: tuple[int, ...]) -> None:
        tile(memory, numbers)

    memory = _memory()
    left = memory[_LEFT : _LEFT + 7 * 4].reshape(7, 4).astype(np.float64)
    right = memory[_RIGHT : _RIGHT + 7 * 2 * width].reshape(7, -1)

    multiply(memory, (7, _LEFT, _RIGHT, _TOTAL, 2 * width, 0))

    found = memory[_TOTAL : _TOTAL + 8 * width].reshape(4, -1)
    np.testing.assert_allclose(found, left.T @ right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [4, 8, 16])
def test_the_generator_makes_flat_tiles_of_any_width(width: int) -> None:
    tile = flat_tile(2, 3, width=width, pitch=2)

    @compiled("void(float32[::1], UniTuple(int64, 7))")
    def multiply(memory: Floats, numbers: tuple[int, ...]) -> None:
        tile(memory, numbers)

    memory = _memory()
    left = memory[_LEFT : _LEFT + 9 * 2].reshape(9, 2).astype(np.float64)

    multiply(memory, (9, _LEFT, _RIGHT, _TABLE, _TOTAL, 3 * width, 0))

    found = memory[_TOTAL : _TOTAL + 6 * width].reshape(2, -1)
    expected = left.T @ _windows(memory, 9, 3 * width)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_the_generator_makes_dots_of_any_width(rows: int, width: int) -> None:
    tile = dots_tile(rows, 3, width=width, pitch=4)

    @compiled("void(float32[::1], UniTuple(int64, 6))")
    def add(memory: Floats, numbers: tuple[int, ...]) -> None:
        tile(memory, numbers)

    memory, count = _memory(), 4 * width
    left = memory[_LEFT : _LEFT + rows * count].reshape(rows, -1).astype(np.float64)

    add(memory, (count, _LEFT, count, _RIGHT, _TABLE, _TOTAL))

    found = memory[_TOTAL : _TOTAL + 12].reshape(3, 4)[:, :rows]
    expected = _windows(memory, 3, count) @ left.T + float(_UNTOUCHED)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def _kernels() -> list[Callable[..., None]]:
    return [micro_kernels.multiply_packed, micro_kernels.multiply_flat, micro_kernels.add_dots]


def test_the_exported_kernels_are_those_of_this_computer() -> None:
    kinds = "plain" if VARIANT.plain else "generated"
    assert _kernels() == [_PACKED[kinds], _FLAT[kinds], _DOTS[kinds]]
