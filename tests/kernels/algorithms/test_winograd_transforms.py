"""The transforms against their definition, and the figures that their module derives."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.winograd.layout import LIMIT, MOST_TERMS
from opserve_kernels.algorithms.winograd.tiles import (
    collect_results,
    collect_taps,
    transform_image,
    transform_kernel,
    transform_output,
    transform_turned_kernel,
)
from opserve_kernels.algorithms.winograd.transforms import POINT

Matrix = NDArray[np.float64]
Floats = NDArray[np.float32]
Five = tuple[int, int, int, int, int]
Six = tuple[int, int, int, int, int, int]
Shape = tuple[int, int]
_PLANE = 500  # from a point to the next
_TILES, _POINTS, _OUT = 1000, 20000, 50000
each_size = pytest.mark.parametrize(("results", "taps"), [(4, 3), (3, 4), (2, 5), (5, 2)])
_FINITE = [Fraction(0), POINT, -POINT, 1 / POINT, -1 / POINT]


def _times(polynomial: Sequence[Fraction], root: Fraction) -> list[Fraction]:
    """The polynomial, lowest power first, times x - root."""
    shifted = [Fraction(0), *polynomial]
    scaled = [root * factor for factor in polynomial] + [Fraction(0)]
    return [high - low for high, low in zip(shifted, scaled, strict=True)]


def _roots(points: Sequence[Fraction]) -> list[Fraction]:
    polynomial = [Fraction(1)]
    for point in points:
        polynomial = _times(polynomial, point)
    return polynomial


def _matrix(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return np.array([[float(value) for value in row] for row in rows])


def _image_matrix() -> Matrix:
    """B^T: coefficients of M / (x - p), and of M."""
    rows = [[*_roots([q for q in _FINITE if q != p]), Fraction(0)] for p in _FINITE]
    return _matrix([*rows, _roots(_FINITE)])


def _kernel_matrix(taps: int) -> Matrix:
    """G: powers of p over M_p(p), and the highest one."""
    rows: list[list[Fraction]] = []
    for p in _FINITE:
        norm = Fraction(1)
        for q in _FINITE:
            norm *= p - q if q != p else 1
        rows.append([p**power / norm for power in range(taps)])
    return _matrix([*rows, [Fraction(int(power == taps - 1)) for power in range(taps)]])


def _result_matrix(results: int) -> Matrix:
    """A^T: powers of p, and the highest one."""
    columns = [[p**power for power in range(results)] for p in _FINITE]
    last = [Fraction(int(power == results - 1)) for power in range(results)]
    return _matrix([*columns, last]).T


def _memory(shape: Shape, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Memory, and the LANES tiles of a shape that lie in it, 7 apart from each other's rows."""
    memory = np.zeros(60000, dtype=np.float32)
    memory.view(np.int32)[:LANES] = np.arange(LANES) * 64
    tiles = rng.standard_normal((LANES, *shape), dtype=np.float32)
    for lane, tile in enumerate(tiles):
        for row, values in enumerate(tile):
            start = _TILES + lane * 64 + row * 7
            memory[start : start + values.size] = values
    return memory, tiles


def _points(memory: Floats, piece: int, rows: int) -> Floats:
    """Lanes by point: pieces of lanes lie 100 apart."""
    pieces = [
        memory[_POINTS + xi * _PLANE + first // piece * 100 :][:piece]
        for xi in range(6 * rows)
        for first in range(0, LANES, piece)
    ]
    return np.concatenate(pieces).reshape(rows, 6, LANES).transpose(2, 0, 1)


def _down(matrix: Matrix, rows: int) -> Matrix:
    """A single row is not transformed."""
    return matrix if rows > 1 else np.eye(1)


@pytest.mark.parametrize(
    ("transform", "taps", "shape", "piece"),
    [
        (transform_image, 5, (6, 6), LANES),
        (transform_image, 1, (1, 6), LANES),
        (transform_kernel, 9, (3, 3), TILE_ROWS),
        (transform_kernel, 25, (5, 5), TILE_ROWS),
        (transform_kernel, 3, (1, 3), TILE_ROWS),
        (transform_turned_kernel, 9, (3, 3), TILE_ROWS),
        (transform_turned_kernel, 25, (5, 5), TILE_ROWS),
        (transform_turned_kernel, 3, (1, 3), TILE_ROWS),
        (transform_output, 9, (4, 4), TILE_ROWS),
        (transform_output, 25, (2, 2), TILE_ROWS),
        (transform_output, 3, (1, 4), TILE_ROWS),
    ],
)
def test_a_transform_is_its_matrix_on_both_sides(
    transform: Callable[[Floats, Six, int], None], taps: int, shape: Shape, piece: int
) -> None:
    memory, tiles = _memory(shape, np.random.default_rng(1))
    given = tiles[:, ::-1, ::-1] if transform is transform_turned_kernel else tiles
    matrix = _image_matrix() if transform is transform_image else _kernel_matrix(shape[1])
    down = _down(matrix, shape[0])

    transform(memory, (_TILES, 0, 7, _POINTS, _PLANE, 100), taps)

    expected = down @ given.astype(np.float64) @ matrix.T
    size = np.abs(down) @ np.abs(given) @ np.abs(matrix).T
    assert np.all(np.abs(_points(memory, piece, len(down)) - expected) <= 16 * 2.0**-24 * size)


@pytest.mark.parametrize(
    ("collect", "taps", "shape"),
    [
        (collect_results, 9, (4, 4)),
        (collect_results, 25, (2, 2)),
        (collect_results, 3, (1, 4)),
        (collect_taps, 9, (3, 3)),
        (collect_taps, 25, (5, 5)),
        (collect_taps, 3, (1, 3)),
    ],
)
def test_collecting_is_the_other_matrix(
    collect: Callable[[Floats, Five, int], None], taps: int, shape: Shape
) -> None:
    (rows, columns), lanes = shape, range(LANES)
    memory, _ = _memory((6, 6), np.random.default_rng(1))
    points = 6 if rows > 1 else 1
    given = np.random.default_rng(2).standard_normal((points * 6, LANES), dtype=np.float32)
    for xi, values in enumerate(given):
        memory[_POINTS + xi * _PLANE :][:LANES] = values

    collect(memory, (_POINTS, _PLANE, _OUT, 0, 7), taps)

    starts = [[_OUT + lane * 64 + row * 7 for row in range(rows)] for lane in lanes]
    found = np.array([[memory[at : at + columns] for at in of_lane] for of_lane in starts])
    tiles = given.reshape(points, 6, LANES).transpose(2, 0, 1)
    matrix, down = _result_matrix(columns), _down(_result_matrix(rows), rows)
    size = np.abs(down) @ np.abs(tiles) @ np.abs(matrix).T
    expected = down @ tiles.astype(np.float64) @ matrix.T
    assert np.all(np.abs(found - expected) <= 16 * 2.0**-24 * size)


@each_size
def test_the_matrices_are_a_correlation(results: int, taps: int) -> None:
    rng = np.random.default_rng(3)
    image, kernel = rng.standard_normal(6), rng.standard_normal(taps)

    products = (_kernel_matrix(taps) @ kernel) * (_image_matrix() @ image)

    expected = [image[i : i + taps] @ kernel for i in range(results)]
    np.testing.assert_allclose(_result_matrix(results) @ products, expected, rtol=1e-12)


@each_size
def test_the_amplification_of_errors_is_the_documented_one(results: int, taps: int) -> None:
    squares = (_kernel_matrix(taps) ** 2).sum(axis=1) * (_image_matrix() ** 2).sum(axis=1)

    amplification = np.max(_result_matrix(results) ** 2 @ squares)

    assert amplification / taps <= {2: 9.8, 3: 7.2, 4: 5.9, 5: 5.4}[taps]
    assert amplification <= 27


@each_size
def test_no_sum_overflows_below_the_limit(results: int, taps: int) -> None:
    matrices = _image_matrix(), _kernel_matrix(taps), _result_matrix(results)

    growth = np.prod([np.max(np.abs(matrix).sum(axis=1)) for matrix in matrices])

    assert growth < 65
    assert growth**2 * LIMIT**2 * MOST_TERMS < np.finfo(np.float32).max
