"""Cases from benchdnn's problem strings: conv and deconv, with options that say what to do."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from opserve_kernels.cases.calls import DEFAULT, EVERY_GRADIENT, ConvolutionCall, Mask, Row, Setting
from opserve_kernels.cases.forms.form import channels_last
from opserve_kernels.cases.readers.problems import Problem, call_of, problem_of
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
from opserve_kernels.tensor import DataType

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
_PLAIN_TAGS = {"", "any", "abx", "undef"}
_OPERANDS = ("input", "weight", "grad_output")  # in the order of src:wei:dst
_DRIVERS: Mapping[str, bool] = {"conv": False, "deconv": True}
# How the program runs and what it tells, not what it computes.
_PASSED_OVER = {
    *("mode", "match", "impl", "skip-impl", "alg", "fast-ref", "fast-ref-gpu", "summary", "v"),
    *("perf-template", "repeats-per-prb", "max-ms-per-prb", "fix-times-per-prb", "engine"),
    *("allow-enum-tags-only", "canonical", "cold-cache", "verbose", "memory-kind", "ctx-init"),
    *("ctx-exe", "cpu-isa-hints", "check-ref-impl", "stream-kind", "num-streams"),
}
_LISTED = ("dir", "dt", "stag", "wtag", "dtag", "mb")
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What options before a problem say; each is a list of values to be tried by turns.

    Attributes:
        transposed: Whether the driver is deconv's.
        values: Of the options of _LISTED; without a value an option is at its default.
        strides: Of src, wei and dst; empty where they follow from the tags.
        obstacle: What cannot be expressed, until --reset.
    """

    transposed: bool = False
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    strides: tuple[Row, Row, Row] = ((), (), ())
    obstacle: str = ""

    def of(self, name: str) -> tuple[str, ...]:
        """The values of an option."""
        return self.values.get(name, ("",))


def read_benchdnn(text: str, setting: Setting = DEFAULT, most: int = CASES_LIMIT) -> Read:
    """The cases of problem strings.

    Options hold for the lines below too, as in benchdnn's batch files, until --reset. Without
    --dir, all gradients are asked for.

    Args:
        text: Options and problems; the drivers' names conv and deconv with or without dashes.
        setting: Profile, kind and tags of the cases.
        most: Calls that are made.
    """
    options = _Options()

    def requests_of(line: str) -> Iterator[Request]:
        nonlocal options
        problems: list[tuple[_Options, str]] = []
        for word in _WORD.findall(line):
            if _is_option(word):
                options = _after(options, word)
            else:
                problems.append((options, word))
        for state, text_of_problem in problems:
            yield from _requests(state, text_of_problem, setting)

    return read_lines(text, requests_of, most)


def _is_option(word: str) -> bool:
    return word.startswith("-") or word in _DRIVERS


def _after(options: _Options, word: str) -> _Options:
    """The options once a word was read; what cannot be expressed stands in the way of problems."""
    name, _, value = word.lstrip("-").partition("=")
    if name == "batch":
        raise Inexpressible("--batch names a file, and no file is read")
    if name in _DRIVERS:
        options = replace(options, transposed=_DRIVERS[name])
    elif name == "reset":
        options = _Options(transposed=options.transposed)
    elif name in _LISTED:
        options = replace(options, values={**options.values, name: tuple(value.split(","))})
    elif name == "strides":
        options = replace(options, strides=_strides(value))
    elif name not in _PASSED_OVER and not options.obstacle:
        options = replace(options, obstacle=f"option {word[:64]!r} cannot be expressed")
    return options


def _strides(value: str) -> tuple[Row, Row, Row]:
    """Of src, wei and dst: 8x4x2x1:...:..., each of which may be empty."""
    given = value.split(":")
    rows = [
        tuple(integer(step, "--strides") for step in part.split("x")) if part else ()
        for part in (*given, "", "")[:3]
    ]
    return rows[0], rows[1], rows[2]


def _requests(options: _Options, text: str, setting: Setting) -> Iterator[Request]:
    if options.obstacle:
        raise Inexpressible(options.obstacle)
    problem = problem_of(text)
    for direction, dtypes, batch in product(*(options.of(name) for name in ("dir", "dt", "mb"))):
        if direction not in _DIRECTIONS:
            allowed = ", ".join(name for name in _DIRECTIONS if name)
            raise Inexpressible(f"--dir={direction[:32]} is no gradient, allowed {allowed}")
        entries = integer(batch, "--mb") if batch else 0
        made = call_of(_in_batch(problem, entries), transposed=options.transposed)
        call = _in_dtypes(replace(made, mask=_DIRECTIONS[direction]), dtypes)
        tags = product(*(options.of(name) for name in ("stag", "wtag", "dtag")))
        for names in tags:
            yield Request(call=call, setting=_laid_out(call, options, names, setting))


def _in_batch(problem: Problem, entries: int) -> Problem:
    return replace(problem, batch=entries) if entries else problem


def _in_dtypes(call: ConvolutionCall, text: str) -> ConvolutionCall:
    """Src, wei and dst, or one for all; a gradient has the dtype of what it belongs to."""
    if not text:
        return call
    names = text.split(":")
    if len(names) not in {1, 3}:
        raise Inexpressible(f"--dt={text[:32]}, allowed one dtype or src:wei:dst")
    source, weight, output = (dtype_named(name, _DTYPES) for name in (names * 3)[:3])
    return replace(call, dtypes=(output, source, weight), results=(source, weight, output))


def _laid_out(
    call: ConvolutionCall, options: _Options, tags: tuple[str, ...], setting: Setting
) -> Setting:
    shapes = (call.input, call.weight, call.output)
    strides: dict[str, Row] = {}
    for name, shape, tag, steps in zip(_OPERANDS, shapes, tags, options.strides, strict=True):
        if steps and (len(steps) != len(shape) or min(steps) < 0):
            raise Inexpressible(f"--strides: given {list(steps)} for a tensor of {len(shape)} axes")
        if steps:
            strides[name] = steps
        elif tag == "axb":
            strides[name] = channels_last(shape)
        elif tag not in _PLAIN_TAGS:
            raise Inexpressible(f"layout {tag[:32]!r} cannot be expressed, allowed abx and axb")
    return replace(setting, layouts=layouts_of(call, strides))
