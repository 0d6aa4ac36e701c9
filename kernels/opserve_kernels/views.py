"""A strided view as the integers that loops read: dtype, offset, sizes and steps."""

from collections.abc import Sequence

from opserve_kernels.tensor import DataType, Tensor

VIEW_RANK = 6
VIEW_LENGTH = 2 + 2 * VIEW_RANK
Axis = tuple[int, int]
"""Size, and step in elements."""


def encode_view(tensor: Tensor) -> tuple[int, ...]:
    """The elements of a tensor in row-major order."""
    axes = zip(tensor.shape, tensor.element_strides, strict=True)
    return encode_axes(tensor.dtype, tensor.offset, tuple(axes))


def encode_axes(dtype: DataType, offset: int, axes: Sequence[Axis]) -> tuple[int, ...]:
    """Elements in row-major order of these axes, which may be another than their tensor's.

    Axes that lie one behind the other in memory become one, so that runs are long.

    Args:
        dtype: Element type.
        offset: Elements from the start of the buffer to the first.
        axes: At most VIEW_RANK that do not merge.
    """
    merged = merge_axes(axes)
    padded = [(1, 0)] * (VIEW_RANK - len(merged)) + merged
    sizes, steps = zip(*padded, strict=True)
    return (dtype.acl_number, offset, *sizes, *steps)


def merge_axes(axes: Sequence[Axis]) -> list[Axis]:
    """The same elements with as few axes as can be, none of which has size 1."""
    merged: list[Axis] = []
    for size, step in axes:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * step:
            merged[-1] = (merged[-1][0] * size, step)
        else:
            merged.append((size, step))
    return merged
