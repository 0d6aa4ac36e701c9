"""Comparison of convolutions and gradients with float64, by a bound from the reduction length.

For each element |given - exact| <= u*|exact| + (4*sqrt(K) + 2)*u*magnitude, where u = 2^-24, K
is the number of terms in its sum and magnitude the same sum of absolute values.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opserve_client.demo.network import Array, Gradients, Layer

UNIT_ROUNDOFF = 2.0**-24
_TAPS = 9
Exact = NDArray[np.float64]


@dataclass(slots=True)
class Agreement:
    """The worst result of all comparisons.

    Attributes:
        difference: Greatest difference of an element.
        used_bound: Greatest ratio of a difference to its bound; more than 1 is an error.
        compared: Number of compared elements.
    """

    difference: float = 0.0
    used_bound: float = 0.0
    compared: int = 0

    def compare_output(
        self, layer: Layer, operands: tuple[Array, Array, Array], given: Array
    ) -> None:
        """Compares the convolution of one call; operands are images, weight and bias."""
        exact = exact_output(layer, *(array.astype(np.float64) for array in operands))
        magnitude = exact_output(layer, *(abs(array.astype(np.float64)) for array in operands))
        self._note(given, exact, magnitude, layer.channels[0] * _TAPS + 1)

    def compare_gradients(
        self, layer: Layer, operands: tuple[Array, Array, Array], given: Gradients
    ) -> None:
        """Compares the gradients of one call; operands are grad_output, images and weight."""
        exact = exact_gradients(layer, *(array.astype(np.float64) for array in operands))
        magnitude = exact_gradients(layer, *(abs(array.astype(np.float64)) for array in operands))
        pixels = len(operands[0]) * layer.output_size**2
        lengths = (layer.channels[1] * _TAPS, pixels, pixels)
        got = (given.grad_input, given.grad_weight, given.grad_bias)
        for array, truth, size, length in zip(got, exact, magnitude, lengths, strict=True):
            if array is not None:
                self._note(array, truth, size, length)

    def _note(self, given: Array, exact: Exact, magnitude: Exact, length: int) -> None:
        difference = np.abs(given - exact)
        bound = UNIT_ROUNDOFF * (np.abs(exact) + (4 * np.sqrt(length) + 2) * magnitude)
        worst = np.max(np.where(difference > 0, difference / np.maximum(bound, 1e-300), 0.0))
        self.difference = max(self.difference, float(difference.max()))
        self.used_bound = max(self.used_bound, float(worst))
        self.compared += given.size


def exact_output(layer: Layer, images: Exact, weight: Exact, bias: Exact) -> Exact:
    """Returns the convolution in float64, by its definition."""
    sums = _window_rows(layer, images) @ weight.reshape(len(weight), -1).T + bias
    sizes = (len(images), layer.output_size, layer.output_size, len(weight))
    return sums.reshape(sizes).transpose(0, 3, 1, 2)


def exact_gradients(
    layer: Layer, grad_output: Exact, images: Exact, weight: Exact
) -> tuple[Exact, Exact, Exact]:
    """Returns grad_input, grad_weight and grad_bias in float64, from the forward definition."""
    batch, channels, *_ = images.shape
    size, kernels = layer.output_size, len(weight)
    rows = grad_output.transpose(0, 2, 3, 1).reshape(-1, kernels)
    grad_weight = (rows.T @ _window_rows(layer, images)).reshape(weight.shape)
    taps = (rows @ weight.reshape(kernels, -1)).reshape(batch, size, size, channels, 3, 3)
    padded = np.zeros((batch, layer.size + 2, layer.size + 2, channels))
    last = layer.stride * (size - 1) + 1
    for row in range(3):
        for column in range(3):
            lines = slice(row, row + last, layer.stride)
            columns = slice(column, column + last, layer.stride)
            padded[:, lines, columns] += taps[..., row, column]
    grad_input = padded[:, 1:-1, 1:-1].transpose(0, 3, 1, 2)
    return grad_input, grad_weight, grad_output.sum(axis=(0, 2, 3))


def _window_rows(layer: Layer, images: Exact) -> Exact:
    """Returns a row of C * 9 elements for each position of the kernel on each image."""
    windows = np.asarray(layer.windows(images), np.float64).transpose(0, 2, 3, 1, 4, 5)
    return windows.reshape(-1, images.shape[1] * _TAPS)
