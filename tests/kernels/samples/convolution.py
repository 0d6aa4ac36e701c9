"""Calls of aclnnConvolution that must succeed, and those that break a row of its error table."""

from typing import Any

from kernels.samples.convolution_errors import errors, warned_calls
from kernels.samples.layers import (
    BF16,
    DOUBLE,
    FLOAT,
    FLOAT16,
    channels_last,
    laid_out,
    layer,
    tagged,
)
from kernels.samples.sample import ErrorSample, Sample, Values
from opserve_kernels.tensor import Format

_HALF, _BFLOAT, _DOUBLES = (FLOAT16,) * 4, (BF16,) * 4, (DOUBLE,) * 4
_T: dict[str, Any] = {"transposed": True}
_IMAGE, _WEIGHT = (2, 3, 6, 7), (4, 3, 3, 2)
_SHAPES = (
    layer("2-D", _IMAGE, _WEIGHT),
    layer("2-D without bias", _IMAGE, _WEIGHT, bias=False),
    layer("1-D", (3, 2, 9), (4, 2, 3)),
    layer("3-D", (2, 2, 4, 5, 4), (3, 2, 2, 3, 2)),
    layer("stride leaves a rest", (1, 2, 8, 9), (2, 2, 3, 2), stride=(3, 4)),
    layer("stride beyond the kernel", (1, 2, 9, 9), (2, 2, 1, 2), stride=(3, 4)),
    layer("padding", (2, 3, 5, 6), (4, 3, 3, 3), padding=(1, 2)),
    layer("padding beyond the kernel", (1, 2, 3, 4), (2, 2, 2, 2), padding=(3, 4)),
    layer("padding up, down, left, right", (1, 1, 3, 3), (1, 1, 2, 2), padding=(1, 0, 0, 2), bias=False, values=Values.ONES),
    layer("padding left, right", (2, 3, 7), (4, 3, 3), padding=(2, 1), stride=(2,)),
    layer("dilation", (2, 2, 9, 10), (3, 2, 3, 3), dilation=(2, 3)),
    layer("all of them", (1, 4, 7, 6, 8), (4, 2, 2, 3, 2), groups=2, stride=(2, 1, 3), padding=(1, 2, 1), dilation=(3, 2, 1)),
    layer("depthwise", (2, 4, 6, 6), (8, 1, 3, 3), groups=4, padding=(1, 1)),
    layer("kernel of 1", (3, 5, 4, 4), (6, 5, 1, 1)),
    layer("kernel as large as the image", (2, 3, 5, 4), (6, 3, 5, 4)),
    layer("one of everything", (1, 1, 1, 1), (1, 1, 1, 1)),
    layer("kernel of 1 at whole vectors", (3, 5, 4, 12), (16, 5, 1, 1)),
    layer("kernel of 1 to few channels at whole vectors", (2, 12, 4, 20), (6, 6, 1, 1), groups=2),
    layer("3 x 3 at whole vectors", (2, 4, 4, 8), (8, 4, 3, 3), padding=(1, 1)),
    layer("3 x 3 of many channels", (1, 16, 8, 9), (20, 16, 3, 3), padding=(1, 1)),
)  # fmt: skip
_TRANSPOSED = (
    layer("transposed", (2, 3, 4, 5), (3, 4, 3, 2), **_T),
    layer("transposed without bias", (2, 3, 4, 5), (3, 4, 3, 2), bias=False, **_T),
    layer("transposed in 1-D", (2, 3, 6), (3, 2, 4), stride=(2,), padding=(1,), output_padding=(1,), **_T),
    layer("transposed in 3-D", (1, 2, 3, 2, 3), (2, 3, 2, 3, 2), stride=(2, 1, 2), padding=(0, 1, 0), **_T),
    layer("transposed with groups", (2, 4, 4, 5), (4, 3, 2, 3), groups=2, dilation=(2, 2), stride=(2, 3), padding=(1, 2), **_T),
    layer("transposed with output padding below dilation", (1, 2, 4, 4), (2, 2, 2, 2), dilation=(2, 3), output_padding=(1, 2), **_T),
    layer("transposed with padding of four", (1, 2, 5, 5), (2, 3, 3, 3), padding=(1, 0, 0, 2), **_T),
    layer("transposed in FLOAT16", (2, 3, 4, 4), (3, 2, 3, 3), stride=(2, 2), dtypes=_HALF, **_T),
    layer("transposed in FLOAT16 with a FLOAT bias", (2, 3, 4), (3, 2, 3), dtypes=(FLOAT16, FLOAT16, FLOAT, FLOAT16), **_T),
    layer("transposed in 3-D and FLOAT16", (1, 2, 3, 2, 3), (2, 3, 2, 2, 2), dtypes=_HALF, **_T),
    layer("transposed in 3-D and BF16 with a FLOAT bias", (1, 2, 3, 2, 3), (2, 3, 2, 2, 2), dtypes=(BF16, BF16, FLOAT, BF16), **_T),
    layer("transposed by FLOAT16 into FLOAT", (2, 3, 4, 4), (3, 2, 3, 3), cube_math_type=2, **_T),
    layer("transposed NaN and infinity", (2, 3, 6, 6), (3, 4, 3, 3), padding=(1, 1), stride=(2, 2), values=Values.SPECIAL, **_T),
)  # fmt: skip
_DTYPES = (
    layer("FLOAT16", _IMAGE, _WEIGHT, dtypes=_HALF),
    layer("BF16", _IMAGE, _WEIGHT, dtypes=_BFLOAT),
    layer("FLOAT16 into FLOAT", _IMAGE, _WEIGHT, dtypes=(FLOAT16, FLOAT16, FLOAT16, FLOAT)),
    layer("FLOAT into BF16", _IMAGE, _WEIGHT, dtypes=(FLOAT, FLOAT, FLOAT, BF16)),
    layer("FLOAT16 beside BF16", _IMAGE, _WEIGHT, dtypes=(FLOAT16, BF16, FLOAT16, FLOAT)),
    layer("FLOAT16 with a FLOAT bias", _IMAGE, _WEIGHT, dtypes=(FLOAT16, FLOAT16, FLOAT, FLOAT16)),
    layer("BF16 with a FLOAT bias", _IMAGE, _WEIGHT, dtypes=(BF16, BF16, FLOAT, FLOAT)),
    layer("FLOAT16 with a BF16 bias", _IMAGE, _WEIGHT, dtypes=(FLOAT16, FLOAT16, BF16, FLOAT16)),
    layer("pointwise in 3-D with a FLOAT bias", (2, 3, 2, 3, 2), (4, 3, 1, 1, 1), dtypes=(FLOAT16, FLOAT16, FLOAT, FLOAT16)),
    layer("FLOAT16 overflows", _IMAGE, _WEIGHT, dtypes=_HALF, values=Values.LARGE),
    layer("NaN and infinity", (2, 3, 8, 8), (4, 3, 3, 3), padding=(1, 1), values=Values.SPECIAL),
    *(layer(f"cube_math_type {kind}", _IMAGE, _WEIGHT, cube_math_type=kind) for kind in (1, 2, 3, 4)),
    layer("cube_math_type 2 for BF16", _IMAGE, _WEIGHT, cube_math_type=2, dtypes=_BFLOAT),
    layer("cube_math_type 3 for FLOAT16", _IMAGE, _WEIGHT, cube_math_type=3, dtypes=_HALF),
)  # fmt: skip
_PLAIN_3D = layer("3-D with padding", (2, 3, 4, 5, 4), (4, 3, 2, 3, 2), padding=(1, 0, 1))
_LAYOUTS = (
    laid_out(_SHAPES[0], "input with gaps", "input", (300, 90, 14, 2), 1),
    laid_out(_SHAPES[0], "input repeated over the batch", "input", (0, 42, 7, 1)),
    laid_out(_SHAPES[0], "weight transposed", "weight", (1, 24, 8, 4)),
    laid_out(_SHAPES[0], "bias with gaps", "bias", (3,), 2),
    laid_out(_SHAPES[0], "output channels last", "output", (96, 1, 24, 4), 3),
    laid_out(layer("", _IMAGE, _WEIGHT, dtypes=_HALF), "FLOAT16 output with gaps", "output", (300, 75, 13, 2), 1),
    channels_last(_PLAIN_3D, "input and output NDHWC", "input", "output"),
    channels_last(_PLAIN_3D, "weight NDHWC", "weight"),
    tagged(_PLAIN_3D, "bias NCDHW", "bias", Format.NCDHW),
)  # fmt: skip
_EMPTY = (
    layer("no entries", (0, 3, 6, 6), (4, 3, 3, 3)),
    layer("no entries transposed", (0, 3, 4, 4), (3, 4, 3, 3), **_T),
    layer("no channels in or out", (2, 0, 6, 6), (0, 0, 3, 3)),
    layer("no output", (2, 3, 2, 2), (3, 4, 1, 1), padding=(1, 1), **_T),
)
_VENDORS = (
    layer("vendor's 2-D", (2, 2, 2, 2), (1, 2, 1, 1), cube_math_type=1, bias=False, values=Values.ONES),
    layer("vendor's 1-D transposed", (1, 16, 2), (16, 16, 2), bias=False, values=Values.ONES, **_T),
    layer("vendor's 2-D transposed", (1, 16, 2, 2), (16, 16, 2, 2), bias=False, values=Values.ONES, **_T),
    layer("vendor's 3-D transposed", (1, 16, 2, 2, 2), (16, 16, 2, 2, 2), bias=False, values=Values.ONES, **_T),
)  # fmt: skip
_910, _310P, _310B = ({"profile": name} for name in ("ascend910", "ascend310p", "ascend310b"))
_OTHERS = (
    layer("FLOAT16 on 910", _IMAGE, _WEIGHT, dtypes=_HALF, **_910),
    layer("FLOAT by 1 on 910", _IMAGE, _WEIGHT, cube_math_type=1, **_910),
    layer("FLOAT16 with a BF16 bias on 910", _IMAGE, _WEIGHT, dtypes=(FLOAT16, FLOAT16, BF16, FLOAT16), **_910),
    layer("transposed in 3-D with a FLOAT bias on 910", (1, 2, 3, 2, 3), (2, 3, 2, 2, 2), dtypes=(FLOAT16, FLOAT16, FLOAT, FLOAT), **_910, **_T),
    layer("saturated FLOAT16 on 310P", _IMAGE, _WEIGHT, dtypes=_HALF, values=Values.LARGE, **_310P),
    layer("saturated FLOAT16 transposed in 3-D", (1, 2, 3, 2, 3), (2, 3, 2, 2, 2), dtypes=_HALF, values=Values.LARGE, **_310P, **_T),
    layer("3-D on 310P", (1, 2, 4, 3, 4), (3, 2, 2, 2, 2), dtypes=_HALF, **_310P),
    layer("FLOAT on 310B", _IMAGE, _WEIGHT, **_310B),
    layer("HF32 on 310B", _IMAGE, _WEIGHT, cube_math_type=3, **_310B),
    layer("BF16 on 310B", _IMAGE, _WEIGHT, dtypes=_BFLOAT, **_310B),
    layer("DOUBLE", _IMAGE, _WEIGHT, dtypes=_DOUBLES, profile="reference"),
    layer("DOUBLE transposed into FLOAT16", (2, 3, 4, 4), (3, 2, 3, 3), stride=(2, 2), dtypes=(DOUBLE, DOUBLE, DOUBLE, FLOAT16), profile="reference", **_T),
    layer("DOUBLE bias", _IMAGE, _WEIGHT, dtypes=(FLOAT16, FLOAT, DOUBLE, FLOAT), profile="reference"),
    layer("DOUBLE by 2", _IMAGE, _WEIGHT, dtypes=_DOUBLES, cube_math_type=2, profile="reference"),
    layer("beyond every limit", (1, 1, 2, 2, 600), (2, 1, 1, 1, 3), stride=(1, 64, 65), dilation=(1, 1, 256), padding=(0, 256, 1), profile="reference"),
)  # fmt: skip

SAMPLES: tuple[Sample, ...] = (
    *_SHAPES,
    *_TRANSPOSED,
    *_DTYPES,
    *_LAYOUTS,
    *_EMPTY,
    *_VENDORS,
    *_OTHERS,
)
ERROR_SAMPLES: tuple[ErrorSample, ...] = errors()
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = warned_calls()
"""Calls that break a rule of the page, which is a warning by default."""
