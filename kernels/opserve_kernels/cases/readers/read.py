"""Results of a reader of another program's lines: cases, and lines that cannot be expressed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from typing import Any

from opserve_kernels.cases.calls import Layout, Row, Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.reading import LINE_CHARACTERS, STORAGE_ELEMENTS, TEXT_CHARACTERS
from opserve_kernels.cases.schema_form import arguments_of
from opserve_kernels.cases.suite import CASES_LIMIT
from opserve_kernels.cases.supported import supported
from opserve_kernels.errors import InvalidArgument, rejection
from opserve_kernels.operator import Operator, PlanOptions
from opserve_kernels.operators import module_of
from opserve_kernels.operators.convolution.cases.calls import LayerCall
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.profiles import PROFILES
from opserve_kernels.tensor import DataType

_DIGITS = 9  # digits of a number in a line, at most


class Inexpressible(ValueError):
    """The reason why a line or a record makes no call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A line that makes no case.

    Attributes:
        line: Its number, from 1.
        text: The line, cut off.
        reason: The reason.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Cases and rejected lines.

    Attributes:
        cases: Calls of convolution_backward, each once.
        refused: Lines that cannot be expressed.
    """

    cases: tuple[Case, ...]
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call that a line requests.

    Attributes:
        call: The geometry.
        setting: Layouts, tags and source.
    """

    call: ConvolutionCall | LayerCall
    setting: Setting


def read_lines(text: str, requests_of: Callable[[str], Iterable[Request]], most: int) -> Read:
    """The cases of all lines; a line with a call that cannot be expressed makes none.

    Args:
        text: Lines; those that are empty or begin with # are skipped.
        requests_of: Function that returns the calls of a line; raises Inexpressible.
        most: Limit of the number of calls; lines beyond it make none.
    """
    cases: dict[str, Case] = {}
    refused: list[Refused] = []
    numbers = count(1)

    def case_of(request: Request, line: str) -> Case:
        if next(numbers) > most:
            raise Inexpressible(f"at most {most} calls are made")
        setting = replace(request.setting, source=line[:TEXT_CHARACTERS])
        return case_from(replace(request, setting=setting))

    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            _check_size(line, number)
            made = [case_of(request, stripped) for request in requests_of(stripped)]
        except Inexpressible as reason:
            excerpt = stripped[:TEXT_CHARACTERS]
            refused.append(Refused(line=number, text=excerpt, reason=str(reason)))
        else:
            cases |= {case.id: case for case in made if case.id not in cases}
    return Read(cases=tuple(cases.values()), refused=tuple(refused))


def _check_size(line: str, number: int) -> None:
    if len(line) > LINE_CHARACTERS or number > CASES_LIMIT:
        limits = f"{LINE_CHARACTERS} characters a line and {CASES_LIMIT} lines"
        raise Inexpressible(f"at most {limits} are read")


def integer(text: str, name: str) -> int:
    """An integer of a line."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS:
        raise Inexpressible(
            rejection(name, given=repr(text[:32]), allowed=f"an integer of {_DIGITS} digits")
        )
    return int(text)


def divided(channels: int, groups: int, name: str) -> int:
    """Channels of one group."""
    if groups < 1 or channels % groups != 0:
        raise Inexpressible(f"{name}: {channels} channels are no multiple of {groups} groups")
    return channels // groups


def case_from(request: Request) -> Case:
    """The case of a call.

    Raises:
        Inexpressible: The call is out of bounds, or its profile rejects it.
    """
    call, setting = request.call, request.setting
    least = min(*call.input, *call.weight, *call.output)
    if least < 1 or min(*call.stride, *call.dilation, 1) < 1 or min(*call.padding, 0) < 0:
        raise Inexpressible(f"sizes, strides or padding are out of range: {_shapes_of(call)}")
    largest = max(prod(call.input), prod(call.weight), prod(call.output))
    if largest > STORAGE_ELEMENTS:
        raise Inexpressible(f"a tensor of {largest} elements, at most {STORAGE_ELEMENTS} are made")
    case = supported(call.case(setting))
    if case is None:
        dtypes = ", ".join(dict.fromkeys(call.dtypes))
        axes = len(call.input) - 2
        raise Inexpressible(f"{setting.profile} has no {axes}-D convolution in {dtypes}")
    return accepted(case)


def accepted(case: Case) -> Case:
    """The case, if its profile accepts the call.

    Raises:
        Inexpressible: The profile rejects the call, or a tensor is too large.
    """
    operator: Operator[Any] = module_of(case.operator, "operator").OPERATOR
    try:
        operator.plan(arguments_of(case, operator.schema), PROFILES[case.profile], PlanOptions())
    except InvalidArgument as error:
        raise Inexpressible(f"{case.profile} rejects the call: {error.message}") from error
    _check_places(case)
    return case


def _check_places(case: Case) -> None:
    """Rejects layouts with vast gaps, and gradients without a place for each element."""
    for name, tensor in case.tensors.items():
        steps, elements = list(tensor.strides or ()), tensor.storage_elements
        if elements > STORAGE_ELEMENTS:
            raise Inexpressible(
                f"{name}: steps {steps} take {elements}, at most {STORAGE_ELEMENTS}"
            )
        if name in case.outputs and tensor.tensor().repeats_elements:
            raise Inexpressible(f"{name}: steps {steps} lead to one element twice")


def _shapes_of(call: ConvolutionCall | LayerCall) -> str:
    return f"input {list(call.input)}, weight {list(call.weight)}, output {list(call.output)}"


def layouts_of(call: ConvolutionCall, strides: Mapping[str, Row]) -> dict[str, Layout]:
    """Layouts of an operand and its gradient, by the operand's name, if the call has them."""
    given: dict[str, Layout] = {}
    for name, steps in strides.items():
        given[name] = Layout(strides=steps)
        if name != "grad_output" and call.mask[("input", "weight").index(name)]:
            given[f"grad_{name}"] = Layout(strides=steps)
    return given


def dtype_named(name: str, names: Mapping[str, DataType]) -> DataType:
    """The dtype with a name."""
    if name not in names:
        raise Inexpressible(rejection("dtype", given=repr(name[:32]), allowed=", ".join(names)))
    return names[name]
