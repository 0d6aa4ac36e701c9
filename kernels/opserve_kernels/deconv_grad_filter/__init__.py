"""{fp,hp}_deconv_grad_filter_{s,p}: the gradient of a deconvolution with respect to its weight."""

from opserve_kernels.deconv_grad_filter.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.deconv_grad_filter.plan import infer_outputs, plan
from opserve_kernels.deconv_grad_filter.schema import DeconvGradFilter
from opserve_kernels.operator import Operator

OPERATOR = Operator(
    name="deconv_grad_filter",
    call="deconv_grad_filter",
    family="ft_dsp",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=DeconvGradFilter,
    outputs=("dw_data",),
    infer_outputs=infer_outputs,
    plan=plan,
)
