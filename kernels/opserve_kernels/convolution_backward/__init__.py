"""aclnnConvolutionBackward: the gradients of a convolution."""

from opserve_kernels.convolution_backward.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    SUPPORT,
)
from opserve_kernels.convolution_backward.error_table import RULES
from opserve_kernels.convolution_backward.plan import infer_outputs, plan
from opserve_kernels.convolution_backward.schema import ConvolutionBackward
from opserve_kernels.operator import Operator

OPERATOR = Operator(
    name="convolution_backward",
    call="aclnnConvolutionBackward",
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=ConvolutionBackward,
    outputs=("grad_input", "grad_weight", "grad_bias"),
    infer_outputs=infer_outputs,
    plan=plan,
)
