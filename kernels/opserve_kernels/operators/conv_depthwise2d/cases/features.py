"""Coverage of conv_depthwise2d in a full suite."""

from collections.abc import Iterator

from opserve_kernels.cases.case import Case
from opserve_kernels.operators.conv_depthwise2d.cases.calls import call_of

Row = tuple[int, ...]
FEATURES = (
    *("depthwise", "empty", "bias", "no bias", "multiplier"),
    *(f"cube_math_type {kind}" for kind in range(5)),
)


def steps_of(case: Case) -> tuple[Row, Row, Row]:
    """Stride, padding and dilation."""
    steps = call_of(case).steps
    return steps.stride, steps.padding, steps.dilation


def groups_of(case: Case) -> tuple[int, int]:
    """Groups, and the channels of one of them."""
    return call_of(case).steps.groups, 1


def tried(case: Case) -> Iterator[str]:
    """Features that the arguments decide."""
    yield f"cube_math_type {case.arguments['cube_math_type']}"
    yield "bias" if "bias" in case.tensors else "no bias"
    if case.tensors["weight"].shape[0] > case.tensors["self"].shape[1]:
        yield "multiplier"
