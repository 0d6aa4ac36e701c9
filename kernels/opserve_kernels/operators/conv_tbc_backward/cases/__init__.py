"""The conformance record of conv_tbc_backward."""

from collections.abc import Collection, Mapping

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.cases.cube_math import case_operands, with_supported_kind
from opserve_kernels.cases.operator_cases import OperatorCases
from opserve_kernels.number_formats import Operands
from opserve_kernels.operators.conv_tbc_backward.cases.features import (
    FEATURES,
    contributing,
    tried,
)
from opserve_kernels.operators.conv_tbc_backward.cases.forms import drawn, forms
from opserve_kernels.operators.conv_tbc_backward.cases.refusals import breaches
from opserve_kernels.operators.conv_tbc_backward.cases.sums import sums
from opserve_kernels.operators.conv_tbc_backward.contract import (
    DOCUMENTED_RULES,
    OPERANDS,
    RULES,
    SUPPORT,
)

_KEEP_DTYPE = 0


def _supported(case: Case) -> Case | None:
    return with_supported_kind(case, OPERANDS)


def _operands(case: Case) -> Mapping[str, Operands]:
    return case_operands(case, OPERANDS)


def _reference_arguments(case: Case, _: Collection[str]) -> Mapping[str, Value]:
    """The arguments without a product's roundings."""
    return {**case.arguments, "cube_math_type": _KEEP_DTYPE}


CASES = OperatorCases(
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    forms=forms,
    drawn=drawn,
    breaches=breaches,
    sums=sums,
    features=FEATURES,
    tried=tried,
    supported=_supported,
    reference_arguments=_reference_arguments,
    operands=_operands,
    unrounded=("grad_bias",),
    contributing=contributing,
)
