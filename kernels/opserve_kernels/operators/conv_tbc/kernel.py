"""Phase two of aclnnConvTbc: a product of gradient_loops, to which they add the bias."""

from opserve_kernels.gradient_loops import run

__all__ = ["run"]
