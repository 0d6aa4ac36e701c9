"""Features of im2col_backward in a full suite."""

from opserve_kernels.tensor import Format

FEATURES = (
    *("empty", "several dtypes", "rank 2", "rank 3"),
    *(f"format {tag}" for tag in (Format.ND, Format.NCHW, Format.NHWC)),
)
