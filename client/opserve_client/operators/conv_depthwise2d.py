"""aclnnConvDepthwise2d: a 2-D convolution of each channel with filters of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from opserve_client.operators.convolution_backward import CubeMathType
from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument
from opserve_kernels.operators.conv_depthwise2d import schema as kernel_schema
from opserve_kernels.status import AnyStatus, Status

_SPATIAL = 2


class ConvDepthwise2dResult(NamedTuple):
    """The outputs by the vendor's names."""

    out: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvDepthwise2d:
    """Arguments of aclnnConvDepthwise2dGetWorkspaceSize; None is a null pointer.

    A field without a default must be given, if only as None; without a bias, none is added.

    Tensors have one dtype, FLOAT, FLOAT16 or BF16, on `reference` any of these and DOUBLE. A tensor
    is an array of any library in host memory (for session.run) or a Tensor in device memory.

    Errors: 161001 a null pointer; 161002 a dtype, format, shape or value that breaks a rule.

    Attributes:
        self: (N, C, H, W).
        weight: (M*C, 1, KH, KW): filters 0 .. M-1 belong to channel 0, and so on.
        kernel_size: KH and KW once more; an integer means both, as for stride, padding and
            dilation.
        bias: (M*C,), or None.
        stride: Steps of the kernel, down and across, at least 1.
        padding: Zeros around the image, above and below, left and right.
        dilation: Distance between kernel taps, down and across, at least 1.
        out: Output (N, M*C, H', W'). For None, session.run creates it in self's dtype; for a dtype
            or an array, in that dtype.
        cube_math_type: Precision of the computation; 4, USE_FP32_ADD, computes as KEEP_DTYPE.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    invalid_entry: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    self: TensorArgument
    weight: TensorArgument
    kernel_size: int | Sequence[int] | None
    bias: TensorArgument = None
    stride: int | Sequence[int] | None
    padding: int | Sequence[int] | None
    dilation: int | Sequence[int] | None
    out: OutputArgument = None
    cube_math_type: CubeMathType | int | None

    def result(self, outputs: Mapping[str, Array]) -> ConvDepthwise2dResult:
        """The outputs by their names."""
        return ConvDepthwise2dResult(outputs["out"])

    def dimensions(self) -> Mapping[str, int]:
        """Returns the spatial dimensions, by attributes that an integer sets in each of them."""
        return dict.fromkeys(("kernel_size", "stride", "padding", "dilation"), _SPATIAL)
