"""Calls that break a row of aclnnConvolution's error table: errors, and warnings of the page."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kernels.samples.from_cases import broken_calls, sample_of
from kernels.samples.layers import BF16, FLOAT, FLOAT16, channels_last, layer, tagged
from kernels.samples.sample import ErrorSample, Sample
from opserve_kernels.operators.convolution.cases.refusals import at_limit, breaches
from opserve_kernels.operators.convolution.contract import BOUNDS
from opserve_kernels.operators.convolution.schema import Convolution
from opserve_kernels.status import Status
from opserve_kernels.tensor import Format

_RUNTIME_ERRORS = (  # of the rows that are no limits
    "dtype is FLOAT, computed in 16 bits, cube_math_type not 2, transposed is true on ascend910b",
    "more than 65535 values in a block of channels in 3-D, transposed is false on ascend910b",
)
_IMAGE, _WEIGHT = (2, 4, 6, 7), (6, 4, 3, 2)
_ON_A2_AND_310B = "on ascend910b and ascend310b"
_HALF: dict[str, Any] = {"dtypes": (FLOAT16,) * 4}
_T: dict[str, Any] = {"transposed": True, **_HALF}
_ON_310P: dict[str, Any] = {"profile": "ascend310p"}


def errors() -> tuple[ErrorSample, ...]:
    """The refusals of the suites."""
    of_the_cube = (bound.rule.broken for bound in BOUNDS if bound.is_of_cube)
    return broken_calls(breaches(), Convolution, late={*_RUNTIME_ERRORS, *of_the_cube})


def warned_calls() -> tuple[ErrorSample, ...]:
    """A call for each rule of the page that is a warning by default."""
    return tuple(
        ErrorSample(
            rule=rule,
            sample=replace(sample, name=f"{parameter}: {rule}"),
            status=Status.ACLNN_ERR_PARAM_INVALID,
            parameter=parameter,
        )
        for (parameter, rule), sample in {**_warned(), **dict(_beyond())}.items()
    )


def _warned() -> Mapping[tuple[str, str], Sample]:
    transposed = layer("", (2, 4, 4, 5), (4, 6, 3, 2), **_T)
    volume = layer("", (2, 4, 4, 5, 6), (6, 4, 2, 3, 2), **_HALF)
    others = "on ascend910b and ascend910 and ascend310p"
    found = {
        ("profile", "ascend910, a product that the page does not list"): layer(
            "", _IMAGE, _WEIGHT, profile="ascend910", **_HALF
        ),
        ("bias", f"dtype is not that of input and weight {_ON_A2_AND_310B}"): layer(
            "", _IMAGE, _WEIGHT, dtypes=(FLOAT16, FLOAT16, FLOAT, FLOAT16)
        ),
        ("bias", "format is not ND, transposed is true"): tagged(
            transposed, "", "bias", Format.NCHW
        ),
        ("output", f"dtype is not that of input, transposed is true {others}"): layer(
            "", (2, 4, 4, 5), (4, 6, 3, 2), **{**_T, "dtypes": (FLOAT16, FLOAT16, FLOAT16, BF16)}
        ),
        ("cube_math_type", f"0 with FLOAT {_ON_A2_AND_310B}"): layer("", _IMAGE, _WEIGHT),
        ("cube_math_type", f"2 with BF16 {_ON_A2_AND_310B}"): layer(
            "", _IMAGE, _WEIGHT, cube_math_type=2, dtypes=(BF16,) * 4
        ),
        ("cube_math_type", f"4 {others} and ascend310b"): layer(
            "", _IMAGE, _WEIGHT, cube_math_type=4, **_HALF
        ),
        ("padding", f"a negative value, a tensor is empty {others} and ascend310b"): layer(
            "", (0, 4, 6, 7), _WEIGHT, padding=(0, -1), **_HALF
        ),
        ("weight", "a size is 0, transposed is true on ascend910b"): layer(
            "", (2, 4, 4, 5), (4, 0, 3, 2), **_T
        ),
    }
    for names in (("input", "output"), ("weight",)):
        last = channels_last(volume, "", *names)
        found |= {(name, f"format is NDHWC, {others}"): last for name in names}
    return found | _on_inference()


def _on_inference() -> dict[tuple[str, str], Sample]:
    """Calls that the page excludes on Atlas inference alone."""
    found = {
        ("cube_math_type", "3 with FLOAT16 on ascend310p"): layer(
            "", _IMAGE, _WEIGHT, cube_math_type=3, **_HALF, **_ON_310P
        ),
        ("bias", "dtype is BF16 on ascend310p"): layer(
            "", _IMAGE, _WEIGHT, dtypes=(FLOAT16, FLOAT16, BF16, FLOAT16), **_ON_310P
        ),
        ("transposed", "true in 3-D on ascend310p"): layer(
            "", (2, 4, 4, 5, 6), (4, 6, 2, 3, 2), **_T, **_ON_310P
        ),
    }
    for place, name in enumerate(("input", "weight", "bias", "output")):
        dtypes = [FLOAT16] * 4
        dtypes[place] = FLOAT
        rule = "dtype is not FLOAT16 in 3-D, transposed is false, on ascend310p"
        found[name, rule] = layer(
            "", (2, 4, 4, 5, 6), (6, 4, 2, 3, 2), dtypes=dtypes, cube_math_type=1, **_ON_310P
        )
    return found


def _beyond() -> Iterator[tuple[tuple[str, str], Sample]]:
    """A call one beyond each limit of the page alone."""
    for bound in BOUNDS:
        limit = bound.limit
        if not bound.is_of_cube:
            assert limit.most is not None
            call = at_limit(bound, bound.ranks[0], limit.most + 1)
            # The cube of Atlas A2 rejects most of them first.
            profiles = limit.profiles
            inference = _ON_310P["profile"]
            profile = inference if inference in profiles else profiles[0]
            case = replace(call.case(), profile=profile)
            key = limit.parameter, bound.rule.broken
            yield key, sample_of(case, Convolution, limit.parameter)
