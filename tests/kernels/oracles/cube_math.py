"""The operands of convolution products as the cube multiplies them, by cube_math_type."""

from collections.abc import Collection

from kernels.oracles.rounding import Doubles, round_to_half, round_to_hf32, saturate
from kernels.samples.sample import Sample
from opserve_kernels.tensor import DataType

SATURATING = ("ascend910", "ascend310p")


def promoted(sample: Sample, operands: Collection[str]) -> DataType:
    """The dtype that holds all operands."""
    dtypes = {sample.inputs[name].dtype for name in operands}
    if DataType.DOUBLE in dtypes:
        return DataType.DOUBLE
    return dtypes.pop() if len(dtypes) == 1 else DataType.FLOAT


def computed_dtype(sample: Sample, operands: Collection[str]) -> DataType:
    """The dtype of the computation."""
    dtype = promoted(sample, operands)
    without_float = sample.profile in SATURATING and dtype == DataType.FLOAT
    return DataType.FLOAT16 if sample.scalars["cube_math_type"] == 2 or without_float else dtype


def as_multiplied(array: Doubles, name: str, sample: Sample, operands: Collection[str]) -> Doubles:
    """An operand as the cube reads it: a conversion to FLOAT16 saturates where results do."""
    if computed_dtype(sample, operands) == DataType.FLOAT16:
        if sample.inputs[name].dtype == DataType.FLOAT16:
            return array
        return round_to_half(saturate(array) if sample.profile in SATURATING else array)
    is_float = promoted(sample, operands) == DataType.FLOAT
    if sample.scalars["cube_math_type"] in {1, 3} and is_float:
        return round_to_hf32(array)
    return array
