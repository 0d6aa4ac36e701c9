"""A strided view as the integers that loops read: dtype, offset, sizes and steps."""

from collections.abc import Sequence

from opserve_kernels.tensor import Tensor

VIEW_RANK = 6
VIEW_LENGTH = 2 + 2 * VIEW_RANK


def encode_view(tensor: Tensor, *, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The elements of a tensor, row by row in an order that may differ from its own.

    Dimensions that lie one behind the other in memory become one, so that runs are long.

    Args:
        tensor: The tensor that gives dtype and offset.
        shape: Sizes in the wanted order.
        strides: Steps in elements, for the same dimensions.
    """
    dimensions: list[tuple[int, int]] = []
    for size, step in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if dimensions and dimensions[-1][1] == size * step:
            size *= dimensions.pop()[0]  # noqa: PLW2901
        dimensions.append((size, step))
    padded = [(1, 0)] * (VIEW_RANK - len(dimensions)) + dimensions
    sizes, steps = zip(*padded, strict=True)
    return (tensor.dtype.acl_number, tensor.offset, *sizes, *steps)
