"""Roundings of a forward convolution's operands, bias and output, by profile and cube_math_type."""

from dataclasses import dataclass

from opserve_kernels.cube_math import AS_GIVEN, operand_format
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.sizes import RANK_3D
from opserve_kernels.number_formats import Operands, promote, result_format
from opserve_kernels.profiles import Profile
from opserve_kernels.tensor import DataType, Tensor

_POINTWISE_POSITIONS = 65536  # of a pointwise 3-D call whose bias is not rounded, fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class Roundings:
    """Number formats: operands and bias are rounded once loaded, sums before the bias is added."""

    input: int
    weight: int
    bias: int
    unbiased: int
    output: int


def roundings_of(call: Call, profile: Profile) -> Roundings:
    """The number formats of a checked call."""
    computation = call.computation(profile.name)
    assert computation is not None
    computed = computation.dtype
    unbiased, rounded = AS_GIVEN, computed
    if call.bias and adds_bias_afterwards(call, profile):
        # The vendor's separate addition takes a sum that has been rounded, and rounds once more.
        unbiased = result_format(computed.acl_number, computed, saturates=profile.saturates)
        rounded = promote(computed, _dtype_of_bias(call.bias, call, profile))
    return Roundings(
        input=operand_format(call.input, computation.operands, profile),
        weight=operand_format(call.weight, computation.operands, profile),
        bias=_bias(call.bias, call, profile),
        unbiased=unbiased,
        output=result_format(rounded.acl_number, call.output.dtype, saturates=profile.saturates),
    )


def adds_bias_afterwards(call: Call, profile: Profile) -> bool:
    """Whether the bias is added to sums that are rounded already: transposed, in 3-D."""
    return call.steps.transposed and call.input.rank == RANK_3D and not profile.is_reference


def bias_operands(call: Call, profile: Profile) -> Operands:
    """FLOAT16 where the products are computed in it; any other computation keeps the bias."""
    computation = call.computation(profile.name)
    assert computation is not None
    if profile.is_reference or computation.dtype != DataType.FLOAT16:
        return Operands.AS_GIVEN
    # A product without a FLOAT cube has no wider bias; A2 keeps it where the kernel is transposed.
    if profile.name == "ascend910b" and (call.steps.transposed or _keeps_float_bias(call)):
        return Operands.AS_GIVEN
    return Operands.FLOAT16


def _dtype_of_bias(bias: Tensor, call: Call, profile: Profile) -> DataType:
    """As it is added."""
    is_half = bias_operands(call, profile) is Operands.FLOAT16
    return DataType.FLOAT16 if is_half else bias.dtype


def _bias(bias: Tensor | None, call: Call, profile: Profile) -> int:
    if bias is None:
        return AS_GIVEN
    return operand_format(bias, bias_operands(call, profile), profile)


def _keeps_float_bias(call: Call) -> bool:
    """Whether a pointwise 3-D call adds its bias in FLOAT, whatever its dtype is."""
    positions = 1
    for size in call.input.shape[2:]:
        positions *= size
    return (
        call.input.rank == RANK_3D
        and not call.is_matrix_product
        and set(call.weight.shape[2:]) | set(call.steps.stride) | set(call.steps.dilation) == {1}
        and not any(call.steps.padding)
        and call.steps.groups == 1
        and positions < _POINTWISE_POSITIONS
    )
