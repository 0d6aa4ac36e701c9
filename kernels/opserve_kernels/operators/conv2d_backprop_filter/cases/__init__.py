"""The conformance record of conv2d_backprop_filter."""

from opserve_kernels.cases.block_cases import (
    FEATURES,
    groups_of,
    is_supported,
    reference_arguments,
    steps_of,
    tried,
)
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.operator_cases import OperatorCases
from opserve_kernels.operators.conv2d_backprop_filter.cases.forms import drawn, forms
from opserve_kernels.operators.conv2d_backprop_filter.cases.refusals import breaches
from opserve_kernels.operators.conv2d_backprop_filter.cases.sums import sums
from opserve_kernels.operators.conv2d_backprop_filter.contract import (
    DEFAULT_RESULT,
    RESULTS,
    RULES,
    SUPPORT,
)


def _supported(case: Case) -> Case | None:
    return case if is_supported(case, SUPPORT, RESULTS, DEFAULT_RESULT) else None


CASES = OperatorCases(
    support=SUPPORT,
    rules=RULES,
    forms=forms,
    drawn=drawn,
    breaches=breaches,
    sums=sums,
    features=(*FEATURES, "raw"),
    tried=tried,
    steps=steps_of,
    groups=groups_of,
    supported=_supported,
    checks_dtypes=False,
    reference_arguments=reference_arguments,
)
