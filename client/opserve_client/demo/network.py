"""A small convolutional network in NumPy, with a parameter for its convolutions."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Layer:
    """A 2-D convolution with a 3x3 kernel and padding 1.

    Attributes:
        name: Name of the layer in parameters and reports.
        channels: Input and output channels.
        size: Height and width of the input.
        stride: Steps of the kernel.
        needs_grad_input: Whether a layer before it is trained.
    """

    name: str
    channels: tuple[int, int]
    size: int
    stride: int
    needs_grad_input: bool

    @property
    def output_size(self) -> int:
        """Height and width of the output."""
        return (self.size - 1) // self.stride + 1

    def windows(self, image: NDArray[np.floating]) -> NDArray[np.floating]:
        """Returns every 3x3 window under the kernel: (N, C, H', W', 3, 3)."""
        padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
        return sliding_window_view(padded, (3, 3), axis=(2, 3))[  # pyright: ignore[reportUnknownVariableType]
            :, :, :: self.stride, :: self.stride
        ]


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of one convolution; grad_input is None where nothing needs it."""

    grad_input: Array | None
    grad_weight: Array
    grad_bias: Array


class Convolutions(Protocol):
    """The convolutions of a network and their gradients, wherever they are computed."""

    def forward(self, layer: Layer, images: Array, weight: Array, bias: Array) -> Array:
        """Returns the convolution of images (N, C, size, size)."""
        ...

    def gradients(
        self, layer: Layer, grad_output: Array, images: Array, weight: Array
    ) -> Gradients:
        """Returns the gradients of the layer's last convolution, which had these operands."""
        ...


FIRST = Layer("first", channels=(1, 8), size=8, stride=1, needs_grad_input=False)
SECOND = Layer("second", channels=(8, 16), size=8, stride=2, needs_grad_input=True)
CLASSES = 10


class DigitsNetwork:
    """Two convolutions with ReLU and a dense layer, trained by momentum.

    Args:
        convolutions: Computes the convolutions and their gradients.
        seed: Seed of the initial weights.
    """

    def __init__(self, convolutions: Convolutions, *, seed: int) -> None:
        random = np.random.default_rng(seed)
        features = SECOND.channels[1] * SECOND.output_size**2
        self._convolutions = convolutions
        self.parameters: dict[str, Array] = {
            "dense.weight": _initial(random, (features, CLASSES), features),
            "dense.bias": np.zeros(CLASSES, np.float32),
        }
        for layer in (FIRST, SECOND):
            fan_in = layer.channels[0] * 9
            shape = (layer.channels[1], layer.channels[0], 3, 3)
            self.parameters[f"{layer.name}.weight"] = _initial(random, shape, fan_in)
            self.parameters[f"{layer.name}.bias"] = np.zeros(layer.channels[1], np.float32)
        self._momentum = {name: np.zeros_like(value) for name, value in self.parameters.items()}

    def logits(self, images: Array) -> Array:
        """Returns the scores of the ten digits: (N, 10)."""
        return self._forward(images)[-1]

    def train(self, images: Array, digits: NDArray[np.int64], *, rate: float) -> float:
        """Trains one step on a batch; returns the mean loss before the step."""
        first, second, scores = self._forward(images)
        probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        rows = np.arange(len(digits))
        loss = float(-np.log(probabilities[rows, digits] + 1e-12).mean())
        probabilities[rows, digits] -= 1.0
        grad_scores = probabilities / np.float32(len(digits))
        grads = self._backward(images, first, second, grad_scores)
        for name, grad in grads.items():
            self._momentum[name] = np.float32(0.9) * self._momentum[name] + grad
            self.parameters[name] -= np.float32(rate) * self._momentum[name]
        return loss

    def _forward(self, images: Array) -> tuple[Array, Array, Array]:
        first = self._activate(FIRST, images)
        second = self._activate(SECOND, first)
        flat = second.reshape(len(images), -1)
        scores = flat @ self.parameters["dense.weight"] + self.parameters["dense.bias"]
        return first, second, scores

    def _activate(self, layer: Layer, images: Array) -> Array:
        weight, bias = (self.parameters[f"{layer.name}.{name}"] for name in ("weight", "bias"))
        output = self._convolutions.forward(layer, images, weight, bias)
        return np.maximum(output, np.float32(0))

    def _backward(
        self, images: Array, first: Array, second: Array, grad_scores: Array
    ) -> dict[str, Array]:
        flat = second.reshape(len(images), -1)
        grads = {"dense.weight": flat.T @ grad_scores, "dense.bias": grad_scores.sum(axis=0)}
        grad_flat = grad_scores @ self.parameters["dense.weight"].T
        grad = grad_flat.reshape(second.shape) * (second > 0)
        through_second = self._gradients(SECOND, grad, first)
        assert through_second.grad_input is not None, "the first convolution is trained through it"
        grad = through_second.grad_input * (first > 0)
        through_first = self._gradients(FIRST, grad, images)
        for layer, through in ((FIRST, through_first), (SECOND, through_second)):
            grads[f"{layer.name}.weight"] = through.grad_weight
            grads[f"{layer.name}.bias"] = through.grad_bias
        return grads

    def _gradients(self, layer: Layer, grad_output: Array, images: Array) -> Gradients:
        weight = self.parameters[f"{layer.name}.weight"]
        return self._convolutions.gradients(layer, grad_output, images, weight)


def _initial(random: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Array:
    return np.asarray(random.standard_normal(shape) * np.sqrt(2.0 / fan_in), np.float32)
