"""The record of deconv_grad_filter for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.deconv_grad_filter.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.deconv_grad_filter.plan import plan
from opserve_kernels.operators.deconv_grad_filter.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    DeconvGradFilter,
    infer_outputs,
)

OPERATOR = Operator(
    name="deconv_grad_filter",
    call=CALL,
    family="ft_dsp",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=DeconvGradFilter,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (4, 4, 3)},
    infer_outputs=infer_outputs,
    plan=plan,
)
