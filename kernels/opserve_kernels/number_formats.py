"""Codes of the number formats that kernels convert to: aclDataType's, and one for HF32."""

from opserve_kernels.tensor import DataType

FLOAT = DataType.FLOAT.acl_number
FLOAT16 = DataType.FLOAT16.acl_number
BF16 = DataType.BF16.acl_number
HF32 = 1019  # no aclDataType: 8 exponent bits and 11 mantissa bits

FLOATING_TYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)


def promote(first: DataType, second: DataType) -> DataType:
    """The dtype that holds both: itself for equal ones, FLOAT for any two different ones."""
    return first if first == second else DataType.FLOAT
