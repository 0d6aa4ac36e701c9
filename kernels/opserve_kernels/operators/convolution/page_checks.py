"""The rules of aclnnConvolution that only the page states: warnings, or errors of a session."""

from opserve_kernels.aclnn_rules import UNLISTED
from opserve_kernels.cube_math import KEEP_DTYPE, USE_FP32_ADD
from opserve_kernels.errors import invalid_argument
from opserve_kernels.forward.bounds import check_bounds
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.checks import (
    check_bias_dtype,
    check_bias_format,
    check_kind_of_dtype,
)
from opserve_kernels.forward.sizes import RANK_3D
from opserve_kernels.operators.convolution.contract import BOUNDS, SOURCE_ONLY_PROFILE, SUPPORT
from opserve_kernels.operators.convolution.schema import Convolution
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import check_page_profile
from opserve_kernels.tensor import DataType, Format, Tensor

_USE_FP16 = 2
_INFERENCE = "ascend310p"


def check_page(arguments: Convolution, call: Call, profile: Profile, page: PageRules) -> None:
    """Rejects a call that the source accepts and the page does not, or notes a warning.

    The page is about products, so `reference` has none of its rules.
    """
    check_bounds(call, profile.name, BOUNDS, tuple(SUPPORT), page)
    if profile.is_reference:
        return
    with page.rule(f"{SOURCE_ONLY_PROFILE}, {UNLISTED}"):
        check_page_profile(profile.name, SOURCE_ONLY_PROFILE, SUPPORT)
    _check_tensors(arguments, call, page)
    with page.rule("dtype is not that of input and weight"):
        check_bias_dtype(call)
    with page.rule("0 with FLOAT"):
        check_kind_of_dtype(call, KEEP_DTYPE, DataType.FLOAT)
    with page.rule("2 with BF16"):
        check_kind_of_dtype(call, _USE_FP16, DataType.BF16)
    with page.rule("4"):
        if call.cube_math_type == USE_FP32_ADD:
            raise invalid_argument("cube_math_type", given=USE_FP32_ADD, allowed="0, 1, 2 or 3")
    if profile.name == _INFERENCE and not call.steps.transposed:
        with page.rule("dtype is FLOAT in 3-D"):
            _check_half(call)


def _check_tensors(arguments: Convolution, call: Call, page: PageRules) -> None:
    given = (
        ("input", arguments.input),
        ("weight", arguments.weight),
        ("output", arguments.output),
    )
    for name, tensor in given:
        with page.rule("format is NDHWC,"):
            _check_channels_first(name, tensor)
    if call.steps.transposed:
        with page.rule("format is not ND, transposed is true"):
            check_bias_format(call)
        with page.rule("dtype is not that of input, transposed is true"):
            if call.output.dtype != call.input.dtype:
                raise invalid_argument(
                    "output", given=f"dtype {call.output.dtype}", allowed="the dtype of input"
                )


def _check_channels_first(name: str, tensor: Tensor | None) -> None:
    if tensor is not None and tensor.format is Format.NDHWC:
        raise invalid_argument(name, given="format NDHWC", allowed="format NCDHW")


def _check_half(call: Call) -> None:
    if call.input.rank == RANK_3D and call.input.dtype == DataType.FLOAT:
        raise invalid_argument(
            "input", given="dtype FLOAT in 3-D", allowed=f"dtype FLOAT16 on {_INFERENCE}"
        )
