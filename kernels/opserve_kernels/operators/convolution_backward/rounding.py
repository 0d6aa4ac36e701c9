"""Roundings of a call's operands and results, by profile and cube_math_type."""

from dataclasses import dataclass

from opserve_kernels.cube_math import (
    Computation,
    computation_of,
    gradient_format,
    operand_format,
)
from opserve_kernels.operators.convolution_backward.call import Call
from opserve_kernels.operators.convolution_backward.contract import PROFILE_RULES
from opserve_kernels.profiles import Profile
from opserve_kernels.tensor import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Roundings:
    """Number formats: operands are rounded once loaded, results before their own dtype."""

    grad_output: int
    input: int
    weight: int
    grad_input: int
    grad_weight: int
    grad_bias: int


def roundings_of(call: Call, profile: Profile) -> Roundings:
    """The number formats of a checked call."""
    computation = computation_of(profile.name, call.promoted, call.cube_math_type)
    assert computation is not None
    return Roundings(
        grad_output=operand_format(call.grad_output, computation.operands, profile),
        input=operand_format(call.input, computation.operands, profile),
        weight=operand_format(call.weight, computation.operands, profile),
        grad_input=gradient_format(call.grad_input, computation.dtype, profile),
        grad_weight=gradient_format(
            call.grad_weight, _weight_dtype(call, computation, profile), profile
        ),
        grad_bias=gradient_format(call.grad_bias, call.grad_output.dtype, profile),
    )


def _weight_dtype(call: Call, computation: Computation, profile: Profile) -> DataType:
    """FLOAT, as in the vendor's source; FLOAT16 before FLOAT for groups computed in 16 bits."""
    gradient = call.grad_weight
    narrow = computation.dtype in {DataType.FLOAT16, DataType.BF16} and call.groups > 1
    narrows = PROFILE_RULES[profile.name].narrows_grouped_weight and narrow
    if narrows and gradient is not None and gradient.dtype == DataType.FLOAT:
        return DataType.FLOAT16
    return DataType.FLOAT
