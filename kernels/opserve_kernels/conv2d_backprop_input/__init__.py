"""TBE DSL conv2d_backprop_input: the gradient of a convolution with respect to its input."""

from opserve_kernels.conv2d_backprop_input.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.conv2d_backprop_input.plan import infer_outputs, plan
from opserve_kernels.conv2d_backprop_input.schema import Conv2dBackpropInput
from opserve_kernels.operator import Operator

OPERATOR = Operator(
    name="conv2d_backprop_input",
    call="conv2d_backprop_input",
    family="tbe",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=Conv2dBackpropInput,
    outputs=("res_tensor",),
    infer_outputs=infer_outputs,
    plan=plan,
)
