"""Phase two of aclnnConvolution: gradient_loops, which add the bias to a product."""

from opserve_kernels.gradient_loops import run

__all__ = ["run"]
