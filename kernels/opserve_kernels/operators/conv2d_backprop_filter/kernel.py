"""Phase two of conv2d_backprop_filter."""

from opserve_kernels.gradient_loops import run

__all__ = ["run"]
