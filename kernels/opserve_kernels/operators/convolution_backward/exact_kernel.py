"""Phase two of aclnnConvolutionBackward in float64."""

from opserve_kernels.exact_loops import run

__all__ = ["run"]
