"""The record of conv_tbc for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.conv_tbc.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.conv_tbc.plan import plan
from opserve_kernels.operators.conv_tbc.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    ConvTbc,
    infer_outputs,
)

OPERATOR = Operator(
    name="conv_tbc",
    call=CALL,
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=ConvTbc,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (3, 3, 1, 3)},
    infer_outputs=infer_outputs,
    plan=plan,
)
