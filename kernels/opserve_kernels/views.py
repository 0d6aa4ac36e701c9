"""The record of a strided view: dtype, offset, sizes and steps."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from opserve_kernels.tensor import DataType, Tensor

VIEW_RANK = 6
LAST_AXIS = VIEW_RANK - 1
Axis = tuple[int, int]
"""Size, and step in elements."""
Axes = Annotated[tuple[int, ...], VIEW_RANK]


class View(NamedTuple):
    """Elements of a buffer, in row-major order of the axes.

    Attributes:
        element_type: Number of the dtype.
        offset: Elements from the start of the buffer to the first.
        sizes: Sizes of the axes; unused axes come first and have size 1.
        steps: Distance of neighbouring elements along each axis.
    """

    element_type: int
    offset: int
    sizes: Axes
    steps: Axes


def view_of(tensor: Tensor) -> View:
    """The elements of a tensor in row-major order."""
    axes = zip(tensor.shape, tensor.element_strides, strict=True)
    return view_of_axes(tensor.dtype, tensor.offset, tuple(axes))


def view_of_axes(dtype: DataType, offset: int, axes: Sequence[Axis]) -> View:
    """Elements in row-major order of these axes, an order that may differ from the tensor's.

    Axes that are contiguous with each other are merged, so that runs are long.

    Args:
        dtype: Element type.
        offset: Elements from the start of the buffer to the first.
        axes: At most VIEW_RANK axes after merging.
    """
    merged = merge_axes(axes)
    assert len(merged) <= VIEW_RANK, "an operator checks the rank before"
    padded = [(1, 0)] * (VIEW_RANK - len(merged)) + merged
    sizes, steps = zip(*padded, strict=True)
    return View(element_type=dtype.acl_number, offset=offset, sizes=sizes, steps=steps)


def merge_axes(axes: Sequence[Axis]) -> list[Axis]:
    """The same elements with as few axes as possible, none of size 1."""
    merged: list[Axis] = []
    for size, step in axes:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * step:
            merged[-1] = (merged[-1][0] * size, step)
        else:
            merged.append((size, step))
    return merged
