"""Whether a case is significant: enough of the expected values that sum any products are not 0.

A case whose expected values are mostly 0 lets wrong results pass. Elements without any product,
such as positions between strides and taps that meet padding alone, are 0 by the shapes of the call,
and do not count.
"""

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from opserve_kernels.cases.case import Case, Kind
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.verdict.dtypes import Doubles
from opserve_kernels.verdict.verdict import Check, Status

TRUST = 0.3  # share of the expected values that products reach, which must not be 0; benchdnn's
FEW = 32  # elements; fewer may all be 0 by chance, so that they count with the case's others


def check_trust(case: Case, expected: Mapping[str, Doubles]) -> Iterator[Check]:
    """A check of each output; MISTRUSTED where too few expected values are not 0.

    Args:
        case: A case of integers; others are not checked, since their sums are hardly ever 0.
        expected: Expected values by output; those of a projection are its sums.
    """
    elements: Mapping[str, int] = contributing_elements(case) if case.kind is Kind.INTEGER else {}
    contributing = {
        name: count * expected[name].size // max(1, prod(case.tensors[name].shape))
        for name, count in elements.items()
    }
    shown = {name: int(np.count_nonzero(expected[name])) for name in contributing}
    whole = sum(shown.values()), sum(contributing.values())
    for name, most in contributing.items():
        nonzero, counted = (shown[name], most) if most >= FEW else whole
        trusted = nonzero >= TRUST * counted
        whose = name if most >= FEW else "all outputs"
        yield Check(
            name="trust",
            tensor=name,
            status=Status.PASSED if trusted else Status.MISTRUSTED,
            reason=f"{whose}: {nonzero} of {counted} sums are not 0, {TRUST:.0%} needed",
            elements=0 if trusted else counted - nonzero,
        )


def contributing_elements(case: Case) -> Mapping[str, int]:
    """Elements of each output that sum products; empty if the operator does not count them."""
    return cases_of(case.operator).contributing(case)
