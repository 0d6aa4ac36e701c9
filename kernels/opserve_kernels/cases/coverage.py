"""What cases cover, read from the cases themselves, against what each operator has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import cast

from opserve_kernels.cases.case import Case, Kind, Value
from opserve_kernels.cases.offers import SUPPORT
from opserve_kernels.cases.refusals.changes import ERROR_TABLE
from opserve_kernels.cases.refusals.rows import RULES
from opserve_kernels.operator import RuleOrigin
from opserve_kernels.tensor import Format

Row = tuple[int, ...]

_COMMON = (
    *("stride", "padding", "dilation"),
    *("input with gaps", "output with gaps", "repeated elements", "offset"),
    *(f"fill {kind}" for kind in Kind),
)
_GROUPED = ("groups", "depthwise", "limit")
_MASKS = tuple("mask " + "".join(flags) for flags in product("10", repeat=3))
_OWN: Mapping[str, tuple[str, ...]] = {
    "convolution_backward": (
        *(*_GROUPED, *_MASKS, "asymmetric padding", "empty", "network"),
        "masked output given",
        *("transposed", "output padding", "several dtypes"),
        *(f"rank {rank}" for rank in (3, 4, 5)),
        *(f"cube_math_type {kind}" for kind in range(4)),
        *(f"format {tag}" for tag in (Format.NCL, Format.ND, Format.NCHW, Format.NCDHW)),
    ),
    "im2col_backward": (
        *("empty", "several dtypes", "rank 2", "rank 3"),
        *(f"format {tag}" for tag in (Format.ND, Format.NCHW, Format.NHWC)),
    ),
    "conv2d_backprop_input": (
        *(*_GROUPED, "asymmetric padding"),
        *(f"format {tag}" for tag in (Format.ND, Format.NC1HWC0, Format.FRACTAL_Z)),
    ),
    "conv2d_backprop_filter": (
        *(*_GROUPED, "asymmetric padding", "raw"),
        *(f"format {tag}" for tag in (Format.ND, Format.NC1HWC0, Format.FRACTAL_Z)),
    ),
    "deconv_grad_filter": (
        *(*_GROUPED, "array of numbers", "taps first"),
        *(f"format {tag}" for tag in (Format.ND, Format.NHWC)),
        *(f"function {letters}_{memory}" for letters in ("fp", "hp") for memory in "sp"),
    ),
}


def required(operator: str) -> tuple[str, ...]:
    """All that a full suite tries of an operator."""
    support = SUPPORT[operator]
    dtypes = dict.fromkeys(dtype for row in support.values() for dtype in row.dtypes)
    return (
        *(f"profile {profile}" for profile in support),
        *(f"dtype {dtype}" for dtype in dtypes),
        *_COMMON,
        *_OWN[operator],
        *(
            f"refused: {rule.parameter}: {rule.broken}"
            for rule in RULES[operator]
            if rule.origin is not RuleOrigin.CONTRADICTED
        ),
    )


def coverage(cases: Iterable[Case]) -> Mapping[str, Mapping[str, int]]:
    """How many cases try what, by operator: every row that is required, and 0 where none does."""
    counts: dict[str, Counter[str]] = {operator: Counter() for operator in SUPPORT}
    for case in cases:
        counts[case.operator].update(set(_features(case)))
    return {
        operator: {feature: counts[operator][feature] for feature in required(operator)}
        for operator in SUPPORT
    }


def _features(case: Case) -> Iterator[str]:
    """Of a call that must be refused, the row alone: what it breaks is no example of anything."""
    if case.is_refused:
        yield f"refused: {case.source.removeprefix(ERROR_TABLE)}"
        return
    yield f"profile {case.profile}"
    yield f"fill {case.kind}"
    if any(tag.startswith("limit of ") for tag in case.tags):
        yield "limit"
    yield from _tensor_features(case)
    yield from _step_features(case)
    yield from _argument_features(case)


def _tensor_features(case: Case) -> Iterator[str]:
    first = next(iter(case.inputs.values()))
    yield f"rank {len(first.shape)}"
    if len({tensor.dtype for tensor in case.tensors.values()}) > 1:
        yield "several dtypes"
    for name, tensor in case.tensors.items():
        described = tensor.tensor()
        yield f"format {tensor.format}"
        if name in case.inputs:
            yield f"dtype {tensor.dtype}"
        if described.element_count == 0:
            yield "empty"
        if described.repeats_elements:
            yield "repeated elements"
        elif not described.is_contiguous:
            yield "input with gaps" if name in case.inputs else "output with gaps"
        if tensor.offset:
            yield "offset"


def _step_features(case: Case) -> Iterator[str]:
    stride, padding, dilation = _steps(case)
    groups, channels = _channels(case)
    if max(stride) > 1:
        yield "stride"
    if max(dilation) > 1:
        yield "dilation"
    if max(padding) > 0:
        yield "padding"
    if len(padding) == 4 and (padding[0] != padding[1] or padding[2] != padding[3]):  # noqa: PLR2004  # sides
        yield "asymmetric padding"
    if groups > 1:
        yield "depthwise" if channels == 1 else "groups"


def _steps(case: Case) -> tuple[Row, Row, Row]:
    """Stride, padding and dilation, however the operator spells them."""
    given = case.arguments
    if case.operator == "deconv_grad_filter":
        param = cast("Row", given.get("param", ()))
        if param:
            return param[10:12], param[12:14], param[14:16]
        names = (("stride_h", "stride_w"), ("pad_u", "pad_l"), ("dilation_h", "dilation_w"))
        stride, padding, dilation = (
            tuple(cast("int", given[name]) for name in row) for row in names
        )
        return stride, padding, dilation
    if "para_dict" in given:
        members = cast("Mapping[str, Row]", given["para_dict"])
        return members["strides"], members["padding"], members["dilations"]
    return (
        cast("Row", given["stride"]),
        cast("Row", given["padding"]),
        cast("Row", given["dilation"]),
    )


def _channels(case: Case) -> tuple[int, int]:
    """Groups, and the channels of one of them."""
    given = case.arguments
    match case.operator:
        case "convolution_backward":
            return cast("int", given["groups"]), case.tensors["weight"].shape[1]
        case "deconv_grad_filter":
            groups = case.tensors["dw_data"].shape[0]
            return groups, case.tensors["dw_data"].shape[2]
        case "im2col_backward":
            return 1, 1
        case _:
            members = cast("Mapping[str, Value]", given["para_dict"])
            held = cast("Mapping[str, Value]", members.get("group_dict", members))
            return cast("int", held.get("groups", 1)), cast("Row", given["filter_sizes"])[1]


def _argument_features(case: Case) -> Iterator[str]:
    given = case.arguments
    if case.operator == "convolution_backward":
        mask = cast("tuple[bool, ...]", given["output_mask"])
        yield "mask " + "".join(str(int(flag)) for flag in mask)
        yield f"cube_math_type {given['cube_math_type']}"
    if isinstance(function := given.get("function"), str):
        yield f"function {function[:2]}_{function[-1]}"
    flags = {
        "transposed": given.get("transposed"),
        "output padding": any(cast("Row", given.get("output_padding", ()))),
        "network": "network" in case.tags,
        "masked output given": set(case.outputs) != set(case.written),
        "raw": given.get("raw"),
        "array of numbers": "param" in given,
        "taps first": given.get("row_order") == "kh_kw_oc",
    }
    yield from (feature for feature, is_tried in flags.items() if is_tried)
