"""The conformance record of convolution_backward."""

from opserve_kernels.cases.operator_cases import OperatorCases, Projected
from opserve_kernels.operators.convolution_backward.cases.contributions import contributing
from opserve_kernels.operators.convolution_backward.cases.features import (
    FEATURES,
    groups_of,
    steps_of,
    tried,
)
from opserve_kernels.operators.convolution_backward.cases.forms import (
    drawn,
    forms,
    network_layers,
    rarer_forms,
)
from opserve_kernels.operators.convolution_backward.cases.projection import (
    CHANNEL_AXES,
    projected_call,
)
from opserve_kernels.operators.convolution_backward.cases.refusals import breaches
from opserve_kernels.operators.convolution_backward.cases.sums import sums
from opserve_kernels.operators.convolution_backward.cases.supported import (
    follows_the_page,
    operands_of,
    reference_arguments,
    supported,
)
from opserve_kernels.operators.convolution_backward.contract import SUPPORT
from opserve_kernels.operators.convolution_backward.error_table import RULES

CASES = OperatorCases(
    support=SUPPORT,
    rules=RULES,
    forms=forms,
    rarer_forms=rarer_forms,
    layers=network_layers,
    drawn=drawn,
    breaches=breaches,
    sums=sums,
    features=FEATURES,
    tried=tried,
    steps=steps_of,
    groups=groups_of,
    supported=supported,
    follows_the_page=follows_the_page,
    reference_arguments=reference_arguments,
    operands=operands_of,
    unrounded=("grad_bias",),
    projected=Projected(channel_axes=CHANNEL_AXES, call=projected_call),
    contributing=contributing,
)
