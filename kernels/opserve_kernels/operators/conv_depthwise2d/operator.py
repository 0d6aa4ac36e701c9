"""The record of conv_depthwise2d for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.conv_depthwise2d.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.conv_depthwise2d.plan import plan
from opserve_kernels.operators.conv_depthwise2d.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    ConvDepthwise2d,
    infer_outputs,
)

OPERATOR = Operator(
    name="conv_depthwise2d",
    call=CALL,
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=ConvDepthwise2d,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (4, 4, 1, 4)},
    infer_outputs=infer_outputs,
    plan=plan,
)
