"""The record of conv_tbc_backward for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.conv_tbc_backward.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.conv_tbc_backward.plan import plan
from opserve_kernels.operators.conv_tbc_backward.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    ConvTbcBackward,
    infer_outputs,
)

OPERATOR = Operator(
    name="conv_tbc_backward",
    call=CALL,
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=ConvTbcBackward,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (3, 3, 3, 1, 3, 3, 1)},
    infer_outputs=infer_outputs,
    plan=plan,
)
