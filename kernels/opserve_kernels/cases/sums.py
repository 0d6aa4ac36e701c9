"""The sums of a case, and their cost."""

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.cases.sum import Sum


def sums_of(case: Case) -> tuple[Sum, ...]:
    """The outputs that a case writes; the call must be one that succeeds."""
    return cases_of(case.operator).sums(case)


def multiply_adds(case: Case) -> int:
    """Products of all outputs; 0 for a call that must be refused."""
    return 0 if case.is_refused else sum(one.multiply_adds for one in sums_of(case))
