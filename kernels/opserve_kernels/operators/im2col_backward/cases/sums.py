"""The sums of a call of im2col_backward."""

from math import prod
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.sum import Products, Sum, sum_of


def sums(case: Case) -> tuple[Sum, ...]:
    """The sums of the image, whose elements have a term for each block that covers them."""
    columns, image = case.tensors["grad_output"], case.tensors["out"]
    products = Products(
        axes=("n", "c", "h", "w")[-len(image.shape) :],
        terms=prod(cast("tuple[int, ...]", case.arguments["kernel_size"])),
        multiply_adds=prod(columns.shape),
        passed=columns.dtype,
    )
    return (sum_of(case, "out", products, gradient="grad_output"),)
