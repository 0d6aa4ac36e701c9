"""The sums of a call of conv_tbc, its computation, and its form for `reference`."""

from collections.abc import Collection, Mapping

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.cases.cube_math import with_supported_kind
from opserve_kernels.cases.sum import Sum
from opserve_kernels.cube_math import KEEP_DTYPE
from opserve_kernels.forward.cases import operands_of, output_sum
from opserve_kernels.number_formats import Operands
from opserve_kernels.operators.conv_tbc.cases.calls import call_of


def sums(case: Case) -> tuple[Sum, ...]:
    """The sums of out."""
    return (output_sum(case, call_of(case), ("w", "n", "c")),)


def operands(case: Case) -> Mapping[str, Operands]:
    """Roundings of the inputs; a bias without products is cast to the dtype of out alone."""
    call = call_of(case)
    return {} if call.is_empty else operands_of(case, call)


def contributing(case: Case) -> Mapping[str, int]:
    """The number for out, each of whose elements has a bias."""
    return {"out": call_of(case).output.element_count}


def supported(case: Case) -> Case | None:
    """The call, with another cube_math_type if the profile needs it; None if unsupported."""
    return with_supported_kind(case, ("self", "weight"))


def reference_arguments(case: Case, _: Collection[str]) -> Mapping[str, Value]:
    """The arguments without a product's roundings."""
    return {**case.arguments, "cube_math_type": KEEP_DTYPE}
