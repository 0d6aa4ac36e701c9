"""The conformance record of conv_tbc."""

from opserve_kernels.cases.operator_cases import OperatorCases
from opserve_kernels.operators.conv_tbc.cases.features import (
    FEATURES,
    tried,
)
from opserve_kernels.operators.conv_tbc.cases.forms import drawn, forms
from opserve_kernels.operators.conv_tbc.cases.refusals import breaches
from opserve_kernels.operators.conv_tbc.cases.sums import (
    contributing,
    operands,
    reference_arguments,
    sums,
    supported,
)
from opserve_kernels.operators.conv_tbc.contract import DOCUMENTED_RULES, RULES, SUPPORT

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
    supported=supported,
    reference_arguments=reference_arguments,
    operands=operands,
    contributing=contributing,
)
