"""Features of im2col in a full suite."""

from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.tensor import Format

Row = tuple[int, ...]
FEATURES = (
    *("empty", "several dtypes", "rank 3", "rank 4"),
    *(f"format {tag}" for tag in (Format.ND, Format.NCHW, Format.NHWC)),
)


def steps_of(case: Case) -> tuple[Row, Row, Row]:
    """Stride, padding and dilation."""
    given = case.arguments
    stride, padding, dilation = (cast("Row", given[x]) for x in ("stride", "padding", "dilation"))
    return stride, padding, dilation
