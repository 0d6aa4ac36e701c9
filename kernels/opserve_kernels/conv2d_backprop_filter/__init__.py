"""TBE DSL conv2d_backprop_filter: the gradient of a convolution with respect to its weight."""

from opserve_kernels.conv2d_backprop_filter.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.conv2d_backprop_filter.plan import infer_outputs, plan
from opserve_kernels.conv2d_backprop_filter.schema import Conv2dBackpropFilter
from opserve_kernels.operator import Operator

OPERATOR = Operator(
    name="conv2d_backprop_filter",
    call="conv2d_backprop_filter",
    family="tbe",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=Conv2dBackpropFilter,
    outputs=("res_tensor",),
    infer_outputs=infer_outputs,
    plan=plan,
)
