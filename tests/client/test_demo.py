"""The demo checks itself: its float64 gradients are right, and what is wrong makes it fail."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.oracles.convolution_backward import Geometry, gradients
from opserve_client import demo
from opserve_client.demo.check import Agreement, exact_gradients
from opserve_client.demo.network import FIRST, SECOND, Array, Convolution, DigitsNetwork, Gradients

BATCH = 3


def operands(layer: Convolution) -> tuple[Array, Array, Array]:
    """grad_output, images and weight of a call."""
    random = np.random.default_rng(7)
    channels, kernels = layer.channels
    shapes = (
        (BATCH, kernels, layer.output_size, layer.output_size),
        (BATCH, channels, layer.size, layer.size),
        (kernels, channels, 3, 3),
    )
    first, second, third = (random.standard_normal(shape, np.float32) for shape in shapes)
    return first, second, third


def rounded(layer: Convolution) -> Gradients:
    """The right gradients, rounded once."""
    exact = exact_gradients(layer, *(array.astype(np.float64) for array in operands(layer)))
    grad_input, grad_weight, grad_bias = (array.astype(np.float32) for array in exact)
    return Gradients(grad_input, grad_weight, grad_bias)


@pytest.mark.parametrize("layer", [FIRST, SECOND])
def test_the_local_gradients_are_those_of_the_oracle(layer: Convolution) -> None:
    geometry = Geometry(
        stride=(layer.stride,) * 2, padding=(1, 1), dilation=(1, 1), transposed=False, groups=1
    )
    grad_output, images, weight = (array.astype(np.float64) for array in operands(layer))
    oracle = gradients(grad_output, images, weight, geometry)
    exact = exact_gradients(layer, grad_output, images, weight)
    for given, right in zip(
        exact, (oracle.grad_input, oracle.grad_weight, oracle.grad_bias), strict=True
    ):
        np.testing.assert_allclose(given, right, rtol=1e-12, atol=1e-12)


def test_right_gradients_are_within_their_bound_and_a_wrong_element_is_not() -> None:
    agreement = Agreement()
    agreement.compare(SECOND, operands(SECOND), rounded(SECOND))
    assert agreement.used_bound <= 1
    wrong = rounded(SECOND)
    wrong.grad_weight[0, 0, 0, 0] *= np.float32(1.001)
    agreement.compare(SECOND, operands(SECOND), wrong)
    assert agreement.used_bound > 1


def test_the_demo_fails_below_its_accuracy_and_beyond_its_bound() -> None:
    good = demo.Report(accuracy=0.96)
    assert good.passed
    assert not replace(good, accuracy=0.94).passed
    assert not replace(good, agreement=Agreement(used_bound=1.01)).passed


def test_a_step_along_the_gradients_lowers_the_loss() -> None:
    train_set, _ = demo.load_digits()
    batch = train_set.batches(np.arange(demo.BATCH))[0]

    def exact(layer: Convolution, images: Array, grad_output: Array) -> Gradients:
        weight = network.parameters[f"{layer.name}.weight"]
        doubles = (array.astype(np.float64) for array in (grad_output, images, weight))
        first, second, third = (np.asarray(a, np.float32) for a in exact_gradients(layer, *doubles))
        return Gradients(first, second, third)

    network = DigitsNetwork(exact, seed=demo.SEED)
    losses = [network.train(batch.images, batch.digits, rate=0.05) for _ in range(10)]
    assert losses[-1] < losses[0] / 2
