"""aclnnIm2colBackward: overlapping blocks summed back into an image."""

from opserve_kernels.im2col_backward.contract import (
    DOCUMENTED_RULES,
    LIMITS,
    REVISION,
    RULES,
    SUPPORT,
)
from opserve_kernels.im2col_backward.plan import infer_outputs, plan
from opserve_kernels.im2col_backward.schema import Im2colBackward
from opserve_kernels.operator import Operator

OPERATOR = Operator(
    name="im2col_backward",
    call="aclnnIm2colBackward",
    family="aclnn",
    revision=REVISION,
    support=SUPPORT,
    rules=RULES,
    documented_rules=DOCUMENTED_RULES,
    limits=LIMITS,
    schema=Im2colBackward,
    outputs=("out",),
    infer_outputs=infer_outputs,
    plan=plan,
)
