"""Features of im2col in a full suite."""

from opserve_kernels.tensor import Format

FEATURES = (
    *("empty", "several dtypes", "rank 3", "rank 4"),
    *(f"format {tag}" for tag in (Format.ND, Format.NCHW, Format.NHWC)),
)
