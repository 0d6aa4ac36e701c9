"""Calls of aclnnConvTbc: those that must succeed, and one for every rule."""

from dataclasses import replace
from typing import Any

from kernels.samples.from_cases import broken_calls, sample_of
from kernels.samples.layers import BF16, DOUBLE, FLOAT, FLOAT16, laid_out, tagged
from kernels.samples.sample import ErrorSample, Sample, Values
from opserve_kernels.cases.calls import Setting
from opserve_kernels.operators.conv_tbc.cases.calls import TbcLayerCall
from opserve_kernels.operators.conv_tbc.cases.refusals import breaches
from opserve_kernels.operators.conv_tbc.schema import ConvTbc
from opserve_kernels.status import Status
from opserve_kernels.tensor import Format

Shape = tuple[int, ...]
_IMAGE, _WEIGHT = (9, 2, 4), (3, 4, 5)


def times(name: str, image: Shape = _IMAGE, weight: Shape = _WEIGHT, **changes: Any) -> Sample:
    """A call without padding, in float32, unless changed.

    Args:
        name: Of the sample.
        image: Shape of self.
        weight: Shape of the weight.
        changes: Members of TbcLayerCall, `values` and `profile`.
    """
    values, profile = changes.pop("values", Values.NORMAL), changes.pop("profile", "ascend910b")
    call = TbcLayerCall(image=image, weight=weight, **changes)
    sample = sample_of(call.case(Setting(profile=profile)), ConvTbc, name)
    drawn: dict[str, Any] = {
        key: replace(tensor, values=values)
        for key, tensor in sample.inputs.items()
        if key != "bias" or values is not Values.SPECIAL
    }
    return sample.but(name, **drawn)


_HALF, _BFLOAT, _DOUBLES = (FLOAT16, FLOAT16), (BF16, BF16), (DOUBLE, DOUBLE)
_PLAIN = times("plain", pad=1)
_910: dict[str, Any] = {"profile": "ascend910"}
_310P: dict[str, Any] = {"profile": "ascend310p"}
SAMPLES: tuple[Sample, ...] = (
    _PLAIN,
    times("no pad"),
    times("pad of the kernel", pad=3),
    times("all of them", (13, 3, 9), (4, 9, 10), pad=2),
    times("kernel of 1", weight=(1, 4, 5)),
    times("kernel as long as the image", weight=(9, 4, 5)),
    times("one of everything", (1, 1, 1), (1, 1, 1)),
    times("one time", (1, 3, 4), (2, 4, 5), pad=1),
    times("many channels", (8, 2, 40), (3, 40, 33), pad=1),
    times("FLOAT16", dtypes=_HALF),
    times("BF16", dtypes=_BFLOAT),
    times("FLOAT16 with a FLOAT bias", dtypes=(FLOAT16, FLOAT)),
    times("BF16 with a FLOAT bias", dtypes=(BF16, FLOAT)),
    times("FLOAT with a FLOAT16 bias", dtypes=(FLOAT, FLOAT16)),
    times("FLOAT16 overflows", dtypes=_HALF, values=Values.LARGE),
    times("NaN and infinity", (12, 2, 4), pad=1, values=Values.SPECIAL),
    *(times(f"cube_math_type {kind}", cube_math_type=kind) for kind in (1, 2, 3, 4)),
    laid_out(_PLAIN, "self with gaps", "self", (30, 9, 2), 1),
    laid_out(_PLAIN, "self as NCL in memory", "self", (1, 36, 9)),
    laid_out(_PLAIN, "weight as NCL in memory", "weight", (1, 3, 12)),
    laid_out(_PLAIN, "bias with gaps", "bias", (3,), 2),
    laid_out(_PLAIN, "out as NCL in memory", "out", (1, 45, 9), 3),
    tagged(_PLAIN, "format NCL", "self", Format.NCL),
    times("no entries", (9, 0, 4)),
    times("no channels in", (9, 2, 0), (3, 0, 5), pad=1),
    times("no times", (0, 2, 4), pad=3),
    times("no times into BF16", (0, 2, 4), pad=3, dtypes=(BF16, FLOAT)),
    times("vendor's", (2, 2, 3), (3, 3, 4), pad=1, cube_math_type=1, values=Values.ONES),
    times("FLOAT16 on 910", dtypes=_HALF, **_910),
    times("FLOAT by 1 on 910", cube_math_type=1, **_910),
    times("FLOAT16 on 310P", dtypes=_HALF, **_310P),
    times("saturated FLOAT16", dtypes=_HALF, values=Values.LARGE, **_310P),
    times("the bias alone saturates", (0, 2, 4), pad=3, dtypes=(FLOAT16, FLOAT), values=Values.LARGE, **_910),
    times("DOUBLE", dtypes=_DOUBLES, pad=1, profile="reference"),
    times("no times in DOUBLE", (0, 2, 4), pad=3, dtypes=_DOUBLES, profile="reference"),
    times("a kernel of all times and both pads", (2, 2, 3), (4, 3, 4), pad=1, profile="reference"),
)  # fmt: skip
ERROR_SAMPLES: tuple[ErrorSample, ...] = broken_calls(breaches(), ConvTbc)


def _warned(rule: str, parameter: str, sample: Sample) -> ErrorSample:
    return ErrorSample(
        rule=rule,
        sample=replace(sample, name=f"{parameter}: {rule}"),
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
    )


_ON_PRODUCTS = "on ascend910b and ascend910 and ascend310p"
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = (
    *(
        _warned(
            f"{name}, a product that the page does not list",
            "profile",
            times("", dtypes=_HALF, profile=name),
        )
        for name in ("ascend910", "ascend310p")
    ),
    _warned(
        f"dtype is not that of self {_ON_PRODUCTS}", "bias", times("", dtypes=(FLOAT16, FLOAT))
    ),
    _warned("format is not ND", "bias", tagged(_PLAIN, "", "bias", Format.NCL)),
    _warned("not in [0, 255] on ascend910b", "pad", times("", pad=256)),
    _warned("0 with FLOAT on ascend910b", "cube_math_type", times("")),
    _warned(
        "2 with BF16 on ascend910b", "cube_math_type", times("", dtypes=_BFLOAT, cube_math_type=2)
    ),
    _warned(f"4 {_ON_PRODUCTS}", "cube_math_type", times("", cube_math_type=4)),
)
"""Calls that break a rule of the page, which is a warning by default."""
