"""The record of conv2d_backprop_filter for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.conv2d_backprop_filter.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.conv2d_backprop_filter.plan import plan
from opserve_kernels.operators.conv2d_backprop_filter.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    Conv2dBackpropFilter,
    infer_outputs,
)

OPERATOR = Operator(
    name="conv2d_backprop_filter",
    call=CALL,
    family="tbe",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=Conv2dBackpropFilter,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (5, 5, 4)},
    infer_outputs=infer_outputs,
    plan=plan,
)
