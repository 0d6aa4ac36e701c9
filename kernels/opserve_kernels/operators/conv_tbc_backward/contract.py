"""The contract of ConvTbcBackward as data: revision, support, error table, bounds."""

from collections.abc import Mapping

from opserve_kernels.aclnn_rules import invalid, null, on_page
from opserve_kernels.operator import DocumentedRules, Limit, Rule, RuleOrigin, Support
from opserve_kernels.tensor import DataType

REVISION = 1
DOCUMENTED_RULES = DocumentedRules.WARN
RANK = 3  # of images and weights

_A2, _OLDER = "ascend910b", "ascend910"
PRODUCTS = (_A2, _OLDER)
"""Profiles on which a gradient must have its tensor's dtype."""
_DTYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)
SUPPORT: Mapping[str, Support] = {
    _A2: Support(dtypes=_DTYPES),
    _OLDER: Support(
        dtypes=_DTYPES[:2], notes="FLOAT computed as FLOAT16, by cube_math_type 1 or 2"
    ),
    "reference": Support(
        dtypes=(*_DTYPES, DataType.DOUBLE), notes="summed in float64 and rounded once"
    ),
}

CUBE_MATH_TYPES = Limit(parameter="cube_math_type", least=0, most=3)
PAD = Limit(parameter="pad", least=0, most=2147483647, profiles=PRODUCTS)
LIMITS: tuple[Limit, ...] = (PAD, CUBE_MATH_TYPES)

OPERANDS = ("self", "input", "weight")
GRADIENT_OF = {"grad_input": "input", "grad_weight": "weight", "grad_bias": "bias"}
IMAGES = (*OPERANDS, "grad_input", "grad_weight")
"""Tensors of three dimensions; the others have one."""
TENSORS = (*OPERANDS, "bias", *GRADIENT_OF)
_DTYPE_SENTENCE = "self,input,weight,bias数据类型不一致。"
_PAD_SENTENCE = "大小应该在[0,2147483647]的范围内。"
_KIND_SENTENCE = "枚举值为{kind}:当输入是FLOAT,Cube计算单元暂不支持,取{kind}时会报错。"
_HALF_SENTENCE = "枚举值为2:当输入是BFLOAT16不支持该选项。"
_HF32_SENTENCE = "枚举值为3:暂时不支持。"

RULES: tuple[Rule, ...] = (
    *(null(parameter) for parameter in TENSORS),
    *(null(parameter, origin=RuleOrigin.OPSERVE) for parameter in ("pad", "cube_math_type")),
    *(
        invalid(parameter, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE")
        for parameter in TENSORS
    ),
    *(
        invalid(
            parameter,
            "dtype is BF16",
            _OLDER,
            origin=RuleOrigin.OPSERVE if parameter == "bias" else RuleOrigin.BOTH,
        )
        for parameter in TENSORS
    ),
    *(invalid(parameter, "format is not ND or NCL") for parameter in IMAGES),
    *(invalid(parameter, "format is not ND") for parameter in ("bias", "grad_bias")),
    invalid("self", "empty", origin=RuleOrigin.SOURCE),
    *(invalid(parameter, "not 3 dimensions") for parameter in IMAGES),
    *(invalid(parameter, "not 1 dimension") for parameter in ("bias", "grad_bias")),
    invalid("weight", "dimension 1 is not the channels of input"),
    invalid("bias", "size is not weight's dimension 2"),
    invalid("pad", "negative"),
    invalid("weight", "more taps than the padded input has positions, and one more"),
    invalid("self", "shape is not that of the convolution's output"),
    *(
        invalid(gradient, f"shape is not that of {tensor}")
        for gradient, tensor in GRADIENT_OF.items()
    ),
    invalid("cube_math_type", "not 0, 1, 2 or 3"),
    invalid("cube_math_type", "0 or 3 with FLOAT", _OLDER),
    *(
        invalid(gradient, f"dtype is not that of {tensor}", *PRODUCTS, origin=RuleOrigin.OPSERVE)
        for gradient, tensor in GRADIENT_OF.items()
    ),
    *(
        on_page(parameter, "dtype is not that of self", _DTYPE_SENTENCE, *PRODUCTS)
        for parameter in ("input", "weight", "bias")
    ),
    on_page("pad", f"above {PAD.most}", _PAD_SENTENCE, *PRODUCTS),
    *(
        invalid(
            "cube_math_type",
            f"{kind} with FLOAT",
            _A2,
            origin=RuleOrigin.CONTRADICTED,
            sentence=_KIND_SENTENCE.format(kind=kind),
        )
        for kind in (0, 3)
    ),
    on_page("cube_math_type", "2 with BF16", _HALF_SENTENCE, _A2),
    on_page("cube_math_type", "3 with FLOAT16", _HF32_SENTENCE, _OLDER),
)
