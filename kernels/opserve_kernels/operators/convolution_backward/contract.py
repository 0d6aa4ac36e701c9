"""The contract of ConvolutionBackward as data: support by profile, and limits."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.bounds import Bound, bound
from opserve_kernels.operator import DocumentedRules, Limit, Support
from opserve_kernels.operators.convolution_backward import page
from opserve_kernels.tensor import DataType

REVISION = 3
DOCUMENTED_RULES = DocumentedRules.ERROR
RANK_1D, RANK_2D, RANK_3D = 3, 4, 5  # dimensions of tensors: N, C and the spatial ones

_FLOAT, _FLOAT16, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRules:
    """The rules of one profile.

    Attributes:
        support: Dtypes of tensors.
        ranks: Dimensions of supported tensors; the checks before accept 3, 4 and 5 on all profiles.
        takes_empty: Whether an input without entries or without channels is accepted.
        bias_is_nd: Whether grad_bias must be in format ND, unless transposed.
        narrows_grouped_weight: Whether a FLOAT grad_weight of several groups, computed in 16 bits,
            is rounded to FLOAT16 first in 1-D and 2-D, and rejected in 3-D.
    """

    support: Support
    ranks: tuple[int, ...]
    takes_empty: bool
    bias_is_nd: bool
    narrows_grouped_weight: bool


_WITHOUT_FLOAT_CUBE = ProfileRules(
    support=Support(
        dtypes=(_FLOAT, _FLOAT16),
        notes="1-D and 2-D, no empty tensors; FLOAT computed as FLOAT16, by cube_math_type 1 or 2",
    ),
    ranks=(RANK_1D, RANK_2D),
    takes_empty=False,
    bias_is_nd=False,
    narrows_grouped_weight=True,
)
PROFILE_RULES: Mapping[str, ProfileRules] = {
    "ascend910b": ProfileRules(
        support=Support(dtypes=(_FLOAT, _FLOAT16, _BF16)),
        ranks=(RANK_1D, RANK_2D, RANK_3D),
        takes_empty=True,
        bias_is_nd=True,
        narrows_grouped_weight=True,
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
    ),
}
SUPPORT: Mapping[str, Support] = {name: rules.support for name, rules in PROFILE_RULES.items()}


_A2 = ("ascend910b",)
_MOST_SIZE = 2147483646
_ALL_RANKS = (RANK_1D, RANK_2D, RANK_3D)
_ALL_VALUES = slice(None)


def _bound(
    parameter: str,
    allowed: tuple[int, int],
    where: str = "",
    *,
    sentence: str,
    ranks: tuple[int, ...] = _ALL_RANKS,
    values: slice = _ALL_VALUES,
) -> Bound:
    return bound(
        *(parameter, allowed, where, *_A2),
        ranks=ranks,
        values=values,
        transposed=False,
        sentence=sentence,
    )


_L, _H_W, _D = slice(-1, None), slice(-2, None), slice(1)
_1D, _2D, _3D = (RANK_1D,), (RANK_2D,), (RANK_3D,)
_1D_2D, _2D_3D = (RANK_1D, RANK_2D), (RANK_2D, RANK_3D)
_IN_1D_2D, _IN_D, _IN_H_W = "in 1-D and 2-D", "D in 3-D", "H and W in 3-D"
BOUNDS: tuple[Bound, ...] = (
    *(
        _bound("weight", (1, most), where, sentence=page.WEIGHT_SIZES_1D, ranks=_1D, values=values)
        for most, where, values in (
            (_MOST_SIZE, "K and C in 1-D", slice(-1)),
            (255, "L in 1-D", _L),
        )
    ),
    *(
        _bound("weight", (1, most), where, sentence=page.WEIGHT_SIZES, ranks=ranks, values=values)
        for most, where, ranks, values in (
            (_MOST_SIZE, "K and C in 2-D", _2D, slice(-2)),
            (_MOST_SIZE, "K, C and D in 3-D", _3D, slice(-2)),
            (255, "H and W in 2-D and 3-D", _2D_3D, _H_W),
        )
    ),
    _bound("grad_output", (1, _MOST_SIZE), "a size, but where input is empty", sentence=page.SIZES),
    _bound("input", (1, _MOST_SIZE), "a size, but those of an empty input", sentence=page.SIZES),
    _bound("stride", (1, _MOST_SIZE), _IN_1D_2D, sentence=page.STRIDE, ranks=_1D_2D),
    *(
        _bound("stride", (1, most), where, sentence=page.STRIDE_3D, ranks=_3D, values=values)
        for most, where, values in ((_MOST_SIZE, _IN_D, _D), (63, _IN_H_W, _H_W))
    ),
    _bound("padding", (0, 255), _IN_1D_2D, sentence=page.PADDING, ranks=_1D_2D),
    *(
        _bound("padding", (0, most), where, sentence=page.PADDING_3D, ranks=_3D, values=values)
        for most, where, values in ((_MOST_SIZE, _IN_D, _D), (255, _IN_H_W, _H_W))
    ),
    _bound("dilation", (1, 255), sentence=page.DILATION),
    _bound("groups", (1, 65535), sentence=page.GROUPS),
)
CUBE_MATH_TYPES = Limit(parameter="cube_math_type", least=0, most=3)
LIMITS: tuple[Limit, ...] = (CUBE_MATH_TYPES, *(one.limit for one in BOUNDS))
