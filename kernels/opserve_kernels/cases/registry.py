"""The conformance records of all operators, by name."""

from collections.abc import Mapping
from functools import cache

from opserve_kernels.cases.operator_cases import OperatorCases
from opserve_kernels.operators import OPERATOR_NAMES, module_of


@cache
def cases_of(operator: str) -> OperatorCases:
    """An operator's record; loads its cases."""
    cases: OperatorCases = module_of(operator, "cases").CASES
    return cases


@cache
def all_cases() -> Mapping[str, OperatorCases]:
    """The records of all operators, in the registry's order."""
    return {name: cases_of(name) for name in OPERATOR_NAMES}
