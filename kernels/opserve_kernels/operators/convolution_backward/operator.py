"""The record of convolution_backward for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.convolution_backward.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    SUPPORT,
)
from opserve_kernels.operators.convolution_backward.error_table import RULES
from opserve_kernels.operators.convolution_backward.plan import plan
from opserve_kernels.operators.convolution_backward.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    ConvolutionBackward,
    infer_outputs,
)

OPERATOR = Operator(
    name="convolution_backward",
    call=CALL,
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=ConvolutionBackward,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (4, 4, 4, 4, 4, 1), "1d": (3, 3, 3, 3, 3, 1), "3d": (5, 5, 5, 5, 5, 1)},
    infer_outputs=infer_outputs,
    plan=plan,
)
