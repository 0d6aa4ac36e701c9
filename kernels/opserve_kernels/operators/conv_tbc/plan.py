"""Phase one of aclnnConvTbc: the rules in the vendor's order, then a 1-D product of other axes."""

from opserve_kernels.aclnn_rules import UNLISTED
from opserve_kernels.cube_math import KEEP_DTYPE, USE_FP16, USE_FP32_ADD, check_cube_math_type
from opserve_kernels.errors import InvalidArgument, invalid_argument
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.checks import (
    check_bias_dtype,
    check_bias_format,
    check_format,
    check_kind_of_dtype,
    check_rank,
    check_same_dtype,
)
from opserve_kernels.forward.plan import plan_forward, plan_of_bias
from opserve_kernels.forward.sizes import RANK_1D, Steps
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.conv_tbc.contract import (
    CUBE_MATH_TYPES,
    DOCUMENTED_RULES,
    PAD,
    PRODUCTS,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.conv_tbc.schema import ConvTbc
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import check_dtype, check_page_profile, check_range, required
from opserve_kernels.tensor import DataType, Format, Tensor, check_tensor, permuted

_TENSORS = ("self", "weight", "bias", "out")
_PLACES = (0, 1, 2, 3)
_IMAGES = ("self", "weight", "out")
_FORMATS = {RANK_1D: (Format.ND, Format.NCL)}
_BIAS_DTYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)
_WITHOUT_BF16_BIAS = "ascend310p"
_TO_NCL, _TO_WEIGHT = (1, 2, 0), (2, 1, 0)  # of images (T, B, C) and weights (K, Cin, Cout)


def plan(arguments: ConvTbc, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call and plans it; out without elements needs no workspace and no work.

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
    call = _check(arguments, profile.name)
    _check_page(call, profile.name, page)
    # Without products, out is the bias: no other forward operator writes anything then.
    if call.is_empty and call.output.element_count:
        return page.with_warnings(plan_of_bias(call, profile, options, _PLACES))
    return page.with_warnings(plan_forward(call, profile, options, _PLACES))


def _check(arguments: ConvTbc, profile: str) -> Call:
    """Checks the rules of the source, in its order; it permutes tensors before all of them."""
    given = {name: required(name, getattr(arguments, name)) for name in _TENSORS}
    pad = required("pad", arguments.pad)
    kind = required("cube_math_type", arguments.cube_math_type)
    for name in _IMAGES:
        check_rank(name, given[name], (RANK_1D,))
    _check_dtypes(given, profile)
    check_rank("bias", given["bias"], (1,))
    for name in _IMAGES:
        check_format(name, given[name], _FORMATS)
    call = Call(
        input=permuted(given["self"], _TO_NCL, Format.NCL),
        weight=permuted(given["weight"], _TO_WEIGHT, Format.NCL),
        bias=given["bias"],
        output=permuted(given["out"], _TO_NCL, Format.NCL),
        steps=Steps(stride=(1,), padding=(pad,), dilation=(1,)),
        cube_math_type=kind,
        input_name="self",
        output_name="out",
    )
    _check_shapes(given, call, pad, is_product=profile in PRODUCTS)
    check_cube_math_type(kind, call.promoted, CUBE_MATH_TYPES, profile, tuple(SUPPORT))
    return call


def _check_dtypes(given: dict[str, Tensor], profile: str) -> None:
    is_product = profile in PRODUCTS and profile != _WITHOUT_BF16_BIAS
    dtypes = _BIAS_DTYPES if is_product else SUPPORT[profile].dtypes
    if given["bias"].dtype not in dtypes:
        raise invalid_argument(
            "bias", given=f"dtype {given['bias'].dtype}", allowed=f"dtypes {', '.join(dtypes)}"
        )
    for name in _IMAGES:
        check_dtype(name, given[name], support=SUPPORT, profile=profile)
    if profile in PRODUCTS:
        check_same_dtype("weight", given["weight"], "self", given["self"])
        check_same_dtype("out", given["out"], "weight", given["weight"])


def _check_shapes(given: dict[str, Tensor], call: Call, pad: int, *, is_product: bool) -> None:
    (times, batch, inputs), (taps, of_weight, outputs) = given["self"].shape, given["weight"].shape
    if given["bias"].shape != (outputs,):
        raise _wrong_shape("bias", given, f"shape {[outputs]}, weight's dimension 2")
    if taps == 0:
        raise _wrong_shape("weight", given, "at least 1 tap in dimension 0")
    # The source compares it with 0 only when it plans a call that is not empty.
    if not call.is_empty:
        check_range("pad", pad, least=PAD.least)
    # The source counts the padding once here: it rejects some calls whose out exists.
    if is_product and call.input.element_count and times + pad < taps:
        raise _wrong_shape("weight", given, f"at most {times + pad} taps in dimension 0")
    size = times + 2 * pad - taps + 1
    if size < 0:
        raise _wrong_shape("weight", given, f"at most {times + 2 * pad + 1} taps in dimension 0")
    if of_weight != inputs:
        raise _wrong_shape("weight", given, f"{inputs} channels in dimension 1, as self has")
    if given["out"].shape != (size, batch, outputs):
        raise _wrong_shape("out", given, f"shape {[size, batch, outputs]}")


def _wrong_shape(name: str, given: dict[str, Tensor], allowed: str) -> InvalidArgument:
    return invalid_argument(name, given=f"shape {list(given[name].shape)}", allowed=allowed)


def _check_page(call: Call, profile: str, page: PageRules) -> None:
    """Notes the rules that only the page states."""
    if profile not in PRODUCTS:
        return
    for only in PRODUCTS[1:]:
        with page.rule(f"{only}, {UNLISTED}"):
            check_page_profile(profile, only, SUPPORT)
    with page.rule("dtype is not that of self"):
        check_bias_dtype(call)
    with page.rule("format is not ND"):
        check_bias_format(call)
    with page.rule(f"not in [{PAD.least}, {PAD.most}]"):
        check_range("pad", call.steps.padding[0], least=PAD.least, most=PAD.most)
    with page.rule("0 with FLOAT"):
        check_kind_of_dtype(call, KEEP_DTYPE, DataType.FLOAT)
    with page.rule("2 with BF16"):
        check_kind_of_dtype(call, USE_FP16, DataType.BF16)
    with page.rule("4"):
        if call.cube_math_type == USE_FP32_ADD:
            raise invalid_argument("cube_math_type", given=USE_FP32_ADD, allowed="0, 1, 2 or 3")
