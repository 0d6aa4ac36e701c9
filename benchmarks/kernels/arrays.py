"""Arrays of a call, the same for both sides, random by a seed from the shape's name."""

from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.kernels.shapes import ConvolutionShape, FoldShape, Sizes
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

Array = NDArray[Any]

_ALIGNMENT = 512  # of buffers in a device's memory


def convolution_arrays(shape: ConvolutionShape, dtype: DataType) -> dict[str, Array]:
    """Returns grad_output, input and weight."""
    return {
        name: _normal(f"{shape.name} {name}", size, dtype)
        for name, size in (
            ("grad_output", shape.output_shape),
            ("input", shape.input_shape),
            ("weight", shape.weight_shape),
        )
    }


def forward_arrays(shape: ConvolutionShape) -> dict[str, Array]:
    """Returns input, weight and bias."""
    arrays = convolution_arrays(shape, DataType.FLOAT)
    bias = _normal(f"{shape.name} bias", (shape.out_channels,), DataType.FLOAT)
    return {"input": arrays["input"], "weight": arrays["weight"], "bias": bias}


def fold_columns(shape: FoldShape) -> Array:
    """Returns the columns to fold."""
    return _normal(shape.name, shape.columns_shape, DataType.FLOAT)


def unfold_image(shape: FoldShape) -> Array:
    """Returns the images to unfold."""
    return _normal(shape.name, shape.image_shape, DataType.FLOAT)


def aligned_bytes(size_bytes: int) -> NDArray[np.uint8]:
    """Returns uninitialised memory with the alignment of a device's buffers."""
    memory = np.empty(size_bytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size_bytes]


def aligned_copy(array: Array) -> NDArray[np.uint8]:
    """Returns the bytes of an array."""
    copied = aligned_bytes(array.nbytes)
    copied[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return copied


def relative_error(found: Array, exact: Array) -> float:
    """Returns the largest difference, relative to the largest exact value."""
    difference = np.abs(found.astype(np.float64) - exact).max()
    return float(difference / np.abs(exact).max())


def _normal(name: str, size: Sizes, dtype: DataType) -> Array:
    random = np.random.default_rng(crc32(name.encode()))
    return random.standard_normal(size, np.float32).astype(NUMPY_DTYPES[dtype])
