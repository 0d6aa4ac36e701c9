"""Attributes of a call: parameters or small tensors, as values of the operator's schema."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from opserve_kernels.description import Parameter
from opserve_kernels.errors import shortened
from opserve_server.calls import malformed
from opserve_server.schemas import nested_schemas

TEXT_CHARACTERS = 1024
"""Characters of a text, at most: parsing JSON of any length would take time."""
ENTRIES = 64
"""Entries of an attribute, at most; no operator accepts more than 8."""
_INT64 = range(-(2**63), 2**63)
_FORMS: Mapping[str, str] = {
    "integer": "an integer of 64 bits",
    "integers": 'a list of integers of 64 bits, or its JSON text, such as "[1,1]"',
    "boolean": "true or false",
    "booleans": 'a list of true and false, or its JSON text, such as "[true,false]"',
    "string": f"a text of at most {TEXT_CHARACTERS} characters",
    "members": "an object, or its JSON text",
}


def attribute(parameter: Parameter, value: object, schema: type, *, inside: str = "") -> Any:  # noqa: ANN401  # of its field's type
    """The value of an attribute for its schema.

    Args:
        parameter: The attribute.
        value: The given value: a bool, number, text, list or dictionary.
        schema: Dataclass with the attribute.
        inside: Name of the attribute that it is a member of, with a dot.

    Raises:
        InvalidArgument: 100000, the value is not of the attribute's kind.
    """
    name, kind = f"{inside}{parameter.name}", parameter.kind
    if isinstance(value, str) and kind != "string":
        value = _from_json(name, kind, value)
    if kind == "members" and isinstance(value, dict):
        given = cast("Mapping[str, object]", value)
        return _members(parameter.members, given, nested_schemas(schema)[parameter.name], name)
    entries = _entries(value)
    if kind in _ENTRIES and entries is not None:
        if len(entries) <= ENTRIES and all(map(_ENTRIES[kind], entries)):
            return tuple(entries)
    elif kind in _SCALARS and _SCALARS[kind](value):
        return value
    # The text of a long list would take time.
    shown = shortened(f"{value}") if entries is None else f"{len(entries)} entries"
    raise malformed(name, given=shown, allowed=_FORMS[kind])


def _entries(value: object) -> "list[object] | None":
    return cast("list[object]", value) if isinstance(value, list) else None


def _members(
    known: Iterable[Parameter], given: Mapping[str, object], schema: type, name: str
) -> object:
    by_name = {member.name: member for member in known}
    unknown = next((key for key in given if key not in by_name), None)
    if unknown is not None:
        raise malformed(name, given=shortened(unknown), allowed=", ".join(by_name))
    values = {
        key: attribute(by_name[key], value, schema, inside=f"{name}.")
        for key, value in given.items()
        if value is not None
    }
    return schema(**values)


def _from_json(name: str, kind: str, text: str) -> object:
    try:
        return json.loads(text) if len(text) <= TEXT_CHARACTERS else None
    except (ValueError, RecursionError):
        raise malformed(name, given=shortened(text), allowed=_FORMS[kind]) from None


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_CHARACTERS


_SCALARS: Mapping[str, Callable[[object], bool]] = {
    "integer": _is_integer,
    "boolean": _is_boolean,
    "string": _is_text,
}
_ENTRIES = {"integers": _is_integer, "booleans": _is_boolean}
