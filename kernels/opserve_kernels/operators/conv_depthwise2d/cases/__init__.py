"""The conformance record of conv_depthwise2d."""

from opserve_kernels.cases.operator_cases import OperatorCases
from opserve_kernels.operators.conv_depthwise2d.cases.features import (
    FEATURES,
    groups_of,
    steps_of,
    tried,
)
from opserve_kernels.operators.conv_depthwise2d.cases.forms import drawn, forms, rarer_forms
from opserve_kernels.operators.conv_depthwise2d.cases.refusals import breaches
from opserve_kernels.operators.conv_depthwise2d.cases.sums import (
    contributing,
    operands,
    reference_arguments,
    sums,
    supported,
)
from opserve_kernels.operators.conv_depthwise2d.contract import DOCUMENTED_RULES, RULES, SUPPORT

CASES = OperatorCases(
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    forms=forms,
    rarer_forms=rarer_forms,
    drawn=drawn,
    breaches=breaches,
    sums=sums,
    features=FEATURES,
    tried=tried,
    steps=steps_of,
    groups=groups_of,
    supported=supported,
    reference_arguments=reference_arguments,
    operands=operands,
    contributing=contributing,
)
