"""A breach of each rule of convolution_backward, in FLOAT16, which all profiles have."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from opserve_kernels.cases.calls import Row, Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import Breach, thin
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.convolution_backward.contract import BOUNDS
from opserve_kernels.tensor import DataType, Format

_HALF = (DataType.FLOAT16, DataType.FLOAT16, DataType.FLOAT16)
_FLOAT = (DataType.FLOAT, DataType.FLOAT, DataType.FLOAT)
_OLDER = "ascend910"
_MOST_SIZE = 2147483646
_INPUTS = ("grad_output", "input", "weight")
_GRADIENTS = ("grad_input", "grad_weight", "grad_bias")
_ARRAYS = ("stride", "padding", "dilation", "output_padding")
_SCALARS = ("transposed", "groups", "output_mask", "cube_math_type")


def _call(input_: Row, weight: Row, **others: Any) -> ConvolutionCall:  # noqa: ANN401  # members
    members: dict[str, Any] = {"dtypes": _HALF, **others}
    return ConvolutionCall(input=input_, weight=weight, **members)


_PLAIN = _call((2, 4, 6, 7), (6, 4, 3, 2))
_BASE = _PLAIN.case()
_BASE_1D = _call((2, 4, 7), (6, 4, 2)).case()
_BASE_3D = _call((2, 4, 4, 5, 6), (6, 4, 2, 3, 2)).case()
_TRANSPOSED = _call((2, 4, 4, 5), (4, 6, 3, 2), stride=(2, 2), transposed=True).case()
_TRANSPOSED_3D = _call((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), stride=(2, 2, 2), transposed=True).case()
_WITHOUT_HEIGHT = _call((2, 3, 0, 7), (4, 3, 1, 1), padding=(1, 0))
_EMPTY = _call((0, 4, 6, 7), (6, 4, 3, 2)).case()
_EMPTY_TRANSPOSED = _call((0, 4, 4, 5), (4, 6, 3, 2), transposed=True).case()
_ON_OLDER = _PLAIN.case(Setting(profile=_OLDER))
_VALUE = "not a value for each spatial dimension"
_DTYPE = "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"
_FORMAT = "format is not that of its dimensions: 3 NCL or ND, 4 NCHW, 5 NCDHW"
_NEITHER_N_NOR_C = "empty, but neither its N nor its C is 0"
_ON_A2_AND_REFERENCE = "on ascend910b and reference"
_ON_OLDER_WORDS = "on ascend910 and ascend310p"
_ON_PRODUCTS = "on ascend910b and ascend910 and ascend310p"


def breaches() -> Mapping[tuple[str, str], Breach]:
    """Breaches by parameter and words of the rule."""
    return {**_missing(), **_tensors(), **_values(), **_emptiness(), **_shapes(), **_limits()}


def _breach(changes: Mapping[str, object], case: Case = _BASE) -> Breach:
    return Breach(case=case, changes=changes)


def _missing() -> dict[tuple[str, str], Breach]:
    missing = "missing where output_mask asks for it"
    return {
        **{(name, "missing"): _breach({name: None}) for name in (*_INPUTS, *_ARRAYS, *_SCALARS)},
        **{(name, missing): _breach({name: None}) for name in _GRADIENTS},
        ("output_mask", "not three values"): _breach({"output_mask": (True, True)}),
    }


def _tensors() -> dict[tuple[str, str], Breach]:
    found: dict[tuple[str, str], Breach] = {}
    for name in (*_INPUTS, *_GRADIENTS):
        found[name, _DTYPE] = _breach({f"{name}.dtype": DataType.INT8})
        narrow = _breach({f"{name}.dtype": DataType.BF16}, _ON_OLDER)
        found[name, f"dtype is BF16 {_ON_OLDER_WORDS}"] = narrow
    for name in (*_INPUTS, *_GRADIENTS[:2]):
        found[name, "not 3, 4 or 5 dimensions"] = _breach({f"{name}.shape": (2, 8)})
        found[name, _FORMAT] = _breach({f"{name}.format": Format.NHWC})
        plain = _breach({f"{name}.format": Format.ND}, _BASE_1D)
        found[name, f"format is ND, not NCL, {_ON_PRODUCTS}"] = plain
    for name, wider in (
        ("grad_input", "the wider of input's and grad_output's"),
        ("grad_weight", "the wider of weight's and grad_output's"),
        ("grad_bias", "that of grad_output"),
    ):
        other = _breach({f"{name}.dtype": DataType.FLOAT})
        found[name, f"dtype is not {wider} {_ON_PRODUCTS}"] = other
    tagged = {"grad_bias.format": Format.NCHW}
    return found | {
        ("grad_bias", "format is not ND, transposed is false, on ascend910b"): _breach(tagged),
        ("grad_bias", "format is not ND, transposed is true, on ascend910b"): _breach(
            tagged, _TRANSPOSED
        ),
        ("grad_bias", f"format is not ND {_ON_OLDER_WORDS}"): _breach(tagged, _ON_OLDER),
    }


def _values() -> dict[tuple[str, str], Breach]:
    older = replace(_PLAIN, dtypes=_FLOAT, cube_math_type=1).case(Setting(profile=_OLDER))
    below = {"output_padding": (0, 2, 0)}
    return {
        ("stride", "a value below 1"): _breach({"stride": (1, 0)}),
        ("padding", "a negative value"): _breach({"padding": (0, -1)}),
        ("dilation", "a value below 1"): _breach({"dilation": (0, 1)}),
        ("output_padding", "a negative value"): _breach({"output_padding": (0, -1)}, _TRANSPOSED),
        ("output_padding", "not below stride in 3-D"): _breach(below, _TRANSPOSED_3D),
        ("output_padding", "not zero, transposed is false"): _breach({"output_padding": (0, 1)}),
        ("output_padding", "not below stride in 1-D or 2-D"): _breach(
            {"output_padding": (2, 0)}, _TRANSPOSED
        ),
        ("groups", "below 1"): _breach({"groups": 0}),
        ("cube_math_type", "not 0, 1, 2 or 3"): _breach({"cube_math_type": 4}),
        ("cube_math_type", f"0 or 3 with FLOAT {_ON_OLDER_WORDS}"): _breach(
            {"cube_math_type": 3}, older
        ),
    }


def _emptiness() -> dict[tuple[str, str], Breach]:
    return {**_empty_on_devices(), **_empty_by_the_page(), **_empty_elsewhere()}


def _empty_on_devices() -> dict[tuple[str, str], Breach]:
    """Breaches of the source's rules for an empty input or weight."""
    without_channels = _call((2, 4, 4, 5), (4, 6, 3, 2), transposed=True).case()
    return {
        (
            "bias_sizes",
            f"missing or not the channels, output_mask[2], input is empty {_ON_A2_AND_REFERENCE}",
        ): _breach({"bias_sizes": None}, _EMPTY),
        (
            "input",
            f"{_NEITHER_N_NOR_C}, grad_input is wanted, {_ON_A2_AND_REFERENCE}",
        ): Breach(case=_WITHOUT_HEIGHT.case()),
        (
            "weight",
            f"dimension 0 is not a multiple of groups, input is empty {_ON_A2_AND_REFERENCE}",
        ): Breach(case=_call((0, 4, 6, 7), (5, 2, 3, 2), groups=2).case()),
        (
            "weight",
            f"empty, though input is not, grad_input is wanted, {_ON_A2_AND_REFERENCE}",
        ): Breach(case=_call((2, 4, 6, 7), (0, 4, 3, 2)).case()),
        (
            "weight",
            f"dimension 0 is 0, transposed, input is empty {_ON_A2_AND_REFERENCE}",
        ): _breach(
            {
                "input.shape": (2, 0, 4, 5),
                "grad_input.shape": (2, 0, 4, 5),
                "weight.shape": (0, 6, 3, 2),
                "grad_weight.shape": (0, 6, 3, 2),
            },
            without_channels,
        ),
    }


def _empty_by_the_page() -> dict[tuple[str, str], Breach]:
    height = replace(_WITHOUT_HEIGHT, mask=(False, True, True)).case()
    kernels = _call((2, 4, 6, 7), (0, 4, 3, 2), mask=(False, True, True)).case()
    empty = f"input is empty {_ON_A2_AND_REFERENCE}"
    return {
        (
            "input",
            f"{_NEITHER_N_NOR_C}, grad_input is not wanted, {_ON_A2_AND_REFERENCE}",
        ): Breach(case=height),
        ("weight", f"empty, but not for want of input's channels, {_ON_A2_AND_REFERENCE}"): Breach(
            case=kernels
        ),
        ("grad_output", f"N is not that of input, {empty}"): _breach(
            {"grad_output.shape": (1, 6, 4, 6)}, _EMPTY
        ),
        (
            "grad_output",
            f"dimension 1 is not the channels of weight and groups, {empty}",
        ): _breach({"grad_output.shape": (0, 5, 6, 6), "grad_bias.shape": (5,)}, _EMPTY_TRANSPOSED),
        (
            "grad_output",
            f"spatial sizes are not those of the convolution, {empty}",
        ): _breach({"grad_output.shape": (0, 6, 5, 6)}, _EMPTY),
    }


def _empty_elsewhere() -> dict[tuple[str, str], Breach]:
    on_older = Setting(profile=_OLDER)
    return {
        ("input", f"empty {_ON_OLDER_WORDS}"): Breach(
            case=_call((0, 4, 6, 7), (6, 4, 3, 2)).case(on_older)
        ),
        ("weight", f"empty {_ON_OLDER_WORDS}"): Breach(
            case=_call((2, 4, 6, 7), (0, 4, 3, 2)).case(on_older)
        ),
        ("grad_output", "empty, though input is not"): _breach({"grad_output.shape": (0, 6, 4, 6)}),
    }


def _shapes() -> dict[tuple[str, str], Breach]:
    flat = {"shape": (2, 6, 4), "format": Format.NCL}
    three = dict(zip(_ARRAYS, ((1,) * 3, (0,) * 3) * 2, strict=True))
    weight_0 = {"weight.shape": (5, 4, 3, 2), "grad_weight.shape": (5, 4, 3, 2)}
    weight_1 = {"weight.shape": (6, 3, 3, 2), "grad_weight.shape": (6, 3, 3, 2)}
    found = {(name, _VALUE): _breach({name: value}) for name, value in three.items()}
    for name in ("grad_output", "weight"):
        changes = {f"{name}.{member}": value for member, value in flat.items()}
        found[name, "not as many dimensions as input"] = _breach(changes)
    return found | {
        ("grad_input", "shape is not that of input"): _breach({"grad_input.shape": (2, 4, 7, 6)}),
        ("grad_weight", "shape is not that of weight"): _breach(
            {"grad_weight.shape": (6, 4, 2, 3)}
        ),
        ("grad_bias", "shape is not the channels of grad_output"): _breach(
            {"grad_bias.shape": (4,)}
        ),
        (
            "weight",
            "dimension 0 is not the channels of grad_output, or of input if transposed",
        ): _breach(weight_0),
        (
            "weight",
            "dimension 1 does not divide the channels of input, or of grad_output if transposed",
        ): _breach(weight_1),
        ("groups", "not those channels divided by weight's dimension 1"): _breach({"groups": 2}),
        ("groups", "does not divide weight's dimension 0"): Breach(
            case=_call((2, 4, 6, 7), (5, 2, 3, 2), groups=2).case()
        ),
        ("grad_output", "N is not that of input"): _breach({"grad_output.shape": (3, 6, 4, 6)}),
        ("bias_sizes", "not the channels"): _breach({"bias_sizes": (4,)}),
        **_spatial(),
    }


def _spatial() -> dict[tuple[str, str], Breach]:
    grouped = _call((1, 4, 4, 4, 4), (4, 2, 2, 2, 2), groups=2, dtypes=_FLOAT).case()
    on_older = _call((2, 4, 4, 5, 6), (6, 4, 2, 3, 2)).case(Setting(profile=_OLDER))
    small, sizes = "smaller than the dilated kernel in", "spatial sizes are not those of the"
    in_both = "1-D or 2-D"
    return {
        ("input", f"{small} 3-D"): _breach({"dilation": (4, 1, 1)}, _BASE_3D),
        ("input", f"{small} {in_both}"): _breach({"dilation": (3, 1)}),
        ("grad_output", f"{small} 3-D, transposed"): _breach(
            {"dilation": (1, 6, 1)}, _TRANSPOSED_3D
        ),
        ("grad_output", f"{sizes} convolution in 3-D"): _breach({"stride": (2, 2, 2)}, _BASE_3D),
        ("grad_output", f"{sizes} convolution in {in_both}"): _breach({"stride": (2, 2)}),
        ("grad_output", f"{small} {in_both}, transposed"): _breach(
            {"dilation": (6, 1)}, _TRANSPOSED
        ),
        (
            "grad_output",
            "spatial sizes do not lead back to those of input, transposed",
        ): _breach({"stride": (2, 1, 2)}, _TRANSPOSED_3D),
        (
            "grad_output",
            "spatial sizes are not exactly those of the convolution, transposed",
        ): _breach({"grad_output.shape": (2, 6, 10, 10)}, _TRANSPOSED),
        ("input", f"3-D {_ON_OLDER_WORDS}"): Breach(case=on_older),
        (
            "grad_weight",
            "FLOAT in 3-D with groups computed in 16 bits on ascend910b",
        ): _breach({"cube_math_type": 2}, grouped),
    }


def _limits() -> dict[tuple[str, str], Breach]:
    """Breaches one beyond each limit, in the last dimension that it binds."""
    found: dict[tuple[str, str], Breach] = {}
    for bound in BOUNDS:
        limit, rank = bound.limit, bound.ranks[-1]
        assert limit.most is not None
        places = range(rank if limit.parameter in _INPUTS else rank - 2)[bound.values]
        call = at_limit(limit.parameter, rank, places[-1] if places else 0, limit.most + 1)
        words = f"not in [{limit.least}, {limit.most}]: {limit.where}; on ascend910b"
        found[limit.parameter, words] = Breach(case=thin(call.case()))
    return found


def at_limit(parameter: str, rank: int, axis: int, value: int) -> ConvolutionCall:
    """A valid call, except that this value may be beyond a limit.

    Args:
        parameter: The argument.
        rank: Dimensions of the tensors.
        axis: Index of the value: the size of the tensor, or the entry of the array.
        value: Value at the limit, or one beyond.
    """
    ones, steps, none = (1,) * rank, (1,) * (rank - 2), (0,) * (rank - 2)
    beyond = value > _MOST_SIZE
    match parameter:
        case "weight":
            call = _call(
                _at(ones, axis, min(value, _MOST_SIZE)) if axis > 1 else _at(ones, axis, value),
                _at(ones, axis, value),
                padding=_at(none, axis - 2, 1) if axis > 1 and beyond else none,
            )
        case "grad_output":  # padding makes it larger than input
            call = _call(_at(ones, axis, value - 2), ones, padding=_at(none, axis - 2, 1))
        case "input":  # stride 2 keeps grad_output within its limit
            call = _call(_at(ones, axis, value), ones, stride=_at(steps, axis - 2, 2))
        case "stride":
            call = _call(ones, ones, stride=_at(steps, axis, value))
        case "padding":
            vast = _at(steps, axis, _MOST_SIZE) if value > _MOST_SIZE // 2 else steps
            call = _call(ones, ones, padding=_at(none, axis, value), stride=vast)
        case "dilation":
            taps, dilated_kernel = _at(ones, axis + 2, 2), _at(ones, axis + 2, value + 1)
            call = _call(dilated_kernel, taps, dilation=_at(steps, axis, value))
        case _:
            call = _call(_at(ones, 1, value), _at(ones, 0, value), groups=value)
    return call


def _at(row: Row, place: int, value: int) -> Row:
    return (*row[:place], value, *row[place + 1 :])
