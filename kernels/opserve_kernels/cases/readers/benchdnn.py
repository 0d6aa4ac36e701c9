"""Cases from benchdnn's problem strings: conv and deconv, with their options."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from opserve_kernels.cases.calls import DEFAULT, Row, Setting
from opserve_kernels.cases.readers.layouts import OPERANDS, steps_of
from opserve_kernels.cases.readers.problems import Geometry, geometry_of, problem_of
from opserve_kernels.cases.readers.read import (
    Inexpressible,
    Read,
    Request,
    dtype_named,
    integer,
    layouts_of,
    read_lines,
)
from opserve_kernels.cases.suite import CASES_LIMIT
from opserve_kernels.errors import rejection
from opserve_kernels.operators.convolution_backward.cases.calls import (
    EVERY_GRADIENT,
    ConvolutionCall,
    Mask,
)
from opserve_kernels.tensor import DataType, contiguous_strides

_DTYPES: Mapping[str, DataType] = {
    "f32": DataType.FLOAT,
    "f16": DataType.FLOAT16,
    "bf16": DataType.BF16,
    "f64": DataType.DOUBLE,
}
_DIRECTIONS: Mapping[str, Mask] = {
    "": EVERY_GRADIENT,
    "BWD_D": (True, False, False),
    "BWD_W": (False, True, False),
    "BWD_WB": (False, True, True),
    "BWD_DW": (True, True, False),
}
_NO_BIAS = {"", "undef"}
_DRIVERS: Mapping[str, bool] = {"conv": False, "deconv": True}
# Options of the run and of reports, which do not change what is computed.
_PASSED_OVER = {
    *("mode", "mode-modifier", "match", "impl", "skip-impl", "global-impl", "global-skip-impl"),
    *("alg", "fast-ref", "fast-ref-gpu", "summary", "start", "v", "verbose", "concise", "c"),
    *("perf-template", "repeats-per-prb", "max-ms-per-prb", "fix-times-per-prb", "engine"),
    *("allow-enum-tags-only", "canonical", "cold-cache", "memory-kind", "mem-check", "ctx-init"),
    *("ctx-exe", "cpu-isa-hints", "check-ref-impl", "stream-kind", "num-streams"),
    *("execution-mode", "attr-same-pd-check", "attr-deterministic", "attr-scratchpad"),
}
_NEUTRAL = {"", "strict", "environment"}
"""Values of attributes that change no result."""
_LISTED: tuple[str, ...] = ("dir", "dt", "bia-dt", "stag", "wtag", "dtag", "strides", "mb")
_TYPE = re.compile("bf16|f16|f32|f64|[su]8|s32")  # in a value of the old --cfg
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_REPRO = "__REPRO:"
"""Text that benchdnn prints before the command that repeats a problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """Options before a problem; each is a list of values to combine.

    Attributes:
        transposed: Whether the driver is deconv's.
        values: Values of the options of _LISTED; an option without a value has its default.
        obstacles: Options that cannot be expressed, by name, until --reset.
    """

    transposed: bool = False
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    obstacles: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, name: str) -> tuple[str, ...]:
        """The values of an option."""
        return self.values.get(name, ("",))


def read_benchdnn(text: str, setting: Setting = DEFAULT, most: int = CASES_LIMIT) -> Read:
    """The cases of problem strings.

    Options also apply to the lines below, as in benchdnn's batch files, until --reset. Without
    --dir, all gradients are computed.

    Args:
        text: Options and problems; the drivers' names conv and deconv with or without dashes.
        setting: Profile, kind and tags of the cases.
        most: Limit of the number of calls.
    """
    options = _Options()

    def requests_of(line: str) -> Iterator[Request]:
        nonlocal options
        before, mark, command = line.partition(_REPRO)
        now = _Options() if mark else options
        problems: list[tuple[_Options, str]] = []
        for word in _WORD.findall(command if mark else before):
            if _is_option(word):
                now = _after(now, word)
            else:
                problems.append((now, word))
        options = options if mark else now
        for state, text_of_problem in problems:
            yield from _requests(state, text_of_problem, setting)

    return read_lines(text, requests_of, most)


def _is_option(word: str) -> bool:
    return word.startswith("-") or word in _DRIVERS


def _after(options: _Options, word: str) -> _Options:
    """The options after a word; an option that cannot be expressed prevents later problems."""
    name, _, value = word.lstrip("-").partition("=")
    if name == "batch":
        raise Inexpressible("--batch names a file, and no file is read")
    if name in _DRIVERS:
        return replace(options, transposed=_DRIVERS[name])
    if name == "reset":
        return _Options(transposed=options.transposed)
    if name == "cfg":
        name, value = "dt", ",".join(":".join(_TYPE.findall(one)) for one in value.split(","))
    if name in _LISTED:
        return replace(options, values={**options.values, name: tuple(value.split(","))})
    if name in _PASSED_OVER or re.fullmatch(r"v\d", name):
        return options
    obstacles = {**options.obstacles, name: f"option {word[:64]!r} cannot be expressed"}
    if name.startswith(("attr-", "buffer-prefix")) and value in _NEUTRAL:
        del obstacles[name]
    return replace(options, obstacles=obstacles)


def _requests(options: _Options, text: str, setting: Setting) -> Iterator[Request]:
    for obstacle in options.obstacles.values():
        raise Inexpressible(obstacle)
    problem = problem_of(text)
    for given in product(*(options.of(name) for name in _LISTED)):
        chosen = dict(zip(_LISTED, given, strict=True))
        entries = integer(chosen["mb"], "--mb") if chosen["mb"] else 0
        whole = replace(problem, batch=entries) if entries else problem
        geometry = geometry_of(whole, transposed=options.transposed)
        call = replace(geometry.call, mask=_mask(chosen["dir"], chosen["bia-dt"]))
        call = _in_dtypes(call, chosen["dt"], chosen["bia-dt"])
        yield Request(call=call, setting=_laid_out(geometry, call, chosen, setting))


def _mask(direction: str, bias: str) -> Mask:
    """The gradients of a direction; a bias's dtype adds its own to that of the weight."""
    if direction.upper() not in _DIRECTIONS:
        allowed = ", ".join(name for name in _DIRECTIONS if name)
        raise Inexpressible(
            rejection("--dir", given=direction[:32], allowed=f"gradients: {allowed}")
        )
    to_input, to_weight, to_bias = _DIRECTIONS[direction.upper()]
    return to_input, to_weight, to_bias or (to_weight and bias not in _NO_BIAS)


def _in_dtypes(call: ConvolutionCall, text: str, bias: str) -> ConvolutionCall:
    """Src, wei and dst, or one dtype for all; a gradient has the dtype of its operand."""
    names = (text or "f32").split(":")
    if len(names) not in {1, 3}:
        raise Inexpressible(rejection("--dt", given=text[:32], allowed="one dtype or src:wei:dst"))
    source, weight, output = (dtype_named(name.lower(), _DTYPES) for name in (names * 3)[:3])
    sums = output if bias in _NO_BIAS else dtype_named(bias.lower(), _DTYPES)
    return replace(call, dtypes=(output, source, weight), results=(source, weight, sums))


def _laid_out(
    geometry: Geometry, call: ConvolutionCall, chosen: Mapping[str, str], setting: Setting
) -> Setting:
    tags = (chosen[name] for name in ("stag", "wtag", "dtag"))
    given = (*chosen["strides"].split(":"), "", "")[: len(OPERANDS)]
    shapes = (call.input, call.weight, call.output)
    strides: dict[str, Row] = {}
    for operand, shape, tag, steps in zip(OPERANDS, shapes, tags, given, strict=True):
        found = steps_of(geometry, operand, tag=tag, strides=steps)
        if found is not None and found != contiguous_strides(shape):
            strides[operand] = found
    return replace(setting, layouts=layouts_of(call, strides))
