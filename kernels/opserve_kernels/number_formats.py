"""Codes of the number formats that kernels convert to: aclDataType's, and codes for HF32."""

from enum import Enum, auto

from opserve_kernels.tensor import DataType

FLOAT = DataType.FLOAT.acl_number
FLOAT16 = DataType.FLOAT16.acl_number
BF16 = DataType.BF16.acl_number
DOUBLE = DataType.DOUBLE.acl_number
# No aclDataTypes:
FLOAT16_SATURATED = 1016  # FLOAT16 whose greatest value replaces everything beyond its range
BF16_TO_FLOAT16_SATURATED = 1017  # BF16, and the result to FLOAT16_SATURATED
HF32_10_BITS = 1018  # 8 exponent bits and 10 mantissa bits
HF32 = 1019  # 8 exponent bits and 11 mantissa bits

FLOATING_TYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)


class Operands(Enum):
    """The format that operands are rounded to before they are multiplied."""

    AS_GIVEN = auto()
    FLOAT16 = auto()
    HF32 = auto()  # with the mantissa bits of the profile


def promote(first: DataType, second: DataType) -> DataType:
    """The dtype that holds both: DOUBLE with any other, else FLOAT for two different dtypes."""
    if first == second:
        return first
    return DataType.DOUBLE if DataType.DOUBLE in {first, second} else DataType.FLOAT


def result_format(computed: int, dtype: DataType, *, saturates: bool) -> int:
    """The format that a result is rounded to before it is converted to its dtype.

    Args:
        computed: Number format of the computation.
        dtype: Dtype of the result's tensor.
        saturates: Whether the device keeps values within FLOAT16's range.
    """
    if saturates and (computed, dtype) == (BF16, DataType.FLOAT16):
        return BF16_TO_FLOAT16_SATURATED
    if saturates and (computed == FLOAT16 or dtype == DataType.FLOAT16):
        return FLOAT16_SATURATED
    return computed
