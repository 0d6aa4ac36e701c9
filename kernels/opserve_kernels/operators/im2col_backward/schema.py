"""The arguments and outputs of aclnnIm2colBackward, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from opserve_kernels.tensor import Format, Tensor

CALL = "aclnnIm2colBackward"
"""The vendor's name of the call."""
OUTPUTS = ("out",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = "aclnn_im2col_backward"
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {}
"""The C types of its integers."""
RANKS = (2, 3)  # of columns
PAIR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Im2colBackward:
    """Arguments of aclnnIm2colBackwardGetWorkspaceSize; None is a null pointer.

    Attributes:
        grad_output: Columns (C*kH*kW, L) or (N, C*kH*kW, L); FLOAT, FLOAT16, BF16 or DOUBLE.
        input_size: Height and width of the image.
        kernel_size: Height and width of a block, at least 1.
        dilation: Distance between elements of a block, at least 1.
        padding: Zeros around the image, at least 0.
        stride: Steps between blocks, at least 1.
        out: The image (C, H, W) or (N, C, H, W), written.
    """

    grad_output: Tensor | None = None
    input_size: tuple[int, ...] | None = None
    kernel_size: tuple[int, ...] | None = None
    dilation: tuple[int, ...] | None = None
    padding: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    out: Tensor | None = None


def infer_outputs(arguments: Im2colBackward) -> Mapping[str, Tensor]:
    """The image implied by arguments without one: contiguous, without a buffer.

    Sizes that break a rule also imply one: the call is then rejected for them, not for a missing
    out.
    """
    grad_output, kernel_size = arguments.grad_output, arguments.kernel_size
    if arguments.out is not None or grad_output is None or arguments.input_size is None:
        return {}
    if kernel_size is None or grad_output.rank < min(RANKS):
        return {}
    taps = prod(kernel_size)
    channels = grad_output.shape[-2] // taps if taps > 0 else 0
    image = (max(size, 0) for size in arguments.input_size)
    shape = (*grad_output.shape[:-2], channels, *image)
    return {"out": Tensor(shape=shape, dtype=grad_output.dtype)}
