"""The error table of ConvolutionBackward: every rule, its origin, and the page's sentence."""

from opserve_kernels.operator import Rule, RuleOrigin
from opserve_kernels.operators.convolution_backward import page
from opserve_kernels.operators.convolution_backward.contract import BOUNDS
from opserve_kernels.status import Status

_INPUTS = ("grad_output", "input", "weight")
_IMAGES = (*_INPUTS, "grad_input", "grad_weight")
_GRADIENTS = ("grad_input", "grad_weight", "grad_bias")
_ARRAYS = ("stride", "padding", "dilation", "output_padding")
_A2 = ("ascend910b",)
_OLDER = ("ascend910", "ascend310p")
_PRODUCTS = (*_A2, *_OLDER)
_TAKING_EMPTY = ("ascend910b", "reference")
_BOTH, _SOURCE, _OPSERVE = RuleOrigin.BOTH, RuleOrigin.SOURCE, RuleOrigin.OPSERVE
_CONTRADICTED = RuleOrigin.CONTRADICTED


def _null(parameter: str, broken: str = "missing", *, origin: RuleOrigin = _BOTH) -> Rule:
    return Rule(
        status=Status.ACLNN_ERR_PARAM_NULLPTR, parameter=parameter, broken=broken, origin=origin
    )


def _invalid(
    parameter: str,
    broken: str,
    *profiles: str,
    origin: RuleOrigin = _BOTH,
    sentence: str = "",
) -> Rule:
    """A rule of 161002; its words end with the profiles if it holds on some only."""
    return Rule(
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
        broken=f"{broken} on {' and '.join(profiles)}" if profiles else broken,
        origin=origin,
        sentence=sentence,
        profiles=profiles,
    )


def _page(parameter: str, broken: str, sentence: str, *profiles: str) -> Rule:
    return _invalid(parameter, broken, *profiles, origin=RuleOrigin.PAGE, sentence=sentence)


_NULL_RULES = (
    *(_null(parameter) for parameter in (*_INPUTS, "stride", "padding", "dilation")),
    _null("transposed", origin=_OPSERVE),  # in C, no pointer
    _null("output_padding"),
    _null("groups", origin=_OPSERVE),
    _null("output_mask"),
    _null("cube_math_type", origin=_OPSERVE),
    _null("output_mask", "not three values", origin=_SOURCE),
    *(_null(parameter, "missing where output_mask asks for it") for parameter in _GRADIENTS),
)
_TENSOR_RULES = (
    *(
        _invalid(parameter, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE")
        for parameter in (*_INPUTS, *_GRADIENTS)
    ),
    *(_invalid(parameter, "dtype is BF16", *_OLDER) for parameter in (*_INPUTS, *_GRADIENTS)),
    *(
        _page(parameter, f"dtype is not {wider}", page.DTYPE_OF[parameter], *_PRODUCTS)
        for parameter, wider in (
            ("grad_input", "the wider of input's and grad_output's"),
            ("grad_weight", "the wider of weight's and grad_output's"),
            ("grad_bias", "that of grad_output"),
        )
    ),
    *(_invalid(parameter, "not 3, 4 or 5 dimensions") for parameter in _IMAGES),
    *(
        _invalid(parameter, "format is not that of its dimensions: 3 NCL or ND, 4 NCHW, 5 NCDHW")
        for parameter in _IMAGES
    ),
    *(
        _page(parameter, "format is ND, not NCL,", page.FORMAT_OF[parameter], *_PRODUCTS)
        for parameter in _IMAGES
    ),
    _invalid("grad_bias", "format is not ND, transposed is false,", *_A2),
    _page("grad_bias", "format is not ND, transposed is true,", page.FORMAT_OF["grad_bias"], *_A2),
    _page("grad_bias", "format is not ND", page.FORMAT_OF["grad_bias"], *_OLDER),
)
_VALUE_RULES = (
    _invalid("stride", "a value below 1"),
    _invalid("padding", "a negative value"),
    _invalid("dilation", "a value below 1"),
    _invalid("output_padding", "a negative value"),
    _invalid("output_padding", "not below stride in 3-D"),
    _invalid("output_padding", "not zero, transposed is false", origin=_SOURCE),
    _invalid("groups", "below 1"),
    _invalid("cube_math_type", "not 0, 1, 2 or 3"),
    _invalid("cube_math_type", "0 or 3 with FLOAT", *_OLDER),
)
_EMPTINESS_RULES = (
    _invalid(
        "bias_sizes", "missing or not the channels, output_mask[2], input is empty", *_TAKING_EMPTY
    ),
    _invalid(
        "input", "empty, but neither its N nor its C is 0, grad_input is wanted,", *_TAKING_EMPTY
    ),
    _page(
        "input",
        "empty, but neither its N nor its C is 0, grad_input is not wanted,",
        page.EMPTY_INPUT,
        *_TAKING_EMPTY,
    ),
    _invalid(
        "weight",
        "dimension 0 is not a multiple of groups, input is empty",
        *_TAKING_EMPTY,
        origin=_SOURCE,
    ),
    _invalid(
        "weight",
        "empty, though input is not, grad_input is wanted,",
        *_TAKING_EMPTY,
    ),
    _invalid(
        "weight",
        "dimension 0 is 0, transposed, input is empty",
        *_TAKING_EMPTY,
        origin=_SOURCE,
    ),
    _page(
        "weight",
        "empty, but not for want of input's channels,",
        page.EMPTY_WEIGHT,
        *_TAKING_EMPTY,
    ),
    *(
        _page(
            "grad_output",
            f"{broken}, input is empty",
            page.SHAPES_OF_GRAD_OUTPUT,
            *_TAKING_EMPTY,
        )
        for broken in (
            "N is not that of input",
            "dimension 1 is not the channels of weight and groups",
            "spatial sizes are not those of the convolution",
        )
    ),
    _invalid("input", "empty", *_OLDER, origin=_SOURCE),
    _invalid("weight", "empty", *_OLDER),
    _invalid("grad_output", "empty, though input is not"),
)
_SHAPE_RULES = (
    _invalid("grad_output", "not as many dimensions as input"),
    _invalid("weight", "not as many dimensions as input"),
    _invalid("grad_input", "shape is not that of input", origin=_SOURCE),
    _invalid("grad_weight", "shape is not that of weight", origin=_SOURCE),
    _invalid("grad_bias", "shape is not the channels of grad_output", origin=_SOURCE),
    *(_invalid(parameter, "not a value for each spatial dimension") for parameter in _ARRAYS),
    _invalid(
        "output_padding",
        "four values",
        origin=_CONTRADICTED,
        sentence=page.OUTPUT_PADDING_LENGTH,
    ),
    _invalid("weight", "dimension 0 is not the channels of grad_output, or of input if transposed"),
    _invalid(
        "weight",
        "dimension 1 does not divide the channels of input, or of grad_output if transposed",
    ),
    _invalid("groups", "not those channels divided by weight's dimension 1"),
    _invalid("groups", "does not divide weight's dimension 0", origin=_SOURCE),
    _invalid("input", "smaller than the dilated kernel in 3-D"),
    _invalid("input", "smaller than the dilated kernel in 1-D or 2-D"),
    _invalid("grad_output", "smaller than the dilated kernel in 3-D, transposed"),
    _invalid("grad_output", "smaller than the dilated kernel in 1-D or 2-D, transposed"),
    _invalid("grad_output", "spatial sizes are not those of the convolution in 3-D"),
    _invalid("grad_output", "spatial sizes are not those of the convolution in 1-D or 2-D"),
    _invalid("grad_output", "spatial sizes do not lead back to those of input, transposed"),
    _page(
        "grad_output",
        "spatial sizes are not exactly those of the convolution, transposed",
        page.SHAPES_OF_GRAD_OUTPUT,
    ),
    _invalid("input", "3-D", *_OLDER),
    _invalid("grad_weight", "FLOAT in 3-D with groups computed in 16 bits", *_A2, origin=_SOURCE),
    _invalid(
        "groups",
        "above 1 in 3-D, but not depthwise in BF16, transposed is false,",
        *_A2,
        origin=_CONTRADICTED,
        sentence=page.DEPTHWISE_3D,
    ),
    _page("output_padding", "not below stride in 1-D or 2-D", page.OUTPUT_PADDING_BELOW_STRIDE),
    _invalid("grad_output", "N is not that of input"),
    _page("bias_sizes", "not the channels", page.BIAS_SIZES),
)
RULES: tuple[Rule, ...] = (
    *_NULL_RULES,
    *_TENSOR_RULES,
    *_VALUE_RULES,
    *_EMPTINESS_RULES,
    *_SHAPE_RULES,
    *(
        Rule(
            status=Status.ACLNN_ERR_PARAM_INVALID,
            parameter=bound.limit.parameter,
            broken=bound.broken,
            origin=RuleOrigin.PAGE,
            sentence=bound.sentence,
            profiles=bound.limit.profiles,
        )
        for bound in BOUNDS
    ),
)
