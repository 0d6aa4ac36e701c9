"""Rows of an image that no tap reads: those that a stride skips along an axis with a single tap."""

from collections.abc import Sequence
from dataclasses import replace

from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.convolution import SPATIAL_RANK, Triple
from opserve_kernels.views import Axis


def without_unread_rows(product: Correlation) -> Correlation:
    """The same product of the image's other rows alone, and of a smaller stride."""
    convolution = product.convolution
    channels, positions = product.source.parts
    size, stride = list(convolution.input_size), list(convolution.stride)
    axes: list[Axis] = list(positions)
    for axis in range(SPATIAL_RANK):
        place = axis - SPATIAL_RANK + len(axes)
        last = (convolution.output_size[axis] - 1) * stride[axis]
        is_padded = convolution.padding[axis] > 0 or last >= size[axis]
        if convolution.kernel_size[axis] == 1 and stride[axis] > 1 and not is_padded and place > 0:
            axes[place] = convolution.output_size[axis], axes[place][1] * stride[axis]
            size[axis], stride[axis] = convolution.output_size[axis], 1
    return replace(
        product,
        convolution=replace(convolution, input_size=_triple(size), stride=_triple(stride)),
        source=replace(product.source, parts=(channels, tuple(axes))),
    )


def _triple(values: Sequence[int]) -> Triple:
    first, second, third = values
    return first, second, third
