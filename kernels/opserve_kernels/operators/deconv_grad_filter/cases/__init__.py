"""The conformance record of deconv_grad_filter."""

from collections.abc import Collection, Mapping

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.cases.operator_cases import OperatorCases
from opserve_kernels.operators.deconv_grad_filter.cases.features import (
    FEATURES,
    groups_of,
    steps_of,
    tried,
)
from opserve_kernels.operators.deconv_grad_filter.cases.forms import drawn, forms
from opserve_kernels.operators.deconv_grad_filter.cases.refusals import breaches
from opserve_kernels.operators.deconv_grad_filter.cases.sums import sums
from opserve_kernels.operators.deconv_grad_filter.contract import RULES, SUPPORT

_OF_PRODUCTS = ("function", "core_mask")  # a function names a dtype, and none has DOUBLE


def _reference_arguments(case: Case, _: Collection[str]) -> Mapping[str, Value]:
    return {name: value for name, value in case.arguments.items() if name not in _OF_PRODUCTS}


CASES = OperatorCases(
    support=SUPPORT,
    rules=RULES,
    forms=forms,
    drawn=drawn,
    breaches=breaches,
    sums=sums,
    features=FEATURES,
    tried=tried,
    steps=steps_of,
    groups=groups_of,
    reference_arguments=_reference_arguments,
)
