"""The contract of Convolution as data: revision, support by profile, limits."""

from collections.abc import Mapping

from opserve_kernels.bounds import Bound, bound
from opserve_kernels.forward.sizes import RANK_1D, RANK_2D, RANK_3D
from opserve_kernels.operator import DocumentedRules, Limit, Support
from opserve_kernels.tensor import DataType

REVISION = 1
DOCUMENTED_RULES = DocumentedRules.WARN
SOURCE_ONLY_PROFILE = "ascend910"

_NARROW = (DataType.FLOAT, DataType.FLOAT16)
_WIDE = (*_NARROW, DataType.BF16)
_AS_FLOAT16 = "FLOAT computed as FLOAT16, by cube_math_type 1 or 2"
SUPPORT: Mapping[str, Support] = {
    "ascend910b": Support(dtypes=_WIDE),
    "ascend910": Support(dtypes=_NARROW, source_only=_NARROW, notes=_AS_FLOAT16),
    "ascend310p": Support(dtypes=_NARROW, notes=_AS_FLOAT16),
    "ascend310b": Support(dtypes=_WIDE, notes="2-D, not transposed"),
    "reference": Support(
        dtypes=(*_WIDE, DataType.DOUBLE),
        notes="no upper limits; summed in float64 with the bias and rounded once",
    ),
}

_A2, _INFERENCE, _EDGE = "ascend910b", "ascend310p", "ascend310b"
_PAGE_PRODUCTS = (_A2, _INFERENCE, _EDGE)
_MOST_SIZE, _MOST_GROUPS = 1_000_000, 65535
_ALL_RANKS = (RANK_1D, RANK_2D, RANK_3D)
_L, _H_W, _D = slice(-1, None), slice(-2, None), slice(1)
_1D, _3D, _1D_2D, _2D_3D = (RANK_1D,), (RANK_3D,), (RANK_1D, RANK_2D), (RANK_2D, RANK_3D)
_KERNEL, _INPUT_SIZE, _STRIDE, _PADDING, _DILATION = 255, 4096, 63, 255, 255
_KERNEL_3D = 511
_SIZES = "各个维度的大小应该小于等于1000000"


def _cube(
    parameter: str, allowed: tuple[int, int], where: str, values: slice, sentence: str = ""
) -> Bound:
    """A limit of 3-D calls that are not transposed, on A2."""
    return bound(
        parameter,
        allowed,
        where,
        _A2,
        ranks=_3D,
        values=values,
        transposed=False,
        sentence=sentence,
        is_of_cube=True,
    )


_IN_H_W, _IN_D = "H and W in 3-D", "D in 3-D"
_STEPS_3D = (
    ("stride", (1, _STRIDE), False, "3d: strideH、strideW [1,63]"),
    ("padding", (0, _PADDING), None, "3d: paddingH、paddingW [0,255]"),
    ("dilation", (1, _DILATION), False, "3d正向: dilationH、dilationW [1,255]"),
)
_KERNEL_SENTENCE = "3d正向: weight H、W [1,511]"
BOUNDS: tuple[Bound, ...] = (
    *(
        _cube(parameter, allowed, _IN_H_W, _H_W, sentence)
        for parameter, allowed, _, sentence in _STEPS_3D
    ),
    _cube("weight", (1, _KERNEL_3D), _IN_H_W, _H_W, _KERNEL_SENTENCE),
    *(
        _cube(parameter, (least, _MOST_SIZE), _IN_D, _D)
        for parameter, least in (("stride", 1), ("padding", 0), ("dilation", 1))
    ),
    *(
        _cube(parameter, (0, _MOST_SIZE), "a size in 3-D", slice(None), _SIZES)
        for parameter in ("input", "weight")
    ),
    *(
        bound(parameter, (0, _MOST_SIZE), where, *_PAGE_PRODUCTS, ranks=_ALL_RANKS, sentence=_SIZES)
        for parameter, where in (("input", "a size"), ("weight", "a size"), ("bias", "its size"))
    ),
    bound(
        *("weight", (1, _KERNEL), "L in 1-D", _A2),
        ranks=_1D,
        values=_L,
        transposed=True,
        sentence="transposed=true, 1d: weight L [1,255]",
    ),
    bound(
        *("weight", (1, _KERNEL), "H and W in 2-D and 3-D", _A2),
        ranks=_2D_3D,
        values=_H_W,
        transposed=True,
        sentence="transposed=true, 2d、3d: weight H、W [1,255]",
    ),
    # The cube rejects neither a product of matrices nor an empty call; the page excepts none.
    bound(
        *("weight", (1, _KERNEL_3D), "H or W in 3-D", _A2),
        ranks=_3D,
        values=_H_W,
        transposed=False,
        sentence=_KERNEL_SENTENCE,
    ),
    bound(
        *("weight", (1, _KERNEL), "D, H and W", _INFERENCE),
        ranks=_2D_3D,
        values=slice(2, None),
        sentence="Atlas 推理系列产品: weight D、H、W [1,255]",
    ),
    bound(
        *("input", (1, _INPUT_SIZE), "H and W", _INFERENCE),
        ranks=_2D_3D,
        values=_H_W,
        sentence="Atlas 推理系列产品: input H、W [1,4096]",
    ),
    *(
        bound(
            *(parameter, allowed, _IN_H_W, _A2, _INFERENCE),
            ranks=_3D,
            values=_H_W,
            transposed=transposed,
            sentence=sentence,
        )
        for parameter, allowed, transposed, sentence in _STEPS_3D
    ),
    bound(
        *("stride", (1, _STRIDE), _IN_H_W, _A2, _INFERENCE),
        ranks=_3D,
        values=_H_W,
        transposed=True,
        sentence="transposed=true, 3d: strideH、strideW [1,63]",
    ),
    bound(
        *("padding", (0, _PADDING), "in 1-D and 2-D", *_PAGE_PRODUCTS),
        ranks=_1D_2D,
        transposed=False,
        sentence="1d、2d: padding [0,255]",
    ),
    bound(
        *("dilation", (1, _DILATION), "", _A2, _INFERENCE),
        ranks=_ALL_RANKS,
        transposed=True,
        sentence="transposed=true: dilation [1,255]",
    ),
    bound(
        *("groups", (1, _MOST_GROUPS), "", *_PAGE_PRODUCTS),
        ranks=_ALL_RANKS,
        sentence="groups [1,65535]",
    ),
)
CUBE_MATH_TYPES = Limit(parameter="cube_math_type", least=0, most=4)
LIMITS: tuple[Limit, ...] = (CUBE_MATH_TYPES, *(one.limit for one in BOUNDS))
