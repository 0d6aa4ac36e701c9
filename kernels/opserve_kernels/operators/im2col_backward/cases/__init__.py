"""The conformance record of im2col_backward."""

from opserve_kernels.cases.image_blocks import steps_of
from opserve_kernels.cases.operator_cases import OperatorCases
from opserve_kernels.operators.im2col_backward.cases.contributions import contributing
from opserve_kernels.operators.im2col_backward.cases.features import FEATURES
from opserve_kernels.operators.im2col_backward.cases.forms import drawn, forms
from opserve_kernels.operators.im2col_backward.cases.refusals import breaches
from opserve_kernels.operators.im2col_backward.cases.sums import sums
from opserve_kernels.operators.im2col_backward.contract import RULES, SUPPORT

CASES = OperatorCases(
    support=SUPPORT,
    rules=RULES,
    forms=forms,
    drawn=drawn,
    breaches=breaches,
    sums=sums,
    features=FEATURES,
    steps=steps_of,
    contributing=contributing,
)
