"""A breach of each rule of convolution, in FLOAT16, which all profiles have."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from opserve_kernels.bounds import Bound
from opserve_kernels.cases.calls import Row, Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import Breach, thin
from opserve_kernels.operators.convolution.cases.calls import LayerCall
from opserve_kernels.operators.convolution.contract import BOUNDS
from opserve_kernels.tensor import DataType, Format

_HALF, _FLOAT = (DataType.FLOAT16,) * 4, (DataType.FLOAT,) * 4
_OLDER, _EDGE = "ascend910", "ascend310b"
_TENSORS, _STEPS = ("input", "weight", "output"), ("stride", "padding", "dilation")
_SCALARS = ("transposed", "groups", "cube_math_type")
_SPAN = 255
_WITH_SIZES = ("input", "weight", "bias")
_T, _P = "transposed is true", "transposed is false"
_ON_A2, _ON_OLDER = "on ascend910b", "on ascend910 and ascend310p"
_ON_ALL = "on ascend910b and ascend910 and ascend310p"
Key = tuple[str, str]


def _call(input_: Row, weight: Row, **others: Any) -> LayerCall:  # noqa: ANN401  # members
    members: dict[str, Any] = {"dtypes": _HALF, **others}
    return LayerCall(input=input_, weight=weight, **members)


_PLAIN = _call((2, 4, 6, 7), (6, 4, 3, 2))
_BASE = _PLAIN.case()
_BASE_3D = _call((2, 4, 4, 5, 6), (6, 4, 2, 3, 2)).case()
_PLAIN_TRANSPOSED = _call((2, 4, 4, 5), (4, 6, 3, 2), stride=(2, 2), transposed=True)
_TRANSPOSED = _PLAIN_TRANSPOSED.case()
_ON_910 = _PLAIN.case(Setting(profile=_OLDER))


def breaches() -> Mapping[Key, Breach]:
    """Breaches by parameter and words of the rule."""
    return {**_missing(), **_tensors(), **_values(), **_later(), **_limits()}


def _breach(changes: Mapping[str, object], case: Case = _BASE) -> Breach:
    return Breach(case=case, changes=changes)


def _missing() -> dict[Key, Breach]:
    names = (*_TENSORS, *_STEPS, *_SCALARS)
    return {
        **{(name, "missing"): _breach({name: None}) for name in names},
        ("output_padding", f"missing, {_T}"): _breach({"output_padding": None}, _TRANSPOSED),
    }


def _tensors() -> dict[Key, Breach]:
    found: dict[Key, Breach] = {}
    dtype = "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"
    tag = "format is not that of its dimensions: 3 NCL, 4 NCHW, 5 NCDHW or NDHWC"
    for name in (*_TENSORS, "bias"):
        found[name, dtype] = _breach({f"{name}.dtype": DataType.INT8})
    flat = {"shape": (2, 6, 4), "format": Format.NCL}
    for name in _TENSORS:
        narrow = _breach({f"{name}.dtype": DataType.BF16}, _ON_910)
        found[name, f"dtype is BF16 {_ON_OLDER}"] = narrow
        found[name, "not 3, 4 or 5 dimensions"] = _breach({f"{name}.shape": (2, 8)})
        found[name, tag] = _breach({f"{name}.format": Format.ND})
    for name in ("weight", "output"):
        changes = {f"{name}.{member}": value for member, value in flat.items()}
        found[name, "not as many dimensions as input"] = _breach(changes)
    value = "not a value for each spatial dimension"
    for name in _STEPS:
        found[name, value] = _breach({name: (1, 1, 1)})
    return found | {
        ("bias", "not 1 dimension"): _breach({"bias.shape": (1, 6)}),
        ("output_padding", f"{value}, {_T}"): _breach({"output_padding": (0,)}, _TRANSPOSED),
        ("output", "format is not that of input"): _breach(
            {"output.format": Format.NDHWC}, _BASE_3D
        ),
        ("bias", "format is not ND, NCL, NCHW or NCDHW"): _breach({"bias.format": Format.NHWC}),
    }


def _values() -> dict[Key, Breach]:
    below = "neither below stride nor below dilation"
    return {
        ("bias", "size is not the channels of the output"): _breach({"bias.shape": (4,)}),
        ("weight", "a spatial size is 0"): _breach({"weight.shape": (6, 4, 0, 2)}),
        ("stride", "a value below 1"): _breach({"stride": (1, 0)}),
        ("dilation", "a value below 1"): _breach({"dilation": (0, 1)}),
        ("padding", "a negative value, no tensor is empty"): _breach({"padding": (0, -1)}),
        ("input", f"smaller than the dilated kernel, {_P}"): _breach({"dilation": (3, 1)}),
        ("groups", "below 1"): _breach({"groups": 0}),
        ("weight", f"dimension 0 is not the channels of input, {_T}"): _breach(
            {"weight.shape": (5, 6, 3, 2)}, _TRANSPOSED
        ),
        ("output_padding", f"{below}, {_T}"): _breach({"output_padding": (2, 0)}, _TRANSPOSED),
        ("output_padding", f"a negative value, {_T}"): _breach(
            {"output_padding": (0, -1)}, _TRANSPOSED
        ),
        ("weight", f"groups times dimension 1 is not the channels of input, {_P}"): _breach(
            {"weight.shape": (6, 3, 3, 2)}
        ),
        ("weight", "dimension 0 is not a multiple of groups"): Breach(
            case=_call((2, 4, 6, 7), (5, 2, 3, 2), groups=2).case()
        ),
        ("input", f"no channels, {_T}"): Breach(
            case=_call((2, 0, 4, 5), (0, 6, 3, 2), transposed=True).case()
        ),
        ("output", "shape is not that of the convolution"): _breach({"output.shape": (2, 6, 6, 4)}),
        ("output", "not empty, though input or weight is"): Breach(
            case=_call((2, 0, 6, 7), (6, 0, 3, 2)).case()
        ),
        **_spans(),
    }


def _spans() -> dict[Key, Breach]:
    far = _call((1, 1, 2), (1, 1, 257), transposed=True).case()
    above = _call((1, 1, 2, 4, 4), (1, 1, 1, 2, 2), padding=(0, 2, 0), transposed=True).case()
    return {
        ("padding", f"more than 255 below the span of the kernel, {_T} {_ON_ALL}"): Breach(
            case=far
        ),
        ("padding", f"above the span of the kernel in 3-D, {_T} {_ON_ALL}"): Breach(case=above),
    }


def _later() -> dict[Key, Breach]:
    older = replace(_PLAIN, dtypes=_FLOAT, cube_math_type=1).case(Setting(profile=_OLDER))
    on_edge = Setting(profile=_EDGE)
    block = "more than 65535 values in a block of channels in 3-D"
    return {
        ("cube_math_type", "not 0, 1, 2, 3 or 4"): _breach({"cube_math_type": 5}),
        ("cube_math_type", f"0, 3 or 4 with FLOAT {_ON_OLDER}"): _breach(
            {"cube_math_type": 4}, older
        ),
        ("input", "1-D or 3-D on ascend310b"): Breach(
            case=_call((2, 4, 7), (6, 4, 2)).case(on_edge)
        ),
        ("transposed", "true on ascend310b"): Breach(case=_PLAIN_TRANSPOSED.case(on_edge)),
        (
            "output",
            f"dtype is FLOAT, computed in 16 bits, cube_math_type not 2, {_T} {_ON_A2}",
        ): _breach({"output.dtype": DataType.FLOAT}, _TRANSPOSED),
        ("weight", f"{block}, {_P} {_ON_A2}"): Breach(
            case=_call((1, 1, 1, 64, 66), (1, 1, 1, 64, 65)).case()
        ),
    }


def _limits() -> dict[Key, Breach]:
    """Breaches one beyond each limit that the source has, in the last dimension that it binds."""
    found: dict[Key, Breach] = {}
    for bound in BOUNDS:
        if bound.is_of_cube:
            assert bound.limit.most is not None
            call = at_limit(bound, bound.ranks[-1], bound.limit.most + 1)
            found[bound.limit.parameter, bound.rule.broken] = Breach(case=thin(call.case()))
    return found


def at_limit(bound: Bound, rank: int, value: int) -> LayerCall:
    """A valid call, except that this value may be beyond a limit.

    Args:
        bound: The limit.
        rank: Dimensions of the tensors.
        value: Value at the limit, or one beyond.
    """
    parameter, transposed = bound.limit.parameter, bool(bound.transposed)
    places = range(rank if parameter in _WITH_SIZES else rank - 2)[bound.values]
    axis = places[-1] if places else 0
    ones, steps, none = (1,) * rank, (1,) * (rank - 2), (0,) * (rank - 2)
    match parameter:
        case "weight":
            image = ones if transposed or axis < 2 else _at(ones, axis, value)  # noqa: PLR2004  # N, C
            call = _call(image, _at(ones, axis, value))
        case "input":
            call = _call(_at(ones, axis, value), ones)
        case "bias":
            call = _call(ones, _at(ones, 0, value))
        case "stride":
            call = _call(ones, ones, stride=_at(steps, axis, value))
        case "padding":
            call = _call(ones, ones, padding=_at(none, axis, value))
        case "dilation":
            taps, dilated_kernel = _at(ones, axis + 2, 2), _at(ones, axis + 2, value + 1)
            image = ones if transposed else dilated_kernel
            # The span of a transposed kernel is at most 255 above its padding.
            padding = _at(none, axis, max(0, value - _SPAN)) if transposed else none
            call = _call(image, taps, dilation=_at(steps, axis, value), padding=padding)
        case _:
            call = _call(_at(ones, 1, value), _at(ones, 0, value), groups=value)
    if bound.is_of_cube and not call.dilation:
        # It moves no tap; without it the source would multiply matrices, within no limit.
        call = replace(call, dilation=_at(steps, 0, 2))
    return replace(call, transposed=transposed)


def _at(row: Row, place: int, value: int) -> Row:
    return (*row[:place], value, *row[place + 1 :])
