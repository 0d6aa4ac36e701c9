"""Phase two of conv2d_backprop_filter in float64."""

from opserve_kernels.reference_loops import run

__all__ = ["run"]
