"""Public Python names: the exports of public modules, with the members and parameters of each."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from itertools import takewhile
from typing import Any, is_typeddict

OWN = ("opserve_client", "opserve_kernels", "opserve_server")
MODULES: Mapping[str, tuple[str, ...]] = {
    "opserve_client": (),
    "opserve_client.transports": (),
    "opserve_client.tbe": (),
    "opserve_client.torch": (),
    "opserve_client.conform.record": ("Header", "RunRecord", "read_record"),
    "opserve_client.conform.report.file": ("report_of", "write_report"),
    "opserve_client.conform.writers.badge": ("badge",),
    "opserve_client.conform.writers.metrics": ("metrics",),
    "opserve_kernels.cases.case": ("Case",),
    "opserve_kernels.cases.suite": ("Suite", "read_suite", "write_suite"),
    "opserve_kernels.cases.suites": ("SUITES",),
    "opserve_kernels.verdict.checks": ("check_repeats", "check_untouched"),
    "opserve_kernels.verdict.json_form": ("from_json", "to_json"),
    "opserve_kernels.verdict.judge": ("conclude", "judge", "judge_refusal"),
    "opserve_kernels.verdict.pair": ("Pair",),
    "opserve_kernels.verdict.rounding": ("Rounding",),
    "opserve_kernels.verdict.vendor.grade": ("grade",),
    "opserve_kernels.verdict.vendor.standard": ("Subject",),
    "opserve_kernels.verdict.verdict": ("OutputVerdict", "Status", "Verdict"),
    "opserve_server.settings": ("settings_of_environment",),
}
"""Public modules and their public names; the names of a module without any are its `__all__`."""
CONSTRUCTED = {"Client", "ConnectTransport", "GrpcTransport", "MemoryTransport"}
"""Classes that users construct; dataclasses and dictionaries are constructed of their members."""
INTERNAL = {"format_follows_call", "owner", "sleep", "tensor_fields"}
"""Members and parameters that serve the client itself."""


@dataclass(frozen=True, slots=True)
class Export:
    """An export of a public module.

    Attributes:
        name: Within the module, with parameters where it is called: `to_5hd(array, c0)`.
        members: Of a class, sorted; methods with parameters.
    """

    name: str
    members: tuple[str, ...]


def exports(module: str) -> Iterator[Export]:
    """The exports of a public module."""
    loaded = import_module(module)
    values = {name: getattr(loaded, name) for name in MODULES[module] or loaded.__all__}
    classes = {value for value in values.values() if isinstance(value, type)}
    for name, value in sorted(values.items()):
        if not isinstance(value, type):
            yield Export(name + _parameters(value), ())
        elif name.startswith("Async"):
            # tests/client/test_package.py compares the members.
            yield Export(name, (f"as {name.removeprefix('Async')}",))
        else:
            bases = tuple(one for one in value.__mro__[1:] if one in classes)
            called = _parameters(value) if name in CONSTRUCTED else ""
            yield Export(name + called, (*_kinds(bases), *sorted(_members(value, bases))))


def _kinds(bases: Sequence[type[Any]]) -> list[str]:
    """What `except` and `isinstance` rely on."""
    return [f"is {base.__name__}" for base in bases]


def _members(cls: type[Any], bases: Sequence[type[Any]]) -> set[str]:
    """Public members of a class, but for those of the bases."""
    if is_typeddict(cls):
        return set(cls.__annotations__)
    if is_dataclass(cls) and cls.__module__.startswith("opserve_client.operators."):
        return {field.name for field in fields(cls)}  # other members serve the client
    own = [one for one in cls.__mro__ if one.__module__.startswith(OWN) and one not in bases]
    names = {name for one in own for name in vars(one)}
    names |= {name for one in own for name in _documented_attributes(one)}
    names |= set(cls.__members__) if issubclass(cls, Enum) else set()
    return {
        name + _parameters(getattr(cls, name, None))
        for name in names - INTERNAL
        if not name.startswith("_")
    }


def _documented_attributes(cls: type[Any]) -> Iterator[str]:
    """The names in the part "Attributes" of a docstring."""
    _, _, part = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")
    for line in takewhile(lambda line: not line or line.startswith(" "), part.splitlines()):
        name, colon, _ = line.strip().partition(":")
        if colon and line[4:5].strip():  # not the rest of a sentence, which is indented more
            yield name


def _parameters(value: object) -> str:
    """The parameters in brackets, "" of what is not called."""
    if not (inspect.isroutine(value) or isinstance(value, type)):
        return ""
    names = [name for name in inspect.signature(value).parameters if name not in {"self", "cls"}]
    return f"({', '.join(name for name in names if name not in INTERNAL and name[0] != '_')})"
