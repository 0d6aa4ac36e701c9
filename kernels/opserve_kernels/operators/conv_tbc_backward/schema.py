"""The arguments and outputs of aclnnConvTbcBackward, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.tensor import Format, Tensor

CALL = "aclnnConvTbcBackward"
"""The vendor's name of the call."""
OUTPUTS = ("grad_input", "grad_weight", "grad_bias")
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = "aclnn_convolution_backward"
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {"pad": "int64_t", "cube_math_type": "int8_t"}
"""The C types of its integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTbcBackward:
    """Arguments of aclnnConvTbcBackwardGetWorkspaceSize; None is a null pointer.

    Attributes:
        self: Gradient of the convolution's output (T + 2*pad + 1 - K, B, Cout), in a dtype of the
            profile, as are all tensors: FLOAT, FLOAT16, BF16 or DOUBLE.
        input: The convolution's input (T, B, Cin).
        weight: The convolution's weight (K, Cin, Cout).
        bias: The convolution's bias (Cout); only its shape and dtype are read.
        pad: Zeros before and after the input, along T.
        cube_math_type: 0 KEEP_DTYPE, 1 ALLOW_FP32_DOWN_PRECISION, 2 USE_FP16, 3 USE_HF32.
        grad_input: The shape and dtype of input; written.
        grad_weight: The shape and dtype of weight; written.
        grad_bias: The shape and dtype of bias; written.
    """

    self: Tensor | None = None
    input: Tensor | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None
    pad: int | None = None
    cube_math_type: int | None = None
    grad_input: Tensor | None = None
    grad_weight: Tensor | None = None
    grad_bias: Tensor | None = None


def infer_outputs(arguments: ConvTbcBackward) -> Mapping[str, Tensor]:
    """The gradients implied by arguments without them: contiguous, without a buffer."""
    missing = (
        ("grad_input", arguments.input, arguments.grad_input),
        ("grad_weight", arguments.weight, arguments.grad_weight),
        ("grad_bias", arguments.bias, arguments.grad_bias),
    )
    return {
        name: Tensor(shape=operand.shape, dtype=operand.dtype, format=operand.format)
        for name, operand, gradient in missing
        if gradient is None and operand is not None
    }
