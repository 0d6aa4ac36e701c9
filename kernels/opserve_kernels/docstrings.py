"""Descriptions in the docstring of a dataclass: its own, and those of its fields."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields

_ENTRY = re.compile(r"(?P<name>\w+): (?P<text>.+)")
_SECTION = "Attributes:\n"


def description_of(dataclass: type) -> str:
    """The docstring without its sections."""
    return inspect.cleandoc(dataclass.__doc__ or "").partition(_SECTION)[0].strip()


def descriptions_of(dataclass: type) -> Mapping[str, str]:
    """Texts of the section "Attributes:" by field, including those of base classes."""
    entries: dict[str, str] = {}
    for base in reversed(dataclass.__mro__[:-1]):
        entries |= _entries(base)
    return entries


def _entries(dataclass: type) -> dict[str, str]:
    section = inspect.cleandoc(dataclass.__doc__ or "").partition(_SECTION)[2]
    names = {field.name for field in fields(dataclass)}  # pyright: ignore[reportArgumentType]  # one
    entries: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(section).splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry and entry["name"] in names:
            name = entry["name"]
            entries[name] = entry["text"]
        else:
            entries[name] += f" {line.strip()}"
    return entries
