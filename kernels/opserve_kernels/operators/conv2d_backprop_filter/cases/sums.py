"""The sums of a call of conv2d_backprop_filter."""

from opserve_kernels.cases.block_cases import products_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.sum import Products, Sum, sum_of


def sums(case: Case) -> tuple[Sum, ...]:
    """The sums of the weight, with a term for each place of out_backprop."""
    batch, _, high, wide, _ = case.tensors["out_backprop"].shape
    products = Products(
        axes=("gc1k", "n1", "n0", "c0"),
        terms=batch * high * wide,
        multiply_adds=products_of(case),
    )
    return (sum_of(case, "res_tensor", products, gradient="out_backprop"),)
