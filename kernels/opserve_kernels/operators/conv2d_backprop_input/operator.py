"""The record of conv2d_backprop_input for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.conv2d_backprop_input.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.conv2d_backprop_input.plan import plan
from opserve_kernels.operators.conv2d_backprop_input.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    Conv2dBackpropInput,
    infer_outputs,
)

OPERATOR = Operator(
    name="conv2d_backprop_input",
    call=CALL,
    family="tbe",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=Conv2dBackpropInput,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (4, 5, 5)},
    infer_outputs=infer_outputs,
    plan=plan,
)
