"""Cases from command lines of MIOpenDriver: conv, convfp16 and convbfp16, in 2-D and 3-D."""

from collections.abc import Iterator, Mapping

from opserve_kernels.cases.calls import DEFAULT, Row, Setting
from opserve_kernels.cases.forms.form import channels_last
from opserve_kernels.cases.readers.read import (
    Inexpressible,
    Read,
    Request,
    divided,
    integer,
    layouts_of,
    read_lines,
)
from opserve_kernels.cases.suite import CASES_LIMIT
from opserve_kernels.errors import rejection
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall, Mask
from opserve_kernels.tensor import DataType

_PROGRAMS: Mapping[str, DataType] = {
    "conv": DataType.FLOAT,
    "convfp16": DataType.FLOAT16,
    "convbfp16": DataType.BF16,
}
_DEFAULTS: Mapping[str, str] = {
    "batchsize": "100",
    **dict.fromkeys(("in_d", "in_h", "in_w", "out_channels"), "32"),
    **dict.fromkeys(("in_channels", "fil_d", "fil_h", "fil_w"), "3"),
    **dict.fromkeys(("pad_d", "pad_h", "pad_w"), "0"),
    **dict.fromkeys(("conv_stride_d", "conv_stride_h", "conv_stride_w", "group_count"), "1"),
    **dict.fromkeys(("dilation_d", "dilation_h", "dilation_w"), "1"),
    **dict.fromkeys(("trans_output_pad_d", "trans_output_pad_h", "trans_output_pad_w"), "0"),
    **dict.fromkeys(("in_layout", "out_layout", "fil_layout"), ""),
    "mode": "conv",
    "forw": "0",
    "bias": "0",
    "spatial_dim": "2",
    "pad_mode": "default",
    "tensor_vect": "0",
    "vector_length": "1",
}
_LETTERS = (
    *("n batchsize", "c in_channels", "! in_d", "H in_h", "W in_w"),
    *("k out_channels", "@ fil_d", "y fil_h", "x fil_w"),
    *("$ pad_d", "p pad_h", "q pad_w"),
    *("# conv_stride_d", "u conv_stride_h", "v conv_stride_w"),
    *("^ dilation_d", "l dilation_h", "j dilation_w", "g group_count"),
    *("% trans_output_pad_d", "Y trans_output_pad_h", "X trans_output_pad_w"),
    *("m mode", "F forw", "b bias", "_ spatial_dim", "z pad_mode"),
    *("I in_layout", "O out_layout", "f fil_layout", "Z tensor_vect", "L vector_length"),
)
_SHORT: Mapping[str, str] = {pair[0]: pair[2:] for pair in _LETTERS}
# Options of the run and of reports, which do not change what is computed.
_PASSED_OVER = {
    *("V", "verify", "i", "iter", "t", "time", "w", "wall", "s", "search", "P", "printconv"),
    *("S", "solution", "C", "verification_cache", "o", "dump_output", "r", "pad_val"),
}
_BACKWARD_DATA, _BACKWARD_WEIGHTS = 2, 4
_AXES = "dhw"


def read_miopen(text: str, setting: Setting = DEFAULT, most: int = CASES_LIMIT) -> Read:
    """The cases of command lines.

    Args:
        text: A command a line.
        setting: Profile, kind and tags of the cases.
        most: Limit of the number of calls.
    """
    return read_lines(text, lambda line: _requests(line, setting), most)


def _requests(line: str, setting: Setting) -> Iterator[Request]:
    words = line.split()
    if words[0].rpartition("/")[2] == "MIOpenDriver":
        words = words[1:]
    if not words or words[0] not in _PROGRAMS:
        program = words[0] if words else ""
        raise Inexpressible(
            rejection("program", given=repr(program[:32]), allowed=", ".join(_PROGRAMS))
        )
    options = _options(words[1:])
    call = _call(options, _PROGRAMS[words[0]])
    strides: dict[str, Row] = {}
    for option, name, shape in (
        ("in_layout", "input", call.input),
        ("fil_layout", "weight", call.weight),
        ("out_layout", "grad_output", call.output),
    ):
        if _is_channels_last(option, options[option]):
            strides[name] = channels_last(shape)
    layouts = layouts_of(call, strides)
    yield Request(
        call=call,
        setting=Setting(
            profile=setting.profile, kind=setting.kind, tags=setting.tags, layouts=layouts
        ),
    )


def _options(words: list[str]) -> dict[str, str]:
    """Every option by its long name."""
    options = dict(_DEFAULTS)
    waiting = iter(words)
    for word in waiting:
        name, joined, value = word.partition("=") if word.startswith("--") else (word, "", "")
        plain = name.removeprefix("--") if name.startswith("--") else name[1:]
        known = _SHORT.get(plain, plain)
        if not name.startswith("-") or (known not in options and plain not in _PASSED_OVER):
            raise Inexpressible(f"option {word[:32]!r} does not define the computation")
        given = value if joined else next(waiting, None)
        if given is None:
            raise Inexpressible(f"option {word[:32]!r} has no value")
        if known in options:
            options[known] = given
    return options


def _call(options: Mapping[str, str], dtype: DataType) -> ConvolutionCall:
    axes = integer(options["spatial_dim"], "spatial_dim")
    if axes not in {2, 3} or options["mode"] not in {"conv", "trans"}:
        given = f"spatial_dim {axes}, mode {options['mode'][:32]}"
        raise Inexpressible(f"{given}: allowed 2 or 3, and conv or trans")
    if (options["tensor_vect"], options["vector_length"]) != ("0", "1"):
        raise Inexpressible("tensor_vect and vector_length: allowed 0 and 1, no tensor of vectors")
    transposed, groups = options["mode"] == "trans", integer(options["group_count"], "group_count")
    groups = max(groups, 1)
    inner = integer(options["in_channels"], "in_channels")
    outer = integer(options["out_channels"], "out_channels")
    first, second = (inner, outer) if transposed else (outer, inner)
    divided(first, groups, "group_count")
    return ConvolutionCall(
        input=(integer(options["batchsize"], "batchsize"), inner, *_row(options, "in", axes)),
        weight=(first, divided(second, groups, "group_count"), *_row(options, "fil", axes)),
        stride=_row(options, "conv_stride", axes, least=1),
        padding=_padding(options, axes),
        dilation=_row(options, "dilation", axes, least=1),
        output_padding=_row(options, "trans_output_pad", axes) if transposed else (),
        groups=groups,
        transposed=transposed,
        mask=_mask(options),
        dtypes=(dtype, dtype, dtype),
    )


def _row(options: Mapping[str, str], name: str, axes: int, *, least: int = 0) -> Row:
    names = [f"{name}_{axis}" for axis in _AXES[-axes:]]
    found = tuple(integer(options[one], one) for one in names)
    if min(found) < least:
        raise Inexpressible(rejection(name, given=list(found), allowed=f"at least {least}"))
    return found


def _padding(options: Mapping[str, str], axes: int) -> Row:
    """Padding by MIOpen's modes, which are defined only without transposition and dilation."""
    given, kernel = _row(options, "pad", axes), _row(options, "fil", axes)
    is_dilated = max(*_row(options, "dilation", axes)) > 1 < max(kernel)
    match options["pad_mode"]:
        case "default":
            return given
        case "same" | "valid" if is_dilated or options["mode"] == "trans":
            return given
        case "valid":
            return (0,) * axes
        case "same":
            steps = _row(options, "conv_stride", axes, least=1)
            sizes = _row(options, "in", axes)
            return tuple(
                max(taps - (size % step or step), 0) // 2
                for taps, step, size in zip(kernel, steps, sizes, strict=True)
            )
        case other:
            raise Inexpressible(
                rejection("pad_mode", given=repr(other[:32]), allowed="default, same and valid")
            )


def _mask(options: Mapping[str, str]) -> Mask:
    """The gradients of -F: 0 is all, else a bit for each direction; with a bias if there is one."""
    mask = integer(options["forw"], "forw") or (_BACKWARD_DATA | _BACKWARD_WEIGHTS)
    data, weights = bool(mask & _BACKWARD_DATA), bool(mask & _BACKWARD_WEIGHTS)
    if not (data or weights):
        raise Inexpressible(f"-F {mask} selects the forward convolution only")
    return data, weights, weights and integer(options["bias"], "bias") != 0


def _is_channels_last(option: str, layout: str) -> bool:
    if layout in {"", "NCHW", "NCDHW"}:
        return False
    if layout in {"NHWC", "NDHWC"}:
        return True
    allowed = "NCHW, NCDHW, NHWC and NDHWC"
    raise Inexpressible(rejection(option, given=repr(layout[:32]), allowed=allowed))
