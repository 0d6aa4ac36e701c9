"""The arguments of aclnnIm2colBackward, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.tensor import Format, Tensor

OUTPUTS = ("out",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {}
"""Formats of arrays by number of dimensions; ND elsewhere."""


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
