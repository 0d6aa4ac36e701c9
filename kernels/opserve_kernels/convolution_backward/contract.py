"""What of ConvolutionBackward is data: what each profile offers, limits, the error table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from opserve_kernels.operator import Limit, Rule, Support
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType

REVISION = 2
RANK_1D, RANK_2D, RANK_3D = 3, 4, 5  # dimensions of tensors: N, C and the spatial ones

_FLOAT, _FLOAT16, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16


class Operands(Enum):
    """What operands are rounded to before they are multiplied."""

    AS_GIVEN = auto()
    FLOAT16 = auto()
    HF32 = auto()  # of as many bits as the profile has


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """How the products of a call are computed.

    Attributes:
        operands: What operands are rounded to.
        dtype: Of the computation; grad_input is rounded to it before it is rounded to its own,
            but for DOUBLE, from which every result goes straight to its own.
    """

    operands: Operands = Operands.AS_GIVEN
    dtype: DataType


Computations = tuple[Computation | None, Computation | None, Computation | None, Computation | None]
"""By cube_math_type: KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32; None is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRules:
    """What holds on one profile.

    Attributes:
        support: Dtypes of tensors.
        ranks: Dimensions that tensors may have in the end; all three are checked alike before.
        takes_empty: Whether an input without entries or without channels is accepted.
        bias_is_nd: Whether grad_bias must be in format ND, unless transposed.
        narrows_grouped_weight: Whether a FLOAT grad_weight of several groups, computed in 16 bits,
            passes through FLOAT16 in 1-D and 2-D, and is refused in 3-D.
        computations: How a call is computed, by the dtype that holds its three inputs.
    """

    support: Support
    ranks: tuple[int, ...]
    takes_empty: bool
    bias_is_nd: bool
    narrows_grouped_weight: bool
    computations: Mapping[DataType, Computations]


_IN_FLOAT = Computation(dtype=_FLOAT)
_IN_HF32 = Computation(dtype=_FLOAT, operands=Operands.HF32)
_IN_HALF = Computation(dtype=_FLOAT16)
_CAST_TO_HALF = Computation(dtype=_FLOAT16, operands=Operands.FLOAT16)
_IN_BF16 = Computation(dtype=_BF16)
_EXACT = Computation(dtype=DataType.DOUBLE)
_EXACT_HF32 = Computation(dtype=DataType.DOUBLE, operands=Operands.HF32)
_EXACT_HALF = Computation(dtype=DataType.DOUBLE, operands=Operands.FLOAT16)

_WITHOUT_FLOAT_CUBE = ProfileRules(
    support=Support(
        dtypes=(_FLOAT, _FLOAT16),
        notes="1-D and 2-D, no empty tensors; FLOAT computed as FLOAT16, by cube_math_type 1 or 2",
    ),
    ranks=(RANK_1D, RANK_2D),
    takes_empty=False,
    bias_is_nd=False,
    narrows_grouped_weight=True,
    computations={
        _FLOAT: (None, _CAST_TO_HALF, _CAST_TO_HALF, None),
        _FLOAT16: (_IN_HALF, _IN_HALF, _IN_HALF, _IN_HALF),
    },
)
PROFILE_RULES: Mapping[str, ProfileRules] = {
    "ascend910b": ProfileRules(
        support=Support(dtypes=(_FLOAT, _FLOAT16, _BF16)),
        ranks=(RANK_1D, RANK_2D, RANK_3D),
        takes_empty=True,
        bias_is_nd=True,
        narrows_grouped_weight=True,
        computations={
            _FLOAT: (_IN_FLOAT, _IN_HF32, _CAST_TO_HALF, _IN_HF32),
            _FLOAT16: (_IN_HALF, _IN_HALF, _IN_HALF, _IN_HALF),
            _BF16: (_IN_BF16, _IN_BF16, _CAST_TO_HALF, _IN_BF16),
        },
    ),
    "ascend910": _WITHOUT_FLOAT_CUBE,
    "ascend310p": _WITHOUT_FLOAT_CUBE,
    "reference": ProfileRules(
        support=Support(
            dtypes=(_FLOAT, _FLOAT16, _BF16, DataType.DOUBLE),
            notes="no upper limits; summed in float64 and rounded once",
        ),
        ranks=(RANK_1D, RANK_2D, RANK_3D),
        takes_empty=True,
        bias_is_nd=False,
        narrows_grouped_weight=False,
        computations={
            _FLOAT: (_EXACT, _EXACT_HF32, _EXACT_HALF, _EXACT_HF32),
            _FLOAT16: (_EXACT, _EXACT, _EXACT, _EXACT),
            _BF16: (_EXACT, _EXACT, _EXACT_HALF, _EXACT),
            DataType.DOUBLE: (_EXACT, _EXACT, _EXACT_HALF, _EXACT),
        },
    ),
}
SUPPORT: Mapping[str, Support] = {name: rules.support for name, rules in PROFILE_RULES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit of a convolution that is not transposed, and what it takes to apply it.

    Attributes:
        limit: The limit.
        ranks: Dimensions of the input where it holds.
        values: Which of the argument's values it binds: a tensor's sizes, an array's entries.
    """

    limit: Limit
    ranks: tuple[int, ...]
    values: slice


_A2 = ("ascend910b",)
_MOST_SIZE = 2147483646
_ALL_RANKS = (RANK_1D, RANK_2D, RANK_3D)
_ALL_VALUES = slice(None)


def _bound(
    parameter: str,
    least: int,
    most: int,
    where: str = "",
    *,
    ranks: tuple[int, ...] = _ALL_RANKS,
    values: slice = _ALL_VALUES,
) -> Bound:
    scope = f"{where}, transposed is false" if where else "transposed is false"
    limit = Limit(parameter=parameter, where=scope, least=least, most=most, profiles=_A2)
    return Bound(limit=limit, ranks=ranks, values=values)


_L, _H_W, _D = slice(-1, None), slice(-2, None), slice(1)
BOUNDS: tuple[Bound, ...] = (
    _bound("weight", 1, _MOST_SIZE, "K and C in 1-D", ranks=(RANK_1D,), values=slice(-1)),
    _bound("weight", 1, 255, "L in 1-D", ranks=(RANK_1D,), values=_L),
    _bound("weight", 1, _MOST_SIZE, "K and C in 2-D", ranks=(RANK_2D,), values=slice(-2)),
    _bound("weight", 1, _MOST_SIZE, "K, C and D in 3-D", ranks=(RANK_3D,), values=slice(-2)),
    _bound("weight", 1, 255, "H and W in 2-D and 3-D", ranks=(RANK_2D, RANK_3D), values=_H_W),
    _bound("grad_output", 1, _MOST_SIZE, "a size, but where input is empty"),
    _bound("input", 1, _MOST_SIZE, "a size, but an empty input's N or C"),
    _bound("stride", 1, _MOST_SIZE, "in 1-D and 2-D", ranks=(RANK_1D, RANK_2D)),
    _bound("stride", 1, _MOST_SIZE, "D in 3-D", ranks=(RANK_3D,), values=_D),
    _bound("stride", 1, 63, "H and W in 3-D", ranks=(RANK_3D,), values=_H_W),
    _bound("padding", 0, 255, "in 1-D and 2-D", ranks=(RANK_1D, RANK_2D)),
    _bound("padding", 0, _MOST_SIZE, "D in 3-D", ranks=(RANK_3D,), values=_D),
    _bound("padding", 0, 255, "H and W in 3-D", ranks=(RANK_3D,), values=_H_W),
    _bound("dilation", 1, 255),
    _bound("groups", 1, 65535),
)
CUBE_MATH_TYPES = Limit(parameter="cube_math_type", least=0, most=3)
LIMITS: tuple[Limit, ...] = (CUBE_MATH_TYPES, *(bound.limit for bound in BOUNDS))

_INPUTS = ("grad_output", "input", "weight")
_IMAGES = (*_INPUTS, "grad_input", "grad_weight")
_GRADIENTS = ("grad_input", "grad_weight", "grad_bias")
_ARRAYS = ("stride", "padding", "dilation", "output_padding")
_OLDER = ("ascend910", "ascend310p")
_TAKING_EMPTY = ("ascend910b", "reference")


def _null(parameter: str, broken: str = "missing") -> Rule:
    return Rule(status=Status.ACLNN_ERR_PARAM_NULLPTR, parameter=parameter, broken=broken)


def _invalid(parameter: str, broken: str, *profiles: str) -> Rule:
    """The words end with the profiles, where a rule holds on some only."""
    return Rule(
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
        broken=f"{broken} on {' and '.join(profiles)}" if profiles else broken,
        profiles=profiles,
    )


def _beyond(limit: Limit) -> Rule:
    broken = f"not in [{limit.least}, {limit.most}]: {limit.where};"
    return _invalid(limit.parameter, broken, *limit.profiles)


_NULL_RULES = (
    *(_null(parameter) for parameter in (*_INPUTS, "stride", "padding", "dilation")),
    *(_null(parameter) for parameter in ("transposed", "output_padding", "groups")),
    *(_null(parameter) for parameter in ("output_mask", "cube_math_type")),
    _null("output_mask", "not three values"),
    *(_null(parameter, "missing where output_mask asks for it") for parameter in _GRADIENTS),
)
_TENSOR_RULES = (
    *(
        _invalid(parameter, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE")
        for parameter in (*_INPUTS, *_GRADIENTS)
    ),
    *(_invalid(parameter, "dtype is BF16", *_OLDER) for parameter in (*_INPUTS, *_GRADIENTS)),
    *(_invalid(parameter, "not 3, 4 or 5 dimensions") for parameter in _IMAGES),
    *(
        _invalid(parameter, "format is not that of its dimensions: 3 NCL or ND, 4 NCHW, 5 NCDHW")
        for parameter in _IMAGES
    ),
    _invalid("grad_bias", "format is not ND, transposed is false,", *_A2),
)
_VALUE_RULES = (
    _invalid("stride", "a value below 1"),
    _invalid("padding", "a negative value"),
    _invalid("dilation", "a value below 1"),
    _invalid("output_padding", "a negative value"),
    _invalid("output_padding", "not below stride in 3-D"),
    _invalid("output_padding", "not zero, transposed is false"),
    _invalid("groups", "below 1"),
    _invalid("cube_math_type", "not 0, 1, 2 or 3"),
    _invalid("cube_math_type", "0 or 3 with FLOAT", *_OLDER),
)
_EMPTINESS_RULES = (
    _invalid(
        "bias_sizes", "missing or not the channels, output_mask[2], input is empty", *_TAKING_EMPTY
    ),
    _invalid("input", "empty, but neither its N nor its C is 0,", *_TAKING_EMPTY),
    _invalid("weight", "dimension 0 is not a multiple of groups, input is empty", *_TAKING_EMPTY),
    _invalid("weight", "empty, but not for want of input's channels,", *_TAKING_EMPTY),
    _invalid(
        "grad_output",
        "dimension 1 is not the channels of weight and groups, input is empty",
        *_TAKING_EMPTY,
    ),
    _invalid("input", "empty", *_OLDER),
    _invalid("weight", "empty", *_OLDER),
    _invalid("grad_output", "empty, though input is not"),
)
_SHAPE_RULES = (
    _invalid("grad_output", "not as many dimensions as input"),
    _invalid("weight", "not as many dimensions as input"),
    _invalid("grad_input", "shape is not that of input"),
    _invalid("grad_weight", "shape is not that of weight"),
    _invalid("grad_bias", "shape is not the channels of grad_output"),
    *(_invalid(parameter, "not a value for each spatial dimension") for parameter in _ARRAYS),
    _invalid("output_padding", "four values"),
    _invalid("weight", "dimension 0 is not the channels of grad_output, or of input if transposed"),
    _invalid(
        "weight",
        "dimension 1 does not divide the channels of input, or of grad_output if transposed",
    ),
    _invalid("groups", "not those channels divided by weight's dimension 1"),
    _invalid("groups", "does not divide weight's dimension 0"),
    _invalid("input", "smaller than the dilated kernel in 3-D"),
    _invalid("input", "smaller than the dilated kernel in 1-D or 2-D"),
    _invalid("grad_output", "smaller than the dilated kernel in 3-D, transposed"),
    _invalid("grad_output", "spatial sizes are not those of the convolution in 3-D"),
    _invalid("grad_output", "spatial sizes are not those of the convolution in 1-D or 2-D"),
    _invalid("grad_output", "spatial sizes do not lead back to those of input in 3-D, transposed"),
    _invalid("grad_output", "spatial sizes are not exactly those of the convolution, transposed"),
    _invalid("input", "3-D", *_OLDER),
    _invalid("grad_weight", "FLOAT in 3-D with groups computed in 16 bits", *_A2),
    _invalid("output_padding", "not below stride in 1-D or 2-D"),
    _invalid("grad_output", "N is not that of input"),
    _invalid("bias_sizes", "not the channels, output_mask asks for grad_bias"),
)
RULES: tuple[Rule, ...] = (
    *_NULL_RULES,
    *_TENSOR_RULES,
    *_VALUE_RULES,
    *_EMPTINESS_RULES,
    *_SHAPE_RULES,
    *(_beyond(bound.limit) for bound in BOUNDS),
)
