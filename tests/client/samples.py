"""Calls and arrays that many tests of the client use."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from opserve_client import ConvolutionBackward, CubeMathType, Im2colBackward

Array = NDArray[Any]


def numbers(*shape: int, dtype: DTypeLike = np.float32, seed: int = 7) -> Array:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def convolution(**changes: object) -> ConvolutionBackward:
    """A 2-D convolution, 3x3 with padding 1, on two images; what is given replaces arguments."""
    arguments: dict[str, Any] = {
        "grad_output": numbers(2, 4, 5, 5, seed=1),
        "input": numbers(2, 3, 5, 5, seed=2),
        "weight": numbers(4, 3, 3, 3, seed=3),
        "bias_sizes": [4],
        "stride": [1, 1],
        "padding": [1, 1],
        "dilation": [1, 1],
        "transposed": False,
        "output_padding": [0, 0],
        "groups": 1,
        "output_mask": [True, True, True],
        "cube_math_type": CubeMathType.KEEP_DTYPE,
    }
    arguments.update(changes)
    return ConvolutionBackward(**arguments)


def columns(**changes: object) -> Im2colBackward:
    """An Im2colBackward of null pointers; what is given replaces them."""
    arguments: dict[str, Any] = {
        "grad_output": None,
        "input_size": None,
        "kernel_size": None,
        "dilation": None,
        "padding": None,
        "stride": None,
    }
    arguments.update(changes)
    return Im2colBackward(**arguments)
