"""The error table of ConvolutionBackward: every rule, its origin, and the page's sentence."""

from opserve_kernels.aclnn_rules import invalid, null, on_page
from opserve_kernels.operator import Rule, RuleOrigin
from opserve_kernels.operators.convolution_backward import page
from opserve_kernels.operators.convolution_backward.contract import BOUNDS

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
_BIAS_FORMAT = page.FORMAT_OF["grad_bias"]


_NULL_RULES = (
    *(null(parameter) for parameter in (*_INPUTS, "stride", "padding", "dilation")),
    null("transposed", origin=_OPSERVE),  # in C, no pointer
    null("output_padding"),
    null("groups", origin=_OPSERVE),
    null("output_mask"),
    null("cube_math_type", origin=_OPSERVE),
    null("output_mask", "not three values", origin=_SOURCE),
    *(null(parameter, "missing where output_mask asks for it") for parameter in _GRADIENTS),
)
_TENSOR_RULES = (
    *(
        invalid(parameter, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE")
        for parameter in (*_INPUTS, *_GRADIENTS)
    ),
    *(invalid(parameter, "dtype is BF16", *_OLDER) for parameter in (*_INPUTS, *_GRADIENTS)),
    *(
        on_page(parameter, f"dtype is not {wider}", page.DTYPE_OF[parameter], *_PRODUCTS)
        for parameter, wider in (
            ("grad_input", "the wider of input's and grad_output's"),
            ("grad_weight", "the wider of weight's and grad_output's"),
            ("grad_bias", "that of grad_output"),
        )
    ),
    *(invalid(parameter, "not 3, 4 or 5 dimensions") for parameter in _IMAGES),
    *(
        invalid(parameter, "format is not that of its dimensions: 3 NCL or ND, 4 NCHW, 5 NCDHW")
        for parameter in _IMAGES
    ),
    *(
        on_page(parameter, "format is ND, not NCL,", page.FORMAT_OF[parameter], *_PRODUCTS)
        for parameter in _IMAGES
    ),
    invalid("grad_bias", "format is not ND, transposed is false,", *_A2),
    on_page(
        "grad_bias", "format is not ND, transposed is true,", page.FORMAT_OF["grad_bias"], *_A2
    ),
    on_page("grad_bias", "format is not ND", page.FORMAT_OF["grad_bias"], *_OLDER),
)
_VALUE_RULES = (
    invalid("stride", "a value below 1"),
    invalid("padding", "a negative value"),
    invalid("dilation", "a value below 1"),
    invalid("output_padding", "a negative value"),
    invalid("output_padding", "not below stride in 3-D"),
    invalid("output_padding", "not zero, transposed is false", origin=_SOURCE),
    invalid("groups", "below 1"),
    invalid("cube_math_type", "not 0, 1, 2 or 3"),
    invalid("cube_math_type", "0 or 3 with FLOAT", *_OLDER),
)
_EMPTINESS_RULES = (
    invalid(
        "bias_sizes", "missing or not the channels, output_mask[2], input is empty", *_TAKING_EMPTY
    ),
    invalid(
        "input", "empty, but neither its N nor its C is 0, grad_input is wanted,", *_TAKING_EMPTY
    ),
    on_page(
        "input",
        "empty, but neither its N nor its C is 0, grad_input is not wanted,",
        page.EMPTY_INPUT,
        *_TAKING_EMPTY,
    ),
    invalid(
        "weight",
        "dimension 0 is not a multiple of groups, input is empty",
        *_TAKING_EMPTY,
        origin=_SOURCE,
    ),
    invalid(
        "weight",
        "empty, though input is not, grad_input is wanted,",
        *_TAKING_EMPTY,
    ),
    invalid(
        "weight",
        "dimension 0 is 0, transposed, input is empty",
        *_TAKING_EMPTY,
        origin=_SOURCE,
    ),
    on_page(
        "weight",
        "empty, but not for want of input's channels,",
        page.EMPTY_WEIGHT,
        *_TAKING_EMPTY,
    ),
    *(
        on_page(
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
    invalid("input", "empty", *_OLDER, origin=_SOURCE),
    invalid("weight", "empty", *_OLDER),
    invalid("grad_output", "empty, though input is not"),
)
_SHAPE_RULES = (
    invalid("grad_output", "not as many dimensions as input"),
    invalid("weight", "not as many dimensions as input"),
    invalid("grad_input", "shape is not that of input", origin=_SOURCE),
    invalid("grad_weight", "shape is not that of weight", origin=_SOURCE),
    invalid("grad_bias", "shape is not the channels of grad_output", origin=_SOURCE),
    *(invalid(parameter, "not a value for each spatial dimension") for parameter in _ARRAYS),
    invalid(
        "output_padding",
        "four values",
        origin=_CONTRADICTED,
        sentence=page.OUTPUT_PADDING_LENGTH,
    ),
    invalid("weight", "dimension 0 is not the channels of grad_output, or of input if transposed"),
    invalid(
        "weight",
        "dimension 1 does not divide the channels of input, or of grad_output if transposed",
    ),
    invalid("groups", "not those channels divided by weight's dimension 1"),
    invalid("groups", "does not divide weight's dimension 0", origin=_SOURCE),
    invalid("input", "smaller than the dilated kernel in 3-D"),
    invalid("input", "smaller than the dilated kernel in 1-D or 2-D"),
    invalid("grad_output", "smaller than the dilated kernel in 3-D, transposed"),
    invalid("grad_output", "smaller than the dilated kernel in 1-D or 2-D, transposed"),
    invalid("grad_output", "spatial sizes are not those of the convolution in 3-D"),
    invalid("grad_output", "spatial sizes are not those of the convolution in 1-D or 2-D"),
    invalid("grad_output", "spatial sizes do not lead back to those of input, transposed"),
    on_page(
        "grad_output",
        "spatial sizes are not exactly those of the convolution, transposed",
        page.SHAPES_OF_GRAD_OUTPUT,
    ),
    invalid("input", "3-D", *_OLDER),
    invalid("grad_weight", "FLOAT in 3-D with groups computed in 16 bits", *_A2, origin=_SOURCE),
    invalid(
        "groups",
        "above 1 in 3-D, but not depthwise in BF16, transposed is false,",
        *_A2,
        origin=_CONTRADICTED,
        sentence=page.DEPTHWISE_3D,
    ),
    on_page("output_padding", "not below stride in 1-D or 2-D", page.OUTPUT_PADDING_BELOW_STRIDE),
    invalid("grad_output", "N is not that of input"),
    on_page("bias_sizes", "not the channels", page.BIAS_SIZES),
)
RULES: tuple[Rule, ...] = (
    *_NULL_RULES,
    *_TENSOR_RULES,
    *_VALUE_RULES,
    *_EMPTINESS_RULES,
    *_SHAPE_RULES,
    *(bound.rule for bound in BOUNDS),
)
