"""Phase one of aclnnConvolution: the rules, then the product with its bias."""

from opserve_kernels.forward.plan import plan_forward
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.convolution.checks import check
from opserve_kernels.operators.convolution.contract import DOCUMENTED_RULES
from opserve_kernels.operators.convolution.error_table import RULES
from opserve_kernels.operators.convolution.page_checks import check_page
from opserve_kernels.operators.convolution.schema import Convolution
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.tensor import Tensor, check_tensor

_TENSORS = ("input", "weight", "bias", "output")
_INPUT, _WEIGHT, _BIAS, _OUTPUT = range(len(_TENSORS))


def plan(arguments: Convolution, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call and plans it; an empty one needs no workspace and no work.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    # Malformed tensors are rejected (161002) before any rule of the vendor: rules rely on their
    # shapes.
    for name in _TENSORS:
        tensor: Tensor | None = getattr(arguments, name)
        if tensor is not None:
            check_tensor(name, tensor, buffer_bytes=None)
    page = PageRules(RULES, profile.name, DOCUMENTED_RULES, options.documented_rules)
    call = check(arguments, profile.name, is_reference=profile.is_reference)
    check_page(arguments, call, profile, page)
    places = (_INPUT, _WEIGHT, _BIAS, _OUTPUT)
    return page.with_warnings(plan_forward(call, profile, options, places))
