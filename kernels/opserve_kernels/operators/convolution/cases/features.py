"""Coverage of convolution in a full suite."""

from collections.abc import Iterator
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.operators.convolution.cases.calls import call_of
from opserve_kernels.tensor import Format

Row = tuple[int, ...]
FEATURES = (
    *("groups", "depthwise", "limit", "asymmetric padding", "empty", "several dtypes"),
    *("transposed", "output padding", "bias", "no bias"),
    *(f"rank {rank}" for rank in (3, 4, 5)),
    *(f"cube_math_type {kind}" for kind in range(5)),
    *(f"format {tag}" for tag in (Format.NCL, Format.NCHW, Format.NCDHW, Format.NDHWC)),
)


def steps_of(case: Case) -> tuple[Row, Row, Row]:
    """Stride, padding and dilation."""
    steps = call_of(case).steps
    return steps.stride, steps.padding, steps.dilation


def groups_of(case: Case) -> tuple[int, int]:
    """Groups, and the channels of one of them."""
    call = call_of(case)
    return call.steps.groups, call.weight.shape[1]


def tried(case: Case) -> Iterator[str]:
    """Features that the arguments decide."""
    given = case.arguments
    yield f"cube_math_type {given['cube_math_type']}"
    yield "bias" if "bias" in case.tensors else "no bias"
    flags = {
        "transposed": given["transposed"],
        "output padding": any(cast("Row", given["output_padding"])),
    }
    yield from (feature for feature, is_tried in flags.items() if is_tried)
