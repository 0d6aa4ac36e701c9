"""The sums of a call of deconv_grad_filter."""

from math import prod

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.sum import Products, Sum, sum_of


def sums(case: Case) -> tuple[Sum, ...]:
    """The sums of the gradient, with a term for each place of x_data."""
    places = prod(case.tensors["x_data"].shape[:3])
    products = Products(
        axes=("g", "k", "c"),
        terms=places,
        multiply_adds=places * prod(case.tensors["dw_data"].shape),
    )
    return (sum_of(case, "dw_data", products, gradient="dy_data"),)
