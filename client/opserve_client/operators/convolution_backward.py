"""aclnnConvolutionBackward: the gradients of a convolution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple

from opserve_client.data_types import DataType, Format, format_of_rank
from opserve_client.errors import OPSERVE
from opserve_client.tensors import Array, OutputArgument, TensorArgument, TensorSpec, spec_of

_OUTPUTS = ("grad_input", "grad_weight", "grad_bias")
_FLOATS = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BF16})


class CubeMathType(IntEnum):
    """In which precision the cube unit may compute (cubeMathType)."""

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
        cube_math_type: In which precision to compute; has no default.
        grad_input: Output of input's shape. session.run makes the outputs that are None, in the
            dtype promote(input, grad_output), and takes a dtype or an array as a wish.
        grad_weight: Output of weight's shape; inferred dtype promote(weight, grad_output).
        grad_bias: Output of one element for each output channel; inferred dtype grad_output's.
    """

    vendor_name: ClassVar[str] = "aclnnConvolutionBackward"
    domain: ClassVar[str] = OPSERVE
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    entry_status: ClassVar[tuple[int, str] | None] = None
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

    def asked_outputs(self) -> tuple[str, ...]:
        """Names of the outputs whose entry of output_mask is true."""
        mask = () if self.output_mask is None else self.output_mask
        return tuple(name for name, asked in zip(_OUTPUTS, mask, strict=False) if asked)

    def infer_outputs(self) -> Mapping[str, TensorSpec]:
        """The outputs that the mask asks for; without those that malformed arguments leave open."""
        grad_output = self._spec(self.grad_output)
        if grad_output is None:
            return {}
        inferred = {
            "grad_input": _like(self._spec(self.input), grad_output),
            "grad_weight": _like(self._spec(self.weight), grad_output),
            "grad_bias": _bias(grad_output, self.bias_sizes),
        }
        asked = self.asked_outputs()
        return {name: spec for name, spec in inferred.items() if spec is not None and name in asked}

    def array_format(self, rank: int) -> Format:
        """NCL, NCHW or NCDHW for ranks 3 to 5, else ND."""
        return format_of_rank(rank)

    def result(self, outputs: Mapping[str, Array]) -> ConvolutionBackwardResult:
        """The gradients by name, None where the mask is False."""
        return ConvolutionBackwardResult(*(outputs.get(name) for name in _OUTPUTS))

    def _spec(self, value: TensorArgument) -> TensorSpec | None:
        return spec_of(value, array_format=self.array_format)


def _like(operand: TensorSpec | None, grad_output: TensorSpec) -> TensorSpec | None:
    if operand is None:
        return None
    dtype = _promote(operand.dtype, grad_output.dtype)
    return TensorSpec(shape=operand.shape, dtype=dtype, format=operand.format)


def _bias(grad_output: TensorSpec, bias_sizes: Sequence[int] | None) -> TensorSpec | None:
    if len(grad_output.shape) > 1:
        shape = grad_output.shape[1:2]
    elif bias_sizes is not None:
        shape = tuple(bias_sizes)
    else:
        return None
    return TensorSpec(shape=shape, dtype=grad_output.dtype, format=Format.ND)


def _promote(first: DataType, second: DataType) -> DataType:
    """The dtype that holds both; for dtypes that the operator refuses anyway, the first."""
    if first != second and {first, second} <= _FLOATS:
        return DataType.FLOAT
    return first
