"""aclnnConvTbcBackward: the gradients of a 1-D convolution in the layout (T, B, C)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from opserve_client.operators.convolution_backward import CubeMathType
from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument
from opserve_kernels.operators.conv_tbc_backward import schema as kernel_schema
from opserve_kernels.status import AnyStatus, Status


class ConvTbcBackwardResult(NamedTuple):
    """The gradients."""

    grad_input: Array
    grad_weight: Array
    grad_bias: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvTbcBackward:
    """Arguments of aclnnConvTbcBackwardGetWorkspaceSize; None is a null pointer.

    A field without a default must be given, if only as None.

    Tensors are FLOAT, FLOAT16 or BF16, on `reference` DOUBLE too: an array of any library in
    host memory (for session.run) or a Tensor in device memory. Source: the vendor's page
    aclnnConvTbcBackward.

    Errors: 161001 a null pointer; 161002 a dtype, format, shape or value that breaks a rule.

    Attributes:
        self: Gradient of the convolution's output (T + 2*pad + 1 - K, B, Cout).
        input: The convolution's input (T, B, Cin).
        weight: The convolution's weight (K, Cin, Cout).
        bias: The convolution's bias (Cout), of which only shape and dtype are read.
        pad: Zeros before and after the input, along T.
        cube_math_type: Precision of the computation.
        grad_input: Output of input's shape. For None, session.run creates it in input's dtype; for
            a dtype or an array, in that dtype, as for the other gradients.
        grad_weight: Output of weight's shape; inferred dtype weight's.
        grad_bias: Output of bias's shape; inferred dtype bias's.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    invalid_entry: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    self: TensorArgument
    input: TensorArgument
    weight: TensorArgument
    bias: TensorArgument
    pad: int | None
    cube_math_type: CubeMathType | int | None
    grad_input: OutputArgument = None
    grad_weight: OutputArgument = None
    grad_bias: OutputArgument = None

    def result(self, outputs: Mapping[str, Array]) -> ConvTbcBackwardResult:
        """Returns the gradients by name."""
        return ConvTbcBackwardResult(*(outputs[name] for name in kernel_schema.OUTPUTS))

    def dimensions(self) -> Mapping[str, int]:
        """Returns nothing: the call has no attribute with several entries."""
        return {}
