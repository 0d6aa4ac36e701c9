"""aclnnIm2colBackward: columns summed back into the image they were taken from (col2im)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple

from opserve_client.data_types import Format
from opserve_client.errors import OPSERVE
from opserve_client.tensors import Array, OutputArgument, TensorArgument, TensorSpec, spec_of


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
        out: Output, the image (C, H, W) or (N, C, H, W). session.run makes it when it is None, in
            grad_output's dtype, and takes a dtype or an array as a wish.
    """

    vendor_name: ClassVar[str] = "aclnnIm2colBackward"
    domain: ClassVar[str] = OPSERVE
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    entry_status: ClassVar[tuple[int, str] | None] = None
    functions: ClassVar[tuple[str, ...]] = ()

    grad_output: TensorArgument = None
    input_size: Sequence[int] | None = None
    kernel_size: Sequence[int] | None = None
    dilation: Sequence[int] | None = None
    padding: Sequence[int] | None = None
    stride: Sequence[int] | None = None
    out: OutputArgument = None

    def asked_outputs(self) -> tuple[str, ...]:
        """The image, always."""
        return ("out",)

    def infer_outputs(self) -> Mapping[str, TensorSpec]:
        """The image; left out where malformed arguments leave it open."""
        grad_output = spec_of(self.grad_output, array_format=self.array_format)
        if grad_output is None or self.input_size is None or self.kernel_size is None:
            return {}
        if len(grad_output.shape) < 2:  # noqa: PLR2004  columns are a matrix
            return {}
        *batch, rows, _ = grad_output.shape
        taps = prod(self.kernel_size)
        channels = rows // taps if taps > 0 else 0
        shape = (*batch, channels, *self.input_size)
        return {"out": TensorSpec(shape=shape, dtype=grad_output.dtype, format=Format.ND)}

    def array_format(self, rank: int) -> Format:  # noqa: ARG002  other operators look at it
        """ND, whatever the rank."""
        return Format.ND

    def result(self, outputs: Mapping[str, Array]) -> Im2colBackwardResult:
        """The image by its name."""
        return Im2colBackwardResult(outputs.get("out"))
