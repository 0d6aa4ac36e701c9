"""Phase two of aclnnConvolutionBackward."""

from opserve_kernels.gradient_loops import run

__all__ = ["run"]
