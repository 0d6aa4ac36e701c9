"""The record of convolution for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.convolution.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    SUPPORT,
)
from opserve_kernels.operators.convolution.error_table import RULES
from opserve_kernels.operators.convolution.plan import plan
from opserve_kernels.operators.convolution.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    Convolution,
    infer_outputs,
)

OPERATOR = Operator(
    name="convolution",
    call=CALL,
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=Convolution,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (4, 4, 1, 4), "1d": (3, 3, 1, 3), "3d": (5, 5, 1, 5)},
    infer_outputs=infer_outputs,
    plan=plan,
)
