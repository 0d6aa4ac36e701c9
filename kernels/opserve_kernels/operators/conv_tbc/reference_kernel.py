"""Phase two of aclnnConvTbc in float64."""

from opserve_kernels.reference_loops import run

__all__ = ["run"]
