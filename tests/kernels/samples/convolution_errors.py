"""Calls that break a row of aclnnConvolution's error table: errors, and warnings of the page."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kernels.samples.layers import BF16, FLOAT, FLOAT16, channels_last, layer, tagged
from kernels.samples.sample import ErrorSample, Sample, TensorSample
from opserve_kernels.cases.case import Case, TensorCase
from opserve_kernels.cases.refusals.changes import changed
from opserve_kernels.operators.convolution.cases.refusals import at_limit, breaches
from opserve_kernels.operators.convolution.contract import BOUNDS
from opserve_kernels.status import Status
from opserve_kernels.tensor import Format

_FIELDS = ("input", "weight", "bias", "output")
_RUNTIME_ERRORS = (  # of the rows that are no limits
    "dtype is FLOAT, computed in 16 bits as given, transposed is true on ascend910b",
    "more than 65535 values in a block of channels in 3-D, transposed is false on ascend910b",
)
_IMAGE, _WEIGHT = (2, 4, 6, 7), (6, 4, 3, 2)
_ON_A2_AND_310B = "on ascend910b and ascend310b"
_HALF: dict[str, Any] = {"dtypes": (FLOAT16,) * 4}
_T: dict[str, Any] = {"transposed": True, **_HALF}


def broken_calls() -> tuple[ErrorSample, ...]:
    """The refusals of the suites as samples; the codes are those of the vendor's return table."""
    rows = {bound.rule.broken for bound in BOUNDS if bound.is_of_cube}
    return tuple(
        ErrorSample(
            rule=rule,
            sample=_sample(changed(breach.case, breach.changes), f"{parameter}: {rule}"),
            status=_status(rule, rows),
            parameter=parameter,
        )
        for (parameter, rule), breach in breaches().items()
    )


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


def _status(rule: str, of_the_cube: set[str]) -> Status:
    if rule.startswith("missing"):
        return Status.ACLNN_ERR_PARAM_NULLPTR
    is_late = rule in _RUNTIME_ERRORS or rule in of_the_cube
    return Status.ACLNN_ERR_RUNTIME_ERROR if is_late else Status.ACLNN_ERR_PARAM_INVALID


def _sample(case: Case, name: str) -> Sample:
    tensors = {key: _tensor(case.tensors.get(key)) for key in _FIELDS}
    missing = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    scalars = {**dict.fromkeys((*missing, "cube_math_type")), **case.arguments}
    return Sample(
        name=name, operator="convolution", tensors=tensors, scalars=scalars, profile=case.profile
    )


def _tensor(given: TensorCase | None) -> TensorSample | None:
    if given is None:
        return None
    return TensorSample(
        shape=given.shape, dtype=given.dtype, format=given.format, strides=given.strides
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
        ("input", "dtype is FLOAT in 3-D, transposed is false, on ascend310p"): layer(
            "", (2, 4, 4, 5, 6), (6, 4, 2, 3, 2), cube_math_type=1, profile="ascend310p"
        ),
    }
    for names in (("input", "output"), ("weight",)):
        last = channels_last(volume, "", *names)
        found |= {(name, f"format is NDHWC, {others}"): last for name in names}
    return found


def _beyond() -> Iterator[tuple[tuple[str, str], Sample]]:
    """A call one beyond each limit of the page alone."""
    for bound in BOUNDS:
        limit = bound.limit
        if not bound.is_of_cube:
            assert limit.most is not None
            call = at_limit(bound, bound.ranks[0], limit.most + 1)
            case = replace(call.case(), profile=limit.profiles[0])
            key = limit.parameter, bound.rule.broken
            yield key, _sample(case, limit.parameter)
