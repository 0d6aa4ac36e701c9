"""Projections of right results are right, of groups too; a wrong element is always seen."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.cases.plain_fill import word
from kernels.oracles.convolution_backward import Geometry, gradients
from opserve_kernels.cases.projection import (
    VECTORS,
    Projection,
    project,
    project_weight,
    random_signs,
)
from opserve_kernels.verdict.projection import judge_projection
from opserve_kernels.verdict.verdict import Status

Doubles = NDArray[np.float64]
GROUPS = [1, 2, 3]


def operands(groups: int) -> tuple[Doubles, Doubles, Doubles, Geometry]:
    random = np.random.default_rng(groups)
    grad_output = random.integers(-4, 5, (2, 2 * groups, 4, 5)).astype(float)
    image = random.integers(-4, 5, (2, 3 * groups, 4, 5)).astype(float)
    weight = random.integers(-4, 5, (2 * groups, 3, 3, 3)).astype(float)
    geometry = Geometry(
        stride=(1, 1), padding=(1, 1), dilation=(1, 1), transposed=False, groups=groups
    )
    return grad_output, image, weight, geometry


def signs_of(name: str, channels: int) -> Doubles:
    return random_signs("case", 7, name, vectors=VECTORS, channels=channels)


def image_parts(groups: int) -> tuple[Doubles, Doubles, Projection]:
    """The gradient, its projection worked out from the operands, and which one that is."""
    grad_output, image, weight, geometry = operands(groups)
    signs = signs_of("grad_input", image.shape[1])
    few = project_weight(weight, signs, groups=groups)
    projection = Projection(signs=signs, axis=1, groups=groups)
    empty = np.zeros((2, VECTORS * groups, *image.shape[2:]))
    expected = gradients(grad_output, empty, few, geometry).grad_input
    return gradients(grad_output, image, weight, geometry).grad_input, expected, projection


def weight_parts(groups: int) -> tuple[Doubles, Doubles, Projection]:
    grad_output, image, weight, geometry = operands(groups)
    signs = signs_of("grad_weight", weight.shape[0])
    few = project(grad_output, signs, axis=1, groups=groups)
    projection = Projection(signs=signs, axis=0, groups=groups)
    empty = np.zeros((VECTORS * groups, *weight.shape[1:]))
    expected = gradients(few, image, empty, geometry).grad_weight
    return gradients(grad_output, image, weight, geometry).grad_weight, expected, projection


@pytest.mark.parametrize("groups", GROUPS)
def test_an_images_gradient_agrees_with_its_projection(groups: int) -> None:
    given, expected, projection = image_parts(groups)
    found = judge_projection(
        "grad_input",
        given.astype(np.float32),
        expected,
        projection,
    )
    assert found.status is Status.PASSED
    assert "projection" in found.reason
    assert found.layers[0].metrics["vectors"] == VECTORS


@pytest.mark.parametrize("groups", GROUPS)
def test_a_weights_gradient_agrees_with_its_projection(groups: int) -> None:
    given, expected, projection = weight_parts(groups)
    found = judge_projection(
        "grad_weight",
        given.astype(np.float16),
        expected,
        projection,
    )
    assert found.status is Status.PASSED


@pytest.mark.parametrize("wrong", [1.0, np.nan, np.inf])
def test_one_wrong_element_is_always_seen(wrong: float) -> None:
    given, expected, projection = image_parts(2)
    for place in np.ndindex(given.shape):
        broken = given.astype(np.float32)
        broken[place] += wrong
        found = judge_projection("grad_input", broken, expected, projection)
        assert (found.status, found.errors) == (Status.FAILED, VECTORS)


def test_channels_beyond_a_block_are_summed_too() -> None:
    random = np.random.default_rng(0)
    array = random.integers(-9, 10, (2, 82, 3)).astype(np.float32)
    signs = signs_of("out", 82)
    grouped = array.reshape(2, 2, 41, 3).astype(float)
    expected = np.einsum("ngci,vgc->ngvi", grouped, signs.reshape(VECTORS, 2, 41))
    found = project(array, signs, axis=1, groups=2)
    np.testing.assert_array_equal(found, expected.reshape(2, 2 * VECTORS, 3))


def test_signs_are_the_generators_lowest_bits() -> None:
    words = [word("case", 7, "grad_input/signs", place) for place in range(VECTORS * 5)]
    expected = [1 - 2 * (drawn & 1) for drawn in words]
    assert signs_of("grad_input", 5).ravel().tolist() == expected


def test_expected_values_of_another_shape_are_refused() -> None:
    given, expected, projection = image_parts(1)
    with pytest.raises(ValueError, match="projected"):
        judge_projection("grad_input", given, expected[:1], projection)
