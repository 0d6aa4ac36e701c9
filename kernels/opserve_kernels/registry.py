"""Every operator, by name."""

from collections.abc import Mapping
from typing import Any

from opserve_kernels import convolution_backward, im2col_backward
from opserve_kernels.operator import Operator

OPERATORS: Mapping[str, Operator[Any]] = {
    operator.name: operator
    for operator in (convolution_backward.OPERATOR, im2col_backward.OPERATOR)
}
