"""The record of im2col_backward for the service: contract, schema and plan."""

from opserve_kernels.operator import Operator
from opserve_kernels.operators.im2col_backward.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.im2col_backward.plan import plan
from opserve_kernels.operators.im2col_backward.schema import (
    CALL,
    FORMATS,
    OUTPUTS,
    Im2colBackward,
    infer_outputs,
)

OPERATOR = Operator(
    name="im2col_backward",
    call=CALL,
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=Im2colBackward,
    outputs=OUTPUTS,
    formats=FORMATS,
    ranks={"": (3, 4), "unbatched": (2, 3)},
    infer_outputs=infer_outputs,
    plan=plan,
)
