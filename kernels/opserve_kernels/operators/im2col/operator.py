"""The record of im2col for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.im2col.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.im2col.plan import plan
from opserve_kernels.operators.im2col.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    Im2col,
    infer_outputs,
)

OPERATOR = Operator(
    name="im2col",
    call=CALL,
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=Im2col,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (4, 3), "unbatched": (3, 2)},
    infer_outputs=infer_outputs,
    plan=plan,
)
