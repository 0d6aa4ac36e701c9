"""The arguments and outputs of aclnnIm2col, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from opserve_kernels.convolution import output_size
from opserve_kernels.tensor import Format, Tensor

CALL = "aclnnIm2col"
"""The vendor's name of the call."""
OUTPUTS = ("out",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = "aclnn_im2col"
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {}
"""The C types of its integers."""
RANKS = (3, 4)  # of self
PAIR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Im2col:
    """Arguments of aclnnIm2colGetWorkspaceSize; None is a null pointer.

    Attributes:
        self: The image (C, H, W) or (N, C, H, W); FLOAT, FLOAT16, BF16 or DOUBLE.
        kernel_size: Height and width of a block, at least 1.
        dilation: Distance between elements of a block, at least 1.
        padding: Zeros around the image, at least 0.
        stride: Steps between blocks, at least 1.
        out: Columns (C*kH*kW, L) or (N, C*kH*kW, L), written.
    """

    self: Tensor | None = None
    kernel_size: tuple[int, ...] | None = None
    dilation: tuple[int, ...] | None = None
    padding: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    out: Tensor | None = None


def infer_outputs(arguments: Im2col) -> Mapping[str, Tensor]:
    """The columns implied by arguments without them: contiguous, without a buffer.

    Sizes that break a rule also imply some: the call is then rejected for them, not for a missing
    out.
    """
    image, kernel_size, stride = arguments.self, arguments.kernel_size, arguments.stride
    dilation, padding = arguments.dilation, arguments.padding
    if arguments.out is not None or image is None or image.rank < min(RANKS):
        return {}
    if kernel_size is None or stride is None or dilation is None or padding is None:
        return {}
    rows = zip(image.shape[-PAIR:], kernel_size, stride, padding, dilation, strict=False)
    length = prod(
        max(0, output_size(size, kernel=taps, stride=step, padding=2 * sides, dilation=apart))
        if step > 0
        else 0
        for size, taps, step, sides, apart in rows
    )
    height = image.shape[-PAIR - 1] * max(0, prod(kernel_size))
    shape = (*image.shape[: -PAIR - 1], height, length)
    return {"out": Tensor(shape=shape, dtype=image.dtype)}
