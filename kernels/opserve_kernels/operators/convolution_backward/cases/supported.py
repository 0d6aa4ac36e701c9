"""The calls of convolution_backward that a profile supports, and their form for `reference`."""

from collections.abc import Collection, Mapping
from math import prod

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.cases.cube_math import case_operands, with_supported_kind
from opserve_kernels.number_formats import Operands, promote
from opserve_kernels.operators.convolution_backward.cases.sums import OPERANDS
from opserve_kernels.operators.convolution_backward.contract import PROFILE_RULES
from opserve_kernels.operators.convolution_backward.schema import OUTPUTS
from opserve_kernels.profiles import PROFILES
from opserve_kernels.tensor import Format

_KEEP_DTYPE = 0


def supported(case: Case) -> Case | None:
    """The call, with another cube_math_type if the profile needs it; None if unsupported."""
    rules = PROFILE_RULES[case.profile]
    input_, weight = case.tensors["input"], case.tensors["weight"]
    is_empty = 0 in (prod(input_.shape), prod(weight.shape))
    if len(input_.shape) not in rules.ranks or (is_empty and not rules.takes_empty):
        return None
    return with_supported_kind(case, OPERANDS)


def follows_the_page(case: Case) -> bool:
    """Whether dtypes of gradients and formats, which a form varies, are the page's.

    On `reference`, which represents no product, all are accepted.
    """
    if PROFILES[case.profile].is_reference:
        return True
    given = case.tensors["grad_output"].dtype
    dtypes = {
        "grad_input": promote(case.tensors["input"].dtype, given),
        "grad_weight": promote(case.tensors["weight"].dtype, given),
        "grad_bias": given,
    }
    images = [tensor for name, tensor in case.tensors.items() if name != "grad_bias"]
    return all(tensor.format is not Format.ND for tensor in images) and all(
        tensor.dtype == dtypes[name] for name, tensor in case.outputs.items()
    )


def operands_of(case: Case) -> Mapping[str, Operands]:
    """The roundings of a case's operands before they are multiplied."""
    return case_operands(case, OPERANDS)


def reference_arguments(case: Case, outputs: Collection[str]) -> Mapping[str, Value]:
    """The arguments without a product's roundings, for some gradients."""
    mask = tuple(name in outputs for name in OUTPUTS)
    return {**case.arguments, "cube_math_type": _KEEP_DTYPE, "output_mask": mask}
