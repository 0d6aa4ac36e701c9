"""aclnnIm2colBackward: columns summed back into the image they were taken from (col2im)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument
from opserve_kernels.operators.im2col_backward import schema as kernel_schema
from opserve_kernels.status import AnyStatus, Status


class Im2colBackwardResult(NamedTuple):
    """The image."""

    out: Array | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Im2colBackward:
    """Arguments of aclnnIm2colBackwardGetWorkspaceSize; None is a null pointer.

    Tensors are FLOAT, FLOAT16 or BF16, on `reference` DOUBLE too: a NumPy array (for session.run)
    or a Tensor in device memory. Source: the vendor's page aclnnIm2colBackward.

    Errors: 161001 a null pointer; 161002 a dtype, rank, shape or value that breaks a rule.

    Attributes:
        grad_output: Columns (C*kH*kW, L) or (N, C*kH*kW, L).
        input_size: Height and width of the image.
        kernel_size: Height and width of a block, at least 1.
        dilation: Distance between elements of a block, at least 1.
        padding: Zeros around the image, at least 0.
        stride: Steps between blocks, at least 1.
        out: Output, the image (C, H, W) or (N, C, H, W). For None, session.run creates it in
            grad_output's dtype; for a dtype or an array, in that dtype.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    invalid_entry: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    grad_output: TensorArgument = None
    input_size: Sequence[int] | None = None
    kernel_size: Sequence[int] | None = None
    dilation: Sequence[int] | None = None
    padding: Sequence[int] | None = None
    stride: Sequence[int] | None = None
    out: OutputArgument = None

    def result(self, outputs: Mapping[str, Array]) -> Im2colBackwardResult:
        """Returns the image by name."""
        return Im2colBackwardResult(outputs.get("out"))
