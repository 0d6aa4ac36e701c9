"""The micro-kernel of outer products against float64, and which gradients it is chosen for."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.algorithms.direct_cases import (
    Case,
    expected_weight,
    image_operand,
    weight_operand,
    weight_run,
)
from kernels.oracles.expectation import assert_meets
from opserve_kernels.algorithms.correlation.layout import GATHER
from opserve_kernels.algorithms.correlation.plan import Correlation
from opserve_kernels.algorithms.direct.cost import weight_costs
from opserve_kernels.algorithms.host import LANES, whole_rows
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.outer import kernels as outer_kernels
from opserve_kernels.algorithms.outer.kernels import TURN_ROWS, TURN_VECTORS

_UNTOUCHED = np.float32(77)
_SIZE = 1 << 15
_CALLS = list(product(range(1, TURN_VECTORS + 1), [0, 1, 3, 4, 37], [0, 1]))
"""Vectors of a tile, the depth of its sums, and whether it adds to what is there."""
_LEFT, _RIGHT, _TOTAL, _PIXELS = 0, 4096, 24576, 30000
_VECTOR_PITCH, _PITCH = 100 * LANES, TURN_VECTORS * LANES + 5
_KERNELS = {"generated": outer_kernels._generated_outer, "plain": outer_kernels.plain_outer}


def _pixels(
    memory: NDArray[np.float32], place: int, pixels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """LANES channels of each pixel of an image."""
    return np.array([memory[place + pixel :][:LANES] for pixel in pixels], dtype=np.float64)


@pytest.mark.parametrize("kind", list(_KERNELS))
@pytest.mark.parametrize("rows", range(1, TURN_ROWS + 1))
def test_pixels_are_looked_up_on_both_sides(rows: int, kind: str) -> None:
    for vectors, depth, adds in _CALLS:
        _check_tile(rows, vectors, depth, adds, kind)


def _check_tile(rows: int, vectors: int, depth: int, adds: int, kind: str) -> None:
    call = f"{vectors=}, {depth=}, {adds=}"
    random = np.random.default_rng(3)
    memory = random.standard_normal(_SIZE, dtype=np.float32)
    memory[_TOTAL:_PIXELS] = _UNTOUCHED
    table = memory.view(np.int32)
    table[_PIXELS : _PIXELS + 2 * depth] = random.integers(0, 100, 2 * depth) * LANES
    pairs = table[_PIXELS : _PIXELS + 2 * depth].reshape(-1, 2).astype(np.int64)
    left = _pixels(memory, _LEFT, pairs[:, 0]).reshape(-1, LANES)
    right = np.hstack(
        [
            _pixels(memory, _RIGHT + vector * _VECTOR_PITCH, pairs[:, 1]).reshape(-1, LANES)
            for vector in range(vectors)
        ]
    )
    expected = left.T[:rows] @ right + adds * float(_UNTOUCHED)
    numbers = (depth, _LEFT, 1, _RIGHT, _PIXELS, _VECTOR_PITCH, _TOTAL, _PITCH, adds)

    _KERNELS[kind](memory, numbers, rows, vectors)

    tile = memory[_TOTAL:_PIXELS].copy()
    for row in range(rows):
        found = tile[row * _PITCH :][: vectors * LANES]
        np.testing.assert_allclose(found, expected[row], rtol=1e-5, atol=1e-5, err_msg=call)
    for row in range(whole_rows(rows)):
        tile[row * _PITCH :][: vectors * LANES] = _UNTOUCHED
    assert np.all(tile == _UNTOUCHED), call


@pytest.mark.parametrize("vectors", range(1, TURN_VECTORS + 1))
def test_left_is_read_in_place_at_any_distance_of_its_rows(vectors: int) -> None:
    depth, step, random = 37, 501, np.random.default_rng(3)
    left = random.standard_normal(TURN_ROWS * step, dtype=np.float32)
    memory = random.standard_normal(_SIZE, dtype=np.float32)
    pairs = random.integers(0, 100, (depth, 2))
    pairs[:, 1] *= LANES
    memory.view(np.int32)[_PIXELS : _PIXELS + 2 * depth] = pairs.ravel()
    factors = left.reshape(TURN_ROWS, step)[:, pairs[:, 0]].astype(np.float64)
    places = [_RIGHT + vector * _VECTOR_PITCH for vector in range(vectors)]
    right = np.hstack([_pixels(memory, place, pairs[:, 1]) for place in places])
    numbers = (depth, 0, step, _RIGHT, _PIXELS, _VECTOR_PITCH, _TOTAL, _PITCH, 0)

    outer_kernels.add_outer_in_place(left, memory, numbers, vectors)

    found = memory[_TOTAL:][: TURN_ROWS * _PITCH].reshape(TURN_ROWS, _PITCH)[:, : vectors * LANES]
    np.testing.assert_allclose(found, factors @ right, rtol=1e-5, atol=1e-5)


_CASES = {
    "several blocks of entries": Case(batch=7, inputs=17, outputs=9, size=(1, 13, 14)),
    "several blocks of rows": Case(inputs=16, outputs=32, size=(1, 40, 37), batch=2),
    "several tiles": Case(inputs=2500, outputs=20, kernel=(1, 3, 3), size=(1, 3, 3)),
    "whole vectors of channels": Case(inputs=32, outputs=48, groups=2, size=(1, 6, 5), batch=3),
    "left in place": Case(
        batch=5,
        inputs=32,
        outputs=48,
        groups=2,
        size=(1, 9, 31),
        kernel=(1, 1, 1),
        padding=(0, 0, 0),
    ),
    "the image in place": Case(
        batch=3, inputs=64, outputs=16, size=(1, 9, 31), kernel=(1, 1, 1), padding=(0, 0, 0)
    ),
    "left in place, strided": Case(
        batch=2,
        inputs=9,
        outputs=24,
        size=(1, 41, 37),
        kernel=(1, 1, 1),
        padding=(0, 0, 0),
        stride=(1, 2, 2),
    ),
    "taps that meet nothing": Case(size=(1, 2, 2), kernel=(1, 5, 5), padding=(0, 9, 9)),
}


@pytest.mark.parametrize("name", list(_CASES))
def test_gradients_meet_the_oracle(name: str) -> None:
    case = _CASES[name]
    arrays = case.arrays(np.random.default_rng(5))

    result = weight_run(case, arrays, Algorithm.OUTER).result()

    assert_meets(result, expected_weight(case, arrays))


@pytest.mark.parametrize(
    ("case", "algorithm"),
    [
        (Case(inputs=64, outputs=64, size=(1, 20, 20)), Algorithm.OUTER),
        (Case(inputs=256, outputs=64, kernel=(1, 1, 1), padding=(0, 0, 0)), Algorithm.OUTER),
        (Case(inputs=3, outputs=64, kernel=(1, 7, 7), size=(1, 50, 50)), Algorithm.DOTS),
        (Case(inputs=8, outputs=16, groups=4, size=(1, 30, 30)), Algorithm.DOTS),
    ],
    ids=["many channels", "one tap", "few channels", "groups of few channels"],
)
def test_outer_products_are_for_many_channels(case: Case, algorithm: Algorithm) -> None:
    image, weight, output = case.arrays(np.random.default_rng(0))
    product = Correlation(
        direction=GATHER,
        convolution=case.convolution,
        source=image_operand(0, image.shape),
        weight=weight_operand(1, weight.shape, case.groups),
        result=image_operand(2, output.shape),
    )

    costs = weight_costs(product)
    assert min(costs, key=costs.__getitem__) is algorithm
