"""The sums of a call of conv_tbc_backward."""

from math import prod

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.cube_math import case_computation
from opserve_kernels.cases.sum import Products, Sum, sum_of
from opserve_kernels.operators.conv_tbc_backward.contract import OPERANDS
from opserve_kernels.tensor import DataType


def sums(case: Case) -> tuple[Sum, ...]:
    """The sums of the three gradients."""
    grad, weight = case.tensors["self"], case.tensors["weight"].shape
    positions, batch, outputs = grad.shape
    products = positions * batch * prod(weight)
    found = {
        "grad_input": Products(
            axes=("w", "n", "c"),
            terms=weight[0] * outputs,
            multiply_adds=products,
            passed=case_computation(case, OPERANDS).dtype,
        ),
        "grad_weight": Products(
            axes=("kw", "c", "k"),
            terms=positions * batch,
            multiply_adds=products,
            passed=DataType.FLOAT,
        ),
        "grad_bias": Products(
            axes=("c",),
            terms=positions * batch,
            multiply_adds=prod(grad.shape),
            passed=grad.dtype,
        ),
    }
    return tuple(sum_of(case, name, found[name], gradient="self") for name in case.written)
