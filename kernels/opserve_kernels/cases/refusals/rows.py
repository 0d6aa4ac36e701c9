"""Calls that must be rejected: one for each row of each operator's error table."""

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import refused, row_of
from opserve_kernels.cases.registry import cases_of


def refusals_of(operator: str) -> tuple[Case, ...]:
    """A call for each rule that is an error by default, in the order of the error table.

    Raises:
        KeyError: No call is written for a row.
    """
    cases = cases_of(operator)
    breaches = cases.breaches()
    return tuple(
        refused(rule, breaches[row_of(rule)]) for rule in cases.rules if cases.is_error(rule)
    )
