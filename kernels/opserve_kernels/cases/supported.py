"""Calls that a profile supports, by the data of the operators' contracts."""

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.registry import cases_of


def supported(case: Case) -> Case | None:
    """The call as its profile supports it; None if it does not.

    On a profile that computes FLOAT in FLOAT16 only, the call requests that.
    """
    cases = cases_of(case.operator)
    support = cases.support[case.profile].dtypes
    if cases.checks_dtypes and any(tensor.dtype not in support for tensor in case.tensors.values()):
        return None
    return cases.supported(case)


def follows_the_page(case: Case) -> bool:
    """Whether a call is accepted by default: a form may vary what the vendor's page fixes."""
    return cases_of(case.operator).follows_the_page(case)
