"""aclnnConvolutionBackward: the gradients of a convolution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple

from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument
from opserve_kernels.operators.convolution_backward import schema as kernel_schema
from opserve_kernels.status import AnyStatus, Status


class CubeMathType(IntEnum):
    """Precision of the cube unit (cubeMathType)."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3


class ConvolutionBackwardResult(NamedTuple):
    """The gradients; None where the mask is False."""

    grad_input: Array | None
    grad_weight: Array | None
    grad_bias: Array | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvolutionBackward:
    """Arguments of aclnnConvolutionBackwardGetWorkspaceSize; None is a null pointer.

    Shapes are those of a convolution in 1, 2 or 3 spatial dimensions S: input (N, C, *S), weight
    (K, C/groups, *kernel) and grad_output (N, K, *S'); for a transposed one weight is
    (C, K/groups, *kernel). Tensors are FLOAT, FLOAT16 or BF16, on `reference` DOUBLE too. A tensor
    is a NumPy array (for session.run) or a Tensor in device memory. Source: the vendor's page
    aclnnConvolutionBackward.

    Errors: 161001 a null pointer; 161002 a dtype, format, shape or value that breaks a rule.

    Attributes:
        grad_output: Gradient of the convolution's output.
        input: The convolution's input.
        weight: The convolution's weight.
        bias_sizes: Shape of the bias: one entry, its channels; needed where output_mask[2].
        stride: Steps of the kernel, one for each spatial dimension, at least 1.
        padding: Zeros around the input, one for each spatial dimension, or 4 in 2-D: up, down,
            left, right.
        dilation: Distance between kernel taps, one for each spatial dimension, at least 1.
        transposed: Whether the convolution is a transposed one.
        output_padding: Extra output size of a transposed convolution; zeros otherwise.
        groups: Groups of channels, at least 1.
        output_mask: Which of grad_input, grad_weight and grad_bias to compute.
        cube_math_type: Precision of the computation; has no default.
        grad_input: Output of input's shape. For None, session.run creates the outputs in inferred
            dtypes, here promote(input, grad_output); for a dtype or an array, in that dtype.
        grad_weight: Output of weight's shape; inferred dtype promote(weight, grad_output).
        grad_bias: Output of one element for each output channel; inferred dtype grad_output's.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    invalid_entry: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    grad_output: TensorArgument = None
    input: TensorArgument = None
    weight: TensorArgument = None
    bias_sizes: Sequence[int] | None = None
    stride: Sequence[int] | None = None
    padding: Sequence[int] | None = None
    dilation: Sequence[int] | None = None
    transposed: bool | None = None
    output_padding: Sequence[int] | None = None
    groups: int | None = None
    output_mask: Sequence[bool] | None = None
    cube_math_type: CubeMathType | int | None = None
    grad_input: OutputArgument = None
    grad_weight: OutputArgument = None
    grad_bias: OutputArgument = None

    def result(self, outputs: Mapping[str, Array]) -> ConvolutionBackwardResult:
        """Returns the gradients by name, None where the mask is False."""
        return ConvolutionBackwardResult(*(outputs.get(name) for name in kernel_schema.OUTPUTS))
