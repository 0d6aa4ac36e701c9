"""The rules of aclnnConvolution that only the page states: warnings, or errors of a session."""

from opserve_kernels.aclnn_rules import UNLISTED
from opserve_kernels.cube_math import KEEP_DTYPE, USE_FP16, USE_FP32_ADD
from opserve_kernels.errors import invalid_argument
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.checks import (
    check_bias_dtype,
    check_bias_format,
    check_bounds,
    check_has_elements,
    check_kind_of_dtype,
    check_padding,
)
from opserve_kernels.forward.sizes import RANK_3D
from opserve_kernels.operators.convolution.contract import BOUNDS, SOURCE_ONLY_PROFILE, SUPPORT
from opserve_kernels.operators.convolution.schema import Convolution
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import check_page_profile
from opserve_kernels.tensor import DataType, Format, Tensor

_USE_HF32 = 3
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
        check_kind_of_dtype(call, USE_FP16, DataType.BF16)
    with page.rule("4"):
        if call.cube_math_type == USE_FP32_ADD:
            raise invalid_argument("cube_math_type", given=USE_FP32_ADD, allowed="0, 1, 2 or 3")
    with page.rule("a negative value, a tensor is empty"):
        check_padding(call)
    if call.steps.transposed:
        with page.rule("a size is 0"):
            check_has_elements("weight", call.weight)
    if profile.name == _INFERENCE:
        _check_inference(call, page)


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


def _check_inference(call: Call, page: PageRules) -> None:
    """Checks what the page says of Atlas inference alone."""
    with page.rule("3 with FLOAT16"):
        check_kind_of_dtype(call, _USE_HF32, DataType.FLOAT16)
    if call.bias is not None:
        with page.rule("dtype is BF16"):
            _check_dtype("bias", call.bias, SUPPORT[_INFERENCE].dtypes)
    if call.input.rank == RANK_3D and call.steps.transposed:
        with page.rule("true in 3-D"):
            raise invalid_argument("transposed", given="True in 3-D", allowed="False in 3-D")
    elif call.input.rank == RANK_3D:
        tensors = {"input": call.input, "weight": call.weight, "output": call.output}
        if call.bias is not None:
            tensors["bias"] = call.bias
        for name, tensor in tensors.items():
            with page.rule("dtype is not FLOAT16 in 3-D"):
                _check_dtype(name, tensor, (DataType.FLOAT16,))


def _check_dtype(name: str, tensor: Tensor, dtypes: tuple[DataType, ...]) -> None:
    if tensor.dtype not in dtypes:
        allowed = f"dtype {' or '.join(dtypes)} on {_INFERENCE}"
        raise invalid_argument(name, given=f"dtype {tensor.dtype}", allowed=allowed)
