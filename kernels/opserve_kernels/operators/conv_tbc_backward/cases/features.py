"""Features of conv_tbc_backward: in a full suite, and of a case."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.contributions import contributions_of
from opserve_kernels.tensor import Format

FEATURES = (
    *("empty", "several dtypes", "pad"),
    *(f"cube_math_type {kind}" for kind in range(4)),
    *(f"format {tag}" for tag in (Format.ND, Format.NCL)),
)


def tried(case: Case) -> Iterator[str]:
    """Features that the arguments decide."""
    yield f"cube_math_type {case.arguments['cube_math_type']}"
    if case.arguments["pad"]:
        yield "pad"


def contributing(case: Case) -> Mapping[str, int]:
    """Numbers of elements of each gradient that sum any products."""
    (positions, _, outputs), image, weight = (
        case.tensors[name].shape for name in ("self", "input", "weight")
    )
    found = {"grad_input": 0, "grad_weight": 0, "grad_bias": outputs}
    if prod(image) and prod(weight):
        pad = cast("int", case.arguments["pad"])
        axis = contributions_of(positions, image[0], weight[0], 1, 1, pad)
        found["grad_input"] = prod(image[1:]) * axis.large
        found["grad_weight"] = prod(weight[1:]) * axis.taps
    return found
