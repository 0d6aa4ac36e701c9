"""The sums of a call of conv2d_backprop_input."""

from math import prod
from typing import cast

from opserve_kernels.cases.block_cases import groups_of, products_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.sum import Products, Sum, sum_of


def sums(case: Case) -> tuple[Sum, ...]:
    """The sums of the image, with a term for each tap and output channel of a group."""
    weight = cast("tuple[int, ...]", case.arguments["filter_sizes"])
    groups, _ = groups_of(case)
    products = Products(
        axes=("n", "c1", "h", "w", "c0"),
        terms=weight[0] // groups * prod(weight[2:]),
        multiply_adds=products_of(case),
        clamps=True,
    )
    return (sum_of(case, "res_tensor", products, gradient="out_backprop"),)
