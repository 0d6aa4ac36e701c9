"""aclnnConvTbc: a 1-D convolution of images (T, B, C)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from opserve_client.operators.convolution_backward import CubeMathType
from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument
from opserve_kernels.operators.conv_tbc import schema as kernel_schema
from opserve_kernels.status import AnyStatus, Status


class ConvTbcResult(NamedTuple):
    """The outputs by the vendor's names."""

    out: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvTbc:
    """Arguments of aclnnConvTbcGetWorkspaceSize; None is a null pointer.

    A field without a default must be given, if only as None.

    Tensors are FLOAT, FLOAT16 or BF16, on `reference` DOUBLE too; the bias may have another dtype.
    A tensor is an array of any library in host memory (for session.run) or a Tensor in device
    memory.

    Errors: 161001 a null pointer; 161002 a dtype, format, shape or value that breaks a rule.

    Attributes:
        self: (T, B, C): times, entries, channels.
        weight: (K, C, C').
        bias: (C',).
        pad: Zeros before and after the times, at least 0.
        out: Output (T + 2*pad - K + 1, B, C'). For None, session.run creates it in self's dtype;
            for a dtype or an array, in that dtype.
        cube_math_type: Precision of the computation; 4, USE_FP32_ADD, computes as KEEP_DTYPE.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    invalid_entry: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    self: TensorArgument
    weight: TensorArgument
    bias: TensorArgument
    pad: int | None
    out: OutputArgument = None
    cube_math_type: CubeMathType | int | None

    def result(self, outputs: Mapping[str, Array]) -> ConvTbcResult:
        """The outputs by their names."""
        return ConvTbcResult(outputs["out"])

    def dimensions(self) -> Mapping[str, int]:
        """Returns no attribute: pad is an integer itself."""
        return {}
