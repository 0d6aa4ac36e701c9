"""Coverage of conv_tbc in a full suite."""

from collections.abc import Iterator
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.tensor import Format

FEATURES = (
    *("empty", "several dtypes", "pad", f"format {Format.ND}", f"format {Format.NCL}"),
    *(f"cube_math_type {kind}" for kind in range(5)),
)


def tried(case: Case) -> Iterator[str]:
    """Features that the arguments decide."""
    yield f"cube_math_type {case.arguments['cube_math_type']}"
    if cast("int", case.arguments["pad"]) > 0:
        yield "pad"
