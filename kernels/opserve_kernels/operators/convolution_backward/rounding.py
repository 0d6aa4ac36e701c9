"""Roundings of a call's operands and results, by profile and cube_math_type."""

from dataclasses import dataclass

from opserve_kernels.number_formats import (
    FLOAT,
    FLOAT16,
    HF32,
    HF32_10_BITS,
    Operands,
    result_format,
)
from opserve_kernels.operators.convolution_backward.call import Call
from opserve_kernels.operators.convolution_backward.contract import PROFILE_RULES, Computation
from opserve_kernels.profiles import Profile
from opserve_kernels.tensor import DataType, Tensor

AS_GIVEN = FLOAT  # no loop rounds to it, not even those for DOUBLE
_HF32 = {10: HF32_10_BITS, 11: HF32}  # by mantissa bits


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
    computation = PROFILE_RULES[profile.name].computations[call.promoted][call.cube_math_type]
    assert computation is not None
    return Roundings(
        grad_output=_operand(call.grad_output, computation, profile),
        input=_operand(call.input, computation, profile),
        weight=_operand(call.weight, computation, profile),
        grad_input=_result(call.grad_input, computation.dtype, profile),
        grad_weight=_result(call.grad_weight, _weight_dtype(call, computation, profile), profile),
        grad_bias=_result(call.grad_bias, call.grad_output.dtype, profile),
    )


def _operand(tensor: Tensor, computation: Computation, profile: Profile) -> int:
    """A tensor that already has the wanted dtype is not converted, so it does not saturate."""
    match computation.operands:
        case Operands.HF32:
            return _HF32[profile.hf32_mantissa_bits]
        case Operands.FLOAT16 if tensor.dtype != DataType.FLOAT16:
            return result_format(FLOAT16, DataType.FLOAT16, saturates=profile.saturates)
        case _:
            return AS_GIVEN


def _result(tensor: Tensor | None, dtype: DataType, profile: Profile) -> int:
    """The format of a float32 sum, which is rounded to a dtype before the tensor's own.

    A float64 sum on the profile `reference` is rounded directly to the tensor's
    (reference_strided.store).
    """
    if tensor is None:
        return AS_GIVEN
    return result_format(dtype.acl_number, tensor.dtype, saturates=profile.saturates)


def _weight_dtype(call: Call, computation: Computation, profile: Profile) -> DataType:
    """FLOAT, as in the vendor's source; FLOAT16 before FLOAT for groups computed in 16 bits."""
    gradient = call.grad_weight
    narrow = computation.dtype in {DataType.FLOAT16, DataType.BF16} and call.groups > 1
    narrows = PROFILE_RULES[profile.name].narrows_grouped_weight and narrow
    if narrows and gradient is not None and gradient.dtype == DataType.FLOAT:
        return DataType.FLOAT16
    return DataType.FLOAT
