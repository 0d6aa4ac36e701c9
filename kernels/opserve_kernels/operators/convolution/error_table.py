"""The error table of Convolution: every rule, its origin, and the page's sentence."""

from opserve_kernels.aclnn_rules import contradicted, invalid, null, on_page, unlisted
from opserve_kernels.operator import Rule, RuleOrigin
from opserve_kernels.operators.convolution.contract import BOUNDS, SOURCE_ONLY_PROFILE
from opserve_kernels.status import Status

_TENSORS = ("input", "weight", "output")
_STEPS = ("stride", "padding", "dilation")
_A2, _OLDER, _EDGE = "ascend910b", ("ascend910", "ascend310p"), "ascend310b"
_INFERENCE = "ascend310p"
_SOURCE, _OPSERVE = RuleOrigin.SOURCE, RuleOrigin.OPSERVE
_TRANSPOSED = "transposed is true"
_PLAIN = "transposed is false"


_NULL_RULES = (
    *(null(parameter) for parameter in ("input", "weight", *_STEPS, "output")),
    null("transposed", origin=_OPSERVE),  # in C, no pointer
    null("output_padding", f"missing, {_TRANSPOSED}"),
    null("groups", origin=_OPSERVE),
    null("cube_math_type", origin=_OPSERVE),
)
_TENSOR_RULES = (
    *(
        invalid(parameter, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE")
        for parameter in ("bias", *_TENSORS)
    ),
    *(invalid(parameter, "dtype is BF16", *_OLDER) for parameter in _TENSORS),
    *(invalid(parameter, "not 3, 4 or 5 dimensions") for parameter in _TENSORS),
    *(invalid(parameter, "not as many dimensions as input") for parameter in ("weight", "output")),
    invalid("bias", "not 1 dimension", origin=_SOURCE),
    invalid("bias", "size is not the channels of the output"),
    *(invalid(parameter, "not a value for each spatial dimension") for parameter in _STEPS),
    invalid("output_padding", f"not a value for each spatial dimension, {_TRANSPOSED}"),
    *(
        invalid(parameter, "format is not that of its dimensions: 3 NCL, 4 NCHW, 5 NCDHW or NDHWC")
        for parameter in _TENSORS
    ),
    invalid("output", "format is not that of input"),
    invalid("bias", "format is not ND, NCL, NCHW or NCDHW"),
)
_VALUE_RULES = (
    invalid("weight", "a spatial size is 0", origin=_SOURCE),
    invalid("stride", "a value below 1"),
    invalid("dilation", "a value below 1"),
    invalid("padding", "a negative value, no tensor is empty"),
    invalid("input", f"smaller than the dilated kernel, {_PLAIN}"),
    invalid("groups", "below 1"),
    invalid("weight", f"dimension 0 is not the channels of input, {_TRANSPOSED}"),
    invalid("output_padding", f"neither below stride nor below dilation, {_TRANSPOSED}"),
    invalid("output_padding", f"a negative value, {_TRANSPOSED}"),
    invalid("weight", f"groups times dimension 1 is not the channels of input, {_PLAIN}"),
    invalid("weight", "dimension 0 is not a multiple of groups"),
    invalid("input", f"no channels, {_TRANSPOSED}", origin=_SOURCE),
    invalid(
        "padding",
        f"more than 255 below the span of the kernel, {_TRANSPOSED}",
        *(_A2, *_OLDER),
        origin=_SOURCE,
    ),
    invalid(
        "padding",
        f"above the span of the kernel in 3-D, {_TRANSPOSED}",
        *(_A2, *_OLDER),
        origin=_SOURCE,
    ),
    invalid("output", "shape is not that of the convolution"),
    invalid("output", "not empty, though input or weight is", origin=_SOURCE),
    invalid("cube_math_type", "not 0, 1, 2, 3 or 4"),
    invalid("cube_math_type", "0, 3 or 4 with FLOAT", *_OLDER),
    invalid("input", "1-D or 3-D", _EDGE),
    invalid("transposed", "true", _EDGE),
    Rule(
        status=Status.ACLNN_ERR_RUNTIME_ERROR,
        parameter="output",
        broken=f"dtype is FLOAT, computed in 16 bits, cube_math_type not 2, {_TRANSPOSED} on {_A2}",
        origin=_SOURCE,
        profiles=(_A2,),
    ),
    Rule(
        status=Status.ACLNN_ERR_RUNTIME_ERROR,
        parameter="weight",
        broken=f"more than 65535 values in a block of channels in 3-D, {_PLAIN} on {_A2}",
        origin=_SOURCE,
        profiles=(_A2,),
    ),
)
_PAGE_RULES = (
    unlisted(SOURCE_ONLY_PROFILE, "Atlas 训练系列产品 不支持"),
    contradicted(
        "bias",
        "dtype is not that of input and weight",
        "bias 数据类型与input、weight一致",
        *(_A2, _EDGE),
    ),
    contradicted(
        "bias",
        f"format is not ND, {_TRANSPOSED}",
        "transposed=true: bias 数据格式 ND",
    ),
    on_page(
        "output",
        f"dtype is not that of input, {_TRANSPOSED}",
        "transposed=true: output 数据类型与input一致",
        *(_A2, *_OLDER),
    ),
    *(
        on_page(
            parameter, "format is NDHWC,", f"{parameter} 数据格式 NCL、NCHW、NCDHW", *(_A2, *_OLDER)
        )
        for parameter in _TENSORS
    ),
    contradicted(
        "cube_math_type",
        "0 with FLOAT",
        "cubeMathType 0: FLOAT 暂不支持",
        *(_A2, _EDGE),
    ),
    contradicted(
        "cube_math_type",
        "2 with BF16",
        "cubeMathType 2: BFLOAT16 不支持",
        *(_A2, _EDGE),
    ),
    on_page("cube_math_type", "4", "cubeMathType 0、1、2、3", *(_A2, *_OLDER, _EDGE)),
    on_page(
        "padding",
        "a negative value, a tensor is empty",
        "padding 值 >= 0",
        *(_A2, *_OLDER, _EDGE),
    ),
    on_page("weight", f"a size is 0, {_TRANSPOSED}", "transposed=true: weight 其他维度 >= 1", _A2),
    on_page("cube_math_type", "3 with FLOAT16", "cubeMathType 3 暂不支持", _INFERENCE),
    on_page("bias", "dtype is BF16", "bias 数据类型不支持 BFLOAT16", _INFERENCE),
    on_page("transposed", "true in 3-D", "支持1D和2D卷积,3D卷积正向场景仅支持 FLOAT16", _INFERENCE),
    *(
        on_page(
            parameter,
            f"dtype is not FLOAT16 in 3-D, {_PLAIN},",
            "3D卷积正向场景仅支持 FLOAT16",
            _INFERENCE,
        )
        for parameter in (*_TENSORS, "bias")
    ),
)
RULES: tuple[Rule, ...] = (
    *_NULL_RULES,
    *_TENSOR_RULES,
    *_VALUE_RULES,
    *(bound.rule for bound in BOUNDS if bound.is_of_cube),
    *_PAGE_RULES,
    *(bound.rule for bound in BOUNDS if not bound.is_of_cube),
)
