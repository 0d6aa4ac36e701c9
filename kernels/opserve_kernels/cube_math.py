"""The computation of aclnn's convolution products: by profile, dtype and cube_math_type."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce

from opserve_kernels.errors import invalid_argument
from opserve_kernels.number_formats import (
    FLOAT,
    FLOAT16,
    HF32,
    HF32_10_BITS,
    Operands,
    promote,
    result_format,
)
from opserve_kernels.operator import Limit
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import check_range, supported_elsewhere
from opserve_kernels.tensor import DataType, Tensor

_FLOAT, _FLOAT16, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_HF32 = {10: HF32_10_BITS, 11: HF32}  # by mantissa bits

KEEP_DTYPE, USE_FP16, USE_FP32_ADD = 0, 2, 4
"""Values of cube_math_type; forward convolutions alone accept the last, which is the first."""
AS_GIVEN = FLOAT  # no loop rounds to it, not even those for DOUBLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """The computation of a call's products.

    Attributes:
        operands: Rounding of the operands.
        dtype: Dtype of the computation; an image is rounded to it before its own dtype, except for
            DOUBLE, from which every result is rounded directly to its own.
    """

    operands: Operands = Operands.AS_GIVEN
    dtype: DataType


Computations = tuple[Computation | None, Computation | None, Computation | None, Computation | None]
"""By cube_math_type: KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32; None: rejected."""

_IN_FLOAT = Computation(dtype=_FLOAT)
_IN_HF32 = Computation(dtype=_FLOAT, operands=Operands.HF32)
_IN_HALF = Computation(dtype=_FLOAT16)
_CAST_TO_HALF = Computation(dtype=_FLOAT16, operands=Operands.FLOAT16)
_IN_BF16 = Computation(dtype=_BF16)
_EXACT = Computation(dtype=DataType.DOUBLE)
_REFERENCE_HF32 = Computation(dtype=DataType.DOUBLE, operands=Operands.HF32)
_REFERENCE_HALF = Computation(dtype=DataType.DOUBLE, operands=Operands.FLOAT16)

_WITHOUT_FLOAT_CUBE: Mapping[DataType, Computations] = {
    _FLOAT: (None, _CAST_TO_HALF, _CAST_TO_HALF, None),
    _FLOAT16: (_IN_HALF, _IN_HALF, _IN_HALF, _IN_HALF),
}
_WITH_FLOAT_CUBE: Mapping[DataType, Computations] = {
    _FLOAT: (_IN_FLOAT, _IN_HF32, _CAST_TO_HALF, _IN_HF32),
    _FLOAT16: (_IN_HALF, _IN_HALF, _IN_HALF, _IN_HALF),
    _BF16: (_IN_BF16, _IN_BF16, _CAST_TO_HALF, _IN_BF16),
}
COMPUTATIONS: Mapping[str, Mapping[DataType, Computations]] = {
    "ascend910b": _WITH_FLOAT_CUBE,
    "ascend310b": _WITH_FLOAT_CUBE,
    "ascend910": _WITHOUT_FLOAT_CUBE,
    "ascend310p": _WITHOUT_FLOAT_CUBE,
    "reference": {
        _FLOAT: (_EXACT, _REFERENCE_HF32, _REFERENCE_HALF, _REFERENCE_HF32),
        _FLOAT16: (_EXACT, _EXACT, _EXACT, _EXACT),
        _BF16: (_EXACT, _EXACT, _REFERENCE_HALF, _EXACT),
        DataType.DOUBLE: (_EXACT, _EXACT, _REFERENCE_HALF, _EXACT),
    },
}
"""By profile, and by the dtype that holds all operands."""


def promoted(*dtypes: DataType) -> DataType:
    """The dtype that holds all of an operator's operands."""
    return reduce(promote, dtypes)


def computation_of(profile: str, dtype: DataType, kind: int) -> Computation | None:
    """The computation of operands held by a dtype; None if the profile does not support it."""
    computations = COMPUTATIONS[profile].get(dtype)
    kind = KEEP_DTYPE if kind == USE_FP32_ADD else kind
    return None if computations is None else computations[kind]


def supported_kind(profile: str, dtype: DataType, kind: int) -> int | None:
    """The cube_math_type, or the first that the profile supports; None without any."""
    kinds = (kind, *range(len(COMPUTATIONS[profile].get(dtype, ()))))
    return next((one for one in kinds if computation_of(profile, dtype, one) is not None), None)


def check_cube_math_type(
    kind: int, dtype: DataType, limit: Limit, profile: str, profiles: Collection[str]
) -> None:
    """Rejects a cube_math_type that the profile lacks for the dtype that holds all operands.

    Args:
        kind: The argument.
        dtype: The dtype that holds all operands.
        limit: Parameter and range of the argument.
        profile: Profile of the device.
        profiles: Profiles of the operator.
    """
    check_range(limit.parameter, kind, least=limit.least, most=limit.most)
    if computation_of(profile, dtype, kind) is not None:
        return
    computations = COMPUTATIONS[profile][dtype]
    kinds = [str(value) for value, how in enumerate(computations) if how is not None]
    able = [name for name in profiles if computation_of(name, dtype, kind) is not None]
    raise invalid_argument(
        limit.parameter,
        given=f"{kind} for a computation in {dtype}",
        allowed=f"{' or '.join(kinds)} on {profile}, which computes {dtype} as FLOAT16"
        f"{supported_elsewhere(str(kind), able)}",
    )


def operand_format(tensor: Tensor, operands: Operands, profile: Profile) -> int:
    """The format that an operand is rounded to once loaded.

    A tensor that already has the wanted dtype is not converted, so it does not saturate.
    """
    match operands:
        case Operands.HF32:
            return _HF32[profile.hf32_mantissa_bits]
        case Operands.FLOAT16 if tensor.dtype != DataType.FLOAT16:
            return result_format(FLOAT16, DataType.FLOAT16, saturates=profile.saturates)
        case _:
            return AS_GIVEN


def gradient_format(tensor: Tensor | None, dtype: DataType, profile: Profile) -> int:
    """The format of a float32 sum, which is rounded to a dtype before the tensor's own.

    A float64 sum on the profile `reference` is rounded directly to the tensor's
    (reference_strided.store).
    """
    if tensor is None:
        return AS_GIVEN
    return result_format(dtype.acl_number, tensor.dtype, saturates=profile.saturates)
