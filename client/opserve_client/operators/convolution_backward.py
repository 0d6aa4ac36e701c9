"""aclnnConvolutionBackward: the gradients of a convolution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from opserve_client.arguments import shown
from opserve_client.errors import invalid_argument
from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument, rank_of
from opserve_kernels.operators.convolution_backward import schema as kernel_schema
from opserve_kernels.status import AnyStatus, Status

GradientName: TypeAlias = Literal["grad_input", "grad_weight", "grad_bias"]
_CHANNEL_AXES = 2
"""Axes of a tensor besides the spatial ones."""


class CubeMathType(IntEnum):
    """Precision of the cube unit (cubeMathType); forward convolutions alone accept the last."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    USE_FP32_ADD = 4


class ConvolutionBackwardResult(NamedTuple):
    """The gradients; None where the mask is False."""

    grad_input: Array | None
    grad_weight: Array | None
    grad_bias: Array | None

    def require(self, name: GradientName) -> Array:
        """Returns a gradient that the program needs, as an array for type checkers, too.

        Raises:
            AclnnError: 161002, output_mask did not request the gradient, or the name is none.
        """
        names = kernel_schema.OUTPUTS
        if name not in names:
            raise invalid_argument("name", shown(name), ", ".join(names))
        index = names.index(name)
        gradient = self[index]
        if gradient is None:
            given, allowed = f"False at {index}", f"True at {index}, which computes {name}"
            raise invalid_argument("output_mask", given, allowed)
        return gradient


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvolutionBackward:
    """Arguments of aclnnConvolutionBackwardGetWorkspaceSize; None is a null pointer.

    A field without a default must be given, if only as None.

    Shapes are those of a convolution in 1, 2 or 3 spatial dimensions S: input (N, C, *S), weight
    (K, C/groups, *kernel) and grad_output (N, K, *S'); for a transposed one weight is
    (C, K/groups, *kernel). Tensors are FLOAT, FLOAT16 or BF16, on `reference` DOUBLE too. A tensor
    is an array of any library in host memory (for session.run) or a Tensor in device memory.
    Source: the vendor's page aclnnConvolutionBackward.

    Errors: 161001 a null pointer; 161002 a dtype, format, shape or value that breaks a rule.

    Attributes:
        grad_output: Gradient of the convolution's output.
        input: The convolution's input.
        weight: The convolution's weight.
        bias_sizes: Shape of the bias in the forward convolution, one entry: weight.shape[0], or
            weight.shape[1] * groups of a transposed convolution. With an empty tensor it must not
            be None where output_mask[2].
        stride: Steps of the kernel, one for each spatial dimension, at least 1; an integer means
            the same step in each, as for padding, dilation and output_padding.
        padding: Zeros around the input, one for each spatial dimension, or 4 in 2-D: up, down,
            left, right.
        dilation: Distance between kernel taps, one for each spatial dimension, at least 1.
        transposed: Whether the convolution is a transposed one.
        output_padding: Extra output size of a transposed convolution; zeros otherwise.
        groups: Groups of channels, at least 1.
        output_mask: Which of grad_input, grad_weight and grad_bias to compute.
        cube_math_type: Precision of the computation.
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

    grad_output: TensorArgument
    input: TensorArgument
    weight: TensorArgument
    bias_sizes: Sequence[int] | None
    stride: int | Sequence[int] | None
    padding: int | Sequence[int] | None
    dilation: int | Sequence[int] | None
    transposed: bool | None
    output_padding: int | Sequence[int] | None
    groups: int | None
    output_mask: Sequence[bool] | None
    cube_math_type: CubeMathType | int | None
    grad_input: OutputArgument = None
    grad_weight: OutputArgument = None
    grad_bias: OutputArgument = None

    def result(self, outputs: Mapping[str, Array]) -> ConvolutionBackwardResult:
        """Returns the gradients by name, None where the mask is False."""
        return ConvolutionBackwardResult(*(outputs.get(name) for name in kernel_schema.OUTPUTS))

    def dimensions(self) -> Mapping[str, int]:
        """Returns the spatial dimensions, by attributes that an integer sets in each of them."""
        ranks = map(rank_of, (self.input, self.weight, self.grad_output))
        rank = next((rank for rank in ranks if rank is not None), 0)
        names = ("stride", "padding", "dilation", "output_padding")
        return dict.fromkeys(names, max(rank - _CHANNEL_AXES, 1))
