"""aclnnIm2col by naive NumPy loops that share nothing with the kernel: position by position."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.oracles.expectation import Expectation
from kernels.oracles.rounding import GREATEST, round_to
from kernels.samples.sample import Bytes, Sample
from opserve_kernels.tensor import DataType

SATURATING = ("ascend910",)
Array = NDArray[Any]


def columns_of(image: Array, scalars: Mapping[str, Any]) -> Array:
    """Blocks of an image (..., C, H, W) as columns (..., C*kH*kW, L), in the image's dtype."""
    names = ("kernel_size", "dilation", "padding", "stride")
    kernel, dilation, padding, stride = (scalars[name] for name in names)
    high, wide = (
        (image.shape[axis - 2] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1)
        // stride[axis]
        + 1
        for axis in range(2)
    )
    batch, channels = image.shape[:-3], image.shape[-3]
    columns = np.zeros((*batch, channels, *kernel, high, wide), image.dtype)
    for a, b, i, j in product(*map(range, (*kernel, high, wide))):
        h = i * stride[0] + a * dilation[0] - padding[0]
        w = j * stride[1] + b * dilation[1] - padding[1]
        if 0 <= h < image.shape[-2] and 0 <= w < image.shape[-1]:
            columns[..., a, b, i, j] = image[..., h, w]
    return columns.reshape(*batch, channels * kernel[0] * kernel[1], high * wide)


def expected(sample: Sample, buffers: Mapping[str, Bytes]) -> dict[str, Expectation]:
    """Expected outputs of a sample's call, exact; none where self is empty."""
    image = sample.logical(buffers)["self"]
    if image.size == 0:
        return {}
    given, written = sample.inputs["self"].dtype, sample.outputs["out"].dtype
    value = columns_of(image, sample.scalars).astype(np.float64)
    if given != written:
        value = round_to(value, written)
        if sample.profile in SATURATING and written == DataType.FLOAT16:
            value = np.clip(value, -GREATEST[written], GREATEST[written])
    return {"out": Expectation(value=value, tolerance=np.zeros(value.shape))}
