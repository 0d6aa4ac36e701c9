"""Targets of tests: im2col_backward in NumPy, right and wrong in different ways."""

import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Pair = tuple[int, int]


def fold(  # the operator's arguments
    *,
    grad_output: Array,
    input_size: Pair,
    kernel_size: Pair,
    dilation: Pair,
    padding: Pair,
    stride: Pair,
) -> Array:
    """Of FLOAT, one image or several."""
    if grad_output.dtype != np.float32:
        raise NotImplementedError("FLOAT only")
    (high, wide), (kh, kw) = input_size, kernel_size
    rows, columns = (
        (input_size[i] + 2 * padding[i] - dilation[i] * (kernel_size[i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    )
    blocks = grad_output.reshape(-1, grad_output.shape[-2] // (kh * kw), kh, kw, rows, columns)
    image = np.zeros((*blocks.shape[:2], high + 2 * padding[0], wide + 2 * padding[1]), np.float32)
    for i, j in np.ndindex(kh, kw):
        down = [i * dilation[0] + row * stride[0] for row in range(rows)]
        along = [j * dilation[1] + column * stride[1] for column in range(columns)]
        image[:, :, np.array(down)[:, None], along] += blocks[:, :, i, j]
    inner = image[:, :, padding[0] : padding[0] + high, padding[1] : padding[1] + wide]
    return inner.reshape(*grad_output.shape[:-2], *inner.shape[1:])


def folded(arguments: dict[str, Any]) -> Array:
    names = {"operator", "profile"}
    return fold(**{name: value for name, value in arguments.items() if name not in names})


def one_wrong(**arguments: Any) -> dict[str, Array]:
    out = folded(arguments)
    out.reshape(-1)[0] += 1
    return {"out": out}


def careless(**arguments: Any) -> Array:
    out = folded(arguments)
    arguments["grad_output"].reshape(-1)[0] = 7
    return out


def wide(**arguments: Any) -> Array:
    return folded(arguments).astype(np.float64)


def giving_nothing(**_: Any) -> dict[str, Array]:
    return {}


def raising(**_: Any) -> Array:
    raise ValueError("no such kernel")


def ending(**_: Any) -> Array:
    os._exit(3)


def lasting(**_: Any) -> Array:
    time.sleep(3600)
    raise AssertionError
