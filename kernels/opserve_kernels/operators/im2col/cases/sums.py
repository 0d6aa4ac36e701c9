"""The elements of a call of im2col: copies, so that every result has one right value."""

from dataclasses import replace
from math import prod

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.sum import Products, Sum, sum_of


def sums(case: Case) -> tuple[Sum, ...]:
    """The elements of out, each a pixel of the image, rounded once to another dtype of out."""
    columns, image = case.tensors["out"], case.tensors["self"]
    products = Products(
        axes=("n", "row", "column")[-len(columns.shape) :],
        terms=1,
        multiply_adds=prod(columns.shape),
        passed=columns.dtype,
    )
    copied = sum_of(case, "out", products, gradient="self")
    # Without a cast nothing leaves the range: an infinity stays one.
    saturates = copied.saturates and image.dtype != columns.dtype
    return (replace(copied, is_exact=True, saturates=saturates),)
