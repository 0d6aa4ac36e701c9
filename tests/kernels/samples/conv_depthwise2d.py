"""Calls of aclnnConvDepthwise2d: those that must succeed, and one for every rule."""

from dataclasses import replace
from typing import Any

from kernels.samples.from_cases import broken_calls, sample_of
from kernels.samples.layers import BF16, DOUBLE, FLOAT16, laid_out, tagged
from kernels.samples.sample import ErrorSample, Sample, Values
from opserve_kernels.cases.calls import Setting
from opserve_kernels.operators.conv_depthwise2d.cases.calls import DepthwiseCall
from opserve_kernels.operators.conv_depthwise2d.cases.refusals import breaches
from opserve_kernels.operators.conv_depthwise2d.schema import ConvDepthwise2d
from opserve_kernels.status import Status
from opserve_kernels.tensor import Format

_IMAGE, _KERNEL = (2, 3, 7, 6), (3, 2)
_STEPS: dict[str, Any] = {"stride": (2, 3), "padding": (2, 1), "dilation": (2, 3)}


def filters(name: str, image: tuple[int, ...] = _IMAGE, **changes: Any) -> Sample:
    """A call with a bias, in float32 with a kernel of 3 x 2, unless changed.

    Args:
        name: Of the sample.
        image: Shape of self.
        changes: Members of DepthwiseCall, `values` and `profile`.
    """
    values, profile = changes.pop("values", Values.NORMAL), changes.pop("profile", "ascend910b")
    call = DepthwiseCall(image=image, kernel=changes.pop("kernel", _KERNEL), **changes)
    sample = sample_of(call.case(Setting(profile=profile)), ConvDepthwise2d, name)
    drawn: dict[str, Any] = {
        key: replace(tensor, values=values)
        for key, tensor in sample.inputs.items()
        if key != "bias" or values is not Values.SPECIAL
    }
    return sample.but(name, **drawn)


_PLAIN = filters("plain")
SAMPLES: tuple[Sample, ...] = (
    _PLAIN,
    filters("without bias", has_bias=False),
    filters("multiplier", multiplier=2),
    filters("stride", stride=(2, 3)),
    filters("padding", padding=(1, 2)),
    filters("dilation", (1, 2, 9, 8), dilation=(2, 3)),
    filters("all of them", (2, 4, 9, 8), multiplier=3, **_STEPS),
    filters("all of them without bias", (2, 4, 9, 8), has_bias=False, **_STEPS),
    filters("kernel of 1", kernel=(1, 1)),
    filters("kernel as large as the image", kernel=(7, 6)),
    filters("stride beyond the kernel", kernel=(1, 2), stride=(3, 4)),
    filters("padding beyond the kernel", padding=(4, 3)),
    filters("one of everything", (1, 1, 1, 1), kernel=(1, 1)),
    filters("many channels", (1, 33, 8, 8), kernel=(3, 3), padding=(1, 1)),
    filters("one row", (2, 3, 1, 12), kernel=(1, 3), padding=(0, 1)),
    filters("FLOAT16", dtype=FLOAT16),
    filters("BF16", dtype=BF16),
    filters("FLOAT16 overflows", dtype=FLOAT16, values=Values.LARGE),
    filters("NaN and infinity", (2, 3, 8, 8), padding=(1, 1), values=Values.SPECIAL),
    *(filters(f"cube_math_type {kind}", cube_math_type=kind) for kind in (1, 2, 3, 4)),
    filters("cube_math_type 2 for BF16", cube_math_type=2, dtype=BF16),
    laid_out(_PLAIN, "self with gaps", "self", (300, 90, 12, 2), 1),
    laid_out(_PLAIN, "self repeated over the batch", "self", (0, 42, 6, 1)),
    laid_out(_PLAIN, "bias with gaps", "bias", (3,), 2),
    laid_out(_PLAIN, "out channels last", "out", (75, 1, 15, 3), 3),
    filters("no entries", (0, 3, 7, 6)),
    filters("no channels", (2, 0, 7, 6)),
    filters("vendor's", (2, 2, 2, 2), kernel=(1, 1), cube_math_type=1, values=Values.ONES),
    filters("FLOAT16 on 910", dtype=FLOAT16, profile="ascend910"),
    filters("FLOAT by 1 on 910", cube_math_type=1, profile="ascend910"),
    filters("saturated FLOAT16", dtype=FLOAT16, values=Values.LARGE, profile="ascend310p"),
    filters("BF16 on 310B", dtype=BF16, profile="ascend310b"),
    filters("HF32 on 310B", cube_math_type=3, profile="ascend310b"),
    filters("DOUBLE", dtype=DOUBLE, profile="reference"),
    filters("all of them in DOUBLE", (2, 4, 9, 8), dtype=DOUBLE, profile="reference", **_STEPS),
)
ERROR_SAMPLES: tuple[ErrorSample, ...] = broken_calls(breaches(), ConvDepthwise2d)


def _warned(rule: str, parameter: str, sample: Sample) -> ErrorSample:
    return ErrorSample(
        rule=rule,
        sample=replace(sample, name=f"{parameter}: {rule}"),
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
    )


_HALF: dict[str, Any] = {"dtype": FLOAT16, "has_bias": False}
_A2 = "on ascend910b"
_ALL = f"{_A2} and ascend910 and ascend310p and ascend310b"
_MOST = 1_000_000
_FLAT, _ONE = (1, 1, 1, 1), (1, 1)
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = (
    *(
        _warned(
            f"{name}, a product that the page does not list",
            "profile",
            filters("", profile=name, **_HALF),
        )
        for name in ("ascend910", "ascend310p", "ascend310b")
    ),
    _warned("format is not ND", "bias", tagged(_PLAIN, "", "bias", Format.NCHW)),
    _warned(f"no channels {_A2}", "self", filters("", (2, 0, 7, 6), **_HALF)),
    _warned(f"a size is 0 {_A2}", "weight", filters("", (2, 0, 7, 6), **_HALF)),
    _warned(f"2 with BF16 {_A2}", "cube_math_type", filters("", cube_math_type=2, dtype=BF16)),
    _warned(f"H or W is not below that of self {_A2}", "weight", filters("", kernel=(7, 2))),
    _warned(f"4 {_ALL}", "cube_math_type", filters("", cube_math_type=4, **_HALF)),
    _warned(
        f"not in [0, 65535]: C; {_A2}", "self", filters("", (1, 65536, 1, 1), kernel=_ONE, **_HALF)
    ),
    _warned(
        f"not in [0, {_MOST}]: a size; {_A2}",
        "self",
        filters("", (1, 1, 1, _MOST + 1), kernel=_ONE, **_HALF),
    ),
    _warned(
        f"not in [0, {_MOST}]: a size; {_A2}",
        "weight",
        filters("", _FLAT, kernel=_ONE, multiplier=_MOST + 1, **_HALF),
    ),
    _warned(
        f"not in [0, {_MOST}]: a size; {_A2}",
        "bias",
        filters("", _FLAT, kernel=_ONE, multiplier=_MOST + 1, dtype=FLOAT16),
    ),
    _warned(f"not in [1, 63]: any value; {_A2}", "stride", filters("", stride=(64, 1), **_HALF)),
    _warned(
        f"not in [0, 255]: any value; {_A2}", "padding", filters("", padding=(0, 256), **_HALF)
    ),
    _warned(
        f"not in [1, 255]: any value; {_A2}",
        "dilation",
        filters("", (1, 1, 258, 4), kernel=(2, 2), dilation=(256, 1), **_HALF),
    ),
)
"""Calls that break a rule of the page, which is a warning by default."""
