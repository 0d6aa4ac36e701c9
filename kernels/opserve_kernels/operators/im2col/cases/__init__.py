"""The conformance record of im2col."""

from opserve_kernels.cases.image_blocks import steps_of
from opserve_kernels.cases.operator_cases import OperatorCases
from opserve_kernels.operators.im2col.cases.contributions import contributing
from opserve_kernels.operators.im2col.cases.features import FEATURES
from opserve_kernels.operators.im2col.cases.forms import drawn, forms, rarer_forms
from opserve_kernels.operators.im2col.cases.refusals import breaches
from opserve_kernels.operators.im2col.cases.sums import sums
from opserve_kernels.operators.im2col.contract import DOCUMENTED_RULES, RULES, SUPPORT

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
    steps=steps_of,
    contributing=contributing,
)
