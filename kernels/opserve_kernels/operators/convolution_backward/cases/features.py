"""Coverage of convolution_backward in a full suite."""

from collections.abc import Iterator
from itertools import product
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.tensor import Format

Row = tuple[int, ...]
_MASKS = tuple("mask " + "".join(flags) for flags in product("10", repeat=3))
FEATURES = (
    *("groups", "depthwise", "limit", *_MASKS, "asymmetric padding", "empty", "network"),
    "masked output given",
    *("transposed", "output padding", "several dtypes"),
    *(f"rank {rank}" for rank in (3, 4, 5)),
    *(f"cube_math_type {kind}" for kind in range(4)),
    *(f"format {tag}" for tag in (Format.NCL, Format.ND, Format.NCHW, Format.NCDHW)),
)


def steps_of(case: Case) -> tuple[Row, Row, Row]:
    """Stride, padding and dilation."""
    given = case.arguments
    stride, padding, dilation = (cast("Row", given[x]) for x in ("stride", "padding", "dilation"))
    return stride, padding, dilation


def groups_of(case: Case) -> tuple[int, int]:
    """Groups, and the channels of one of them."""
    return cast("int", case.arguments["groups"]), case.tensors["weight"].shape[1]


def tried(case: Case) -> Iterator[str]:
    """Features that the arguments decide."""
    given = case.arguments
    mask = cast("tuple[bool, ...]", given["output_mask"])
    yield "mask " + "".join(str(int(flag)) for flag in mask)
    yield f"cube_math_type {given['cube_math_type']}"
    flags = {
        "transposed": given["transposed"],
        "output padding": any(cast("Row", given["output_padding"])),
        "network": "network" in case.tags,
        "masked output given": set(case.outputs) != set(case.written),
    }
    yield from (feature for feature, is_tried in flags.items() if is_tried)
