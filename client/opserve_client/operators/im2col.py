"""aclnnIm2col: blocks of an image copied into columns (unfold)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument
from opserve_kernels.operators.im2col import schema as kernel_schema
from opserve_kernels.status import AnyStatus, Status


class Im2colResult(NamedTuple):
    """The columns."""

    out: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Im2col:
    """Arguments of aclnnIm2colGetWorkspaceSize; None is a null pointer.

    A field without a default must be given, if only as None. An integer for kernel_size and the
    fields below it means the same value in height and width.

    Tensors are FLOAT, FLOAT16 or BF16, on `reference` DOUBLE too: an array of any library in
    host memory (for session.run) or a Tensor in device memory. Source: the vendor's page
    aclnnIm2col.

    Errors: 161001 a null pointer; 161002 a dtype, rank, shape or value that breaks a rule.

    Attributes:
        self: The image (C, H, W) or (N, C, H, W).
        kernel_size: Height and width of a block, at least 1.
        dilation: Distance between elements of a block, at least 1.
        padding: Zeros around the image, at least 0.
        stride: Steps between blocks, at least 1.
        out: Output, columns (C*kH*kW, L) or (N, C*kH*kW, L). For None, session.run creates it in
            self's dtype; for a dtype or an array, in that dtype.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    invalid_entry: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    self: TensorArgument
    kernel_size: int | Sequence[int] | None
    dilation: int | Sequence[int] | None
    padding: int | Sequence[int] | None
    stride: int | Sequence[int] | None
    out: OutputArgument = None

    def result(self, outputs: Mapping[str, Array]) -> Im2colResult:
        """Returns the columns by name."""
        return Im2colResult(outputs["out"])

    def dimensions(self) -> Mapping[str, int]:
        """Returns the two entries of each attribute, which an integer sets to the same value."""
        return dict.fromkeys(("kernel_size", "dilation", "padding", "stride"), 2)
