"""The arguments and outputs of aclnnConvTbc, as the vendor's source and sample lay them out."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.number_formats import FLOATING_TYPES, promote
from opserve_kernels.tensor import DataType, Format, Tensor

CALL = "aclnnConvTbc"
"""The vendor's name of the call."""
OUTPUTS = ("out",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = "aclnn_convolution"
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {"pad": "int64_t", "cube_math_type": "int8_t"}
"""The C types of its integers."""
RANK = 3
_DTYPES = {*FLOATING_TYPES, DataType.DOUBLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTbc:
    """Arguments of aclnnConvTbcGetWorkspaceSize; None is a null pointer.

    Attributes:
        self: (T, B, C): times, entries, channels; FLOAT, FLOAT16, BF16 or DOUBLE, as the profile
            has them.
        weight: (K, C, C'), in self's dtype.
        bias: (C',), in a dtype of its own.
        pad: Zeros before and after the times, at least 0.
        out: Written: (T + 2*pad - K + 1, B, C').
        cube_math_type: 0 KEEP_DTYPE, 1 ALLOW_FP32_DOWN_PRECISION, 2 USE_FP16, 3 USE_HF32,
            4 USE_FP32_ADD.
    """

    self: Tensor | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None
    pad: int | None = None
    out: Tensor | None = None
    cube_math_type: int | None = None


def infer_outputs(arguments: ConvTbc) -> Mapping[str, Tensor]:
    """The output implied by arguments without it: contiguous, without a buffer."""
    image, weight = arguments.self, arguments.weight
    if arguments.out is not None or image is None or weight is None:
        return {}
    known = {image.dtype, weight.dtype} <= _DTYPES
    dtype = promote(image.dtype, weight.dtype) if known else image.dtype
    shape = image.shape
    if image.rank == weight.rank == RANK:
        times, batch, _ = image.shape
        taps, _, channels = weight.shape
        shape = (max(times + 2 * (arguments.pad or 0) - taps + 1, 0), batch, channels)
    return {"out": Tensor(shape=shape, dtype=dtype)}
