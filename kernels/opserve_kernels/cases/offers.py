"""Which calls a profile offers, by the data of the operators' contracts."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import cast

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.number_formats import promote
from opserve_kernels.operator import Support
from opserve_kernels.operators.conv2d_backprop_filter import contract as filter_contract
from opserve_kernels.operators.conv2d_backprop_input import contract as input_contract
from opserve_kernels.operators.convolution_backward import contract as convolution_contract
from opserve_kernels.operators.deconv_grad_filter import contract as deconvolution_contract
from opserve_kernels.operators.im2col_backward import contract as fold_contract
from opserve_kernels.profiles import PROFILES
from opserve_kernels.tensor import Format

SUPPORT: Mapping[str, Mapping[str, Support]] = {
    "convolution_backward": convolution_contract.SUPPORT,
    "im2col_backward": fold_contract.SUPPORT,
    "conv2d_backprop_input": input_contract.SUPPORT,
    "conv2d_backprop_filter": filter_contract.SUPPORT,
    "deconv_grad_filter": deconvolution_contract.SUPPORT,
}
_RESULTS: Mapping[str, tuple[Mapping[str, tuple[str, ...]], str]] = {
    "conv2d_backprop_input": (input_contract.RESULTS, "float16"),
    "conv2d_backprop_filter": (filter_contract.RESULTS, "float32"),
}
"""What res_dtype may be, by profile, and what it is without one."""


def offered(case: Case) -> Case | None:
    """The call as its profile offers it; None where it does not.

    FLOAT on a profile that computes it in FLOAT16 only is asked for so.
    """
    support = SUPPORT[case.operator][case.profile].dtypes
    if case.operator in _RESULTS:
        return case if _is_offered_in_blocks(case) else None
    if any(tensor.dtype not in support for tensor in case.tensors.values()):
        return None
    return _convolution(case) if case.operator == "convolution_backward" else case


def follows_the_page(case: Case) -> bool:
    """Whether a call is accepted by default: dtypes of gradients and formats, which a form varies.

    On `reference`, which stands for no product, they may be any.
    """
    if case.operator != "convolution_backward" or PROFILES[case.profile].exact:
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


def _is_offered_in_blocks(case: Case) -> bool:
    """Operands of a dtype that the profile has, and a result that it makes."""
    spellings, default = _RESULTS[case.operator]
    members = cast("Mapping[str, Value]", case.arguments.get("para_dict", {}))
    support = SUPPORT[case.operator][case.profile].dtypes
    has_operands = all(tensor.dtype in support for tensor in case.inputs.values())
    return has_operands and members.get("res_dtype", default) in spellings[case.profile]


def _convolution(case: Case) -> Case | None:
    rules = convolution_contract.PROFILE_RULES[case.profile]
    input_, weight = case.tensors["input"], case.tensors["weight"]
    is_empty = 0 in (prod(input_.shape), prod(weight.shape))
    if len(input_.shape) not in rules.ranks or (is_empty and not rules.takes_empty):
        return None
    promoted = promote(promote(case.tensors["grad_output"].dtype, input_.dtype), weight.dtype)
    computations = rules.computations.get(promoted)
    if computations is None:
        return None
    kind = cast("int", case.arguments["cube_math_type"])
    if computations[kind] is not None:
        return case
    able = [index for index, how in enumerate(computations) if how is not None]
    return replace(case, arguments={**case.arguments, "cube_math_type": able[0]})
