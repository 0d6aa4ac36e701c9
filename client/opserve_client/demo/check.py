"""Comparison of gradients with float64 ones, with a bound derived from the reduction length.

For each element |given - exact| <= u*|exact| + (4*sqrt(K) + 2)*u*magnitude, where u = 2^-24, K
is the number of products in its sum and magnitude the same sum of absolute values.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opserve_client.demo.network import Array, Convolution, Gradients

UNIT_ROUNDOFF = 2.0**-24
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

    def compare(
        self, layer: Convolution, operands: tuple[Array, Array, Array], given: Gradients
    ) -> None:
        """Compares the gradients of one call; operands are grad_output, images and weight."""
        exact = exact_gradients(layer, *(array.astype(np.float64) for array in operands))
        magnitude = exact_gradients(layer, *(abs(array.astype(np.float64)) for array in operands))
        pixels = len(operands[0]) * layer.output_size**2
        lengths = (layer.channels[1] * 9, pixels, pixels)
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


def exact_gradients(
    layer: Convolution, grad_output: Exact, images: Exact, weight: Exact
) -> tuple[Exact, Exact, Exact]:
    """Returns grad_input, grad_weight and grad_bias in float64, from the forward definition."""
    windows = layer.windows(images)
    grad_weight = np.einsum("nkhw,nchwij->kcij", grad_output, windows, optimize=True)
    taps = np.einsum("nkhw,kcij->nchwij", grad_output, weight, optimize=True)
    padded = np.zeros((*images.shape[:2], layer.size + 2, layer.size + 2))
    last = layer.stride * (layer.output_size - 1) + 1
    for row in range(3):
        for column in range(3):
            rows = slice(row, row + last, layer.stride)
            columns = slice(column, column + last, layer.stride)
            padded[:, :, rows, columns] += taps[..., row, column]
    return padded[:, :, 1:-1, 1:-1], grad_weight, grad_output.sum(axis=(0, 2, 3))
