"""Phase two of deconv_grad_filter."""

from opserve_kernels.gradient_loops import run

__all__ = ["run"]
