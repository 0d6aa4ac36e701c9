"""The arguments and outputs of aclnnConvolutionBackward, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.number_formats import FLOATING_TYPES, promote
from opserve_kernels.tensor import DataType, Format, Tensor

CALL = "aclnnConvolutionBackward"
"""The vendor's name of the call."""
OUTPUTS = ("grad_input", "grad_weight", "grad_bias")
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = "aclnn_convolution_backward"
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {"groups": "int", "cube_math_type": "int8_t"}
"""The C types of its integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionBackward:
    """Arguments of aclnnConvolutionBackwardGetWorkspaceSize; None is a null pointer.

    Shapes are those of a convolution in 1, 2 or 3 spatial dimensions S: input (N, C, *S), weight
    (K, C/groups, *kernel) and grad_output (N, K, *S'); for a transposed one weight is
    (C, K/groups, *kernel).

    Attributes:
        grad_output: Gradient of the convolution's output, in a dtype of the profile, as are all
            tensors: FLOAT, FLOAT16, BF16 or DOUBLE.
        input: The convolution's input.
        weight: The convolution's weight.
        bias_sizes: Shape of the bias: one entry, its channels.
        stride: Steps of the kernel, one for each spatial dimension, at least 1.
        padding: Zeros around the input, one for each spatial dimension, or 4 in 2-D: up, down,
            left, right.
        dilation: Distance between kernel taps, one for each spatial dimension, at least 1.
        transposed: Whether the convolution is a transposed one.
        output_padding: Extra output size of a transposed convolution; zeros otherwise.
        groups: Groups of channels, at least 1.
        output_mask: Which of grad_input, grad_weight and grad_bias to compute.
        cube_math_type: 0 KEEP_DTYPE, 1 ALLOW_FP32_DOWN_PRECISION, 2 USE_FP16, 3 USE_HF32.
        grad_input: Written where output_mask[0]; the shape of input.
        grad_weight: Written where output_mask[1]; the shape of weight.
        grad_bias: Written where output_mask[2]; one element for each output channel.
    """

    grad_output: Tensor | None = None
    input: Tensor | None = None
    weight: Tensor | None = None
    bias_sizes: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    padding: tuple[int, ...] | None = None
    dilation: tuple[int, ...] | None = None
    transposed: bool | None = None
    output_padding: tuple[int, ...] | None = None
    groups: int | None = None
    output_mask: tuple[bool, ...] | None = None
    cube_math_type: int | None = None
    grad_input: Tensor | None = None
    grad_weight: Tensor | None = None
    grad_bias: Tensor | None = None


def infer_outputs(arguments: ConvolutionBackward) -> Mapping[str, Tensor]:
    """The gradients implied by arguments without them: contiguous, without a buffer."""
    grad_output, mask = arguments.grad_output, arguments.output_mask
    if grad_output is None or mask is None or len(mask) != len(OUTPUTS):
        return {}
    outputs: dict[str, Tensor] = {}
    if mask[0] and arguments.grad_input is None and arguments.input is not None:
        outputs["grad_input"] = _gradient_of(arguments.input, grad_output)
    if mask[1] and arguments.grad_weight is None and arguments.weight is not None:
        outputs["grad_weight"] = _gradient_of(arguments.weight, grad_output)
    bias = grad_output.shape[1:2] or arguments.bias_sizes
    if mask[2] and arguments.grad_bias is None and bias is not None:
        outputs["grad_bias"] = Tensor(shape=bias, dtype=grad_output.dtype)
    return outputs


def _gradient_of(tensor: Tensor, grad_output: Tensor) -> Tensor:
    known = {tensor.dtype, grad_output.dtype} <= {*FLOATING_TYPES, DataType.DOUBLE}
    dtype = promote(tensor.dtype, grad_output.dtype) if known else tensor.dtype
    return Tensor(shape=tensor.shape, dtype=dtype, format=tensor.format)
