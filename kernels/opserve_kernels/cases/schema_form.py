"""The arguments of a case as an operator's schema has them."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_type_hints

from opserve_kernels.cases.case import Case, Value

Schema = TypeVar("Schema")


def arguments_of(
    case: Case, schema: type[Schema], handles: Mapping[str, int] | None = None
) -> Schema:
    """The case's call; what it does not give is None.

    Args:
        case: The case.
        schema: Dataclass of the operator's arguments.
        handles: Handles of buffers by tensor; those without have no buffer.

    Raises:
        TypeError: The schema has no such argument.
    """
    buffers = handles or {}
    tensors = {
        name: tensor.tensor(buffer=buffers.get(name, 0)) for name, tensor in case.tensors.items()
    }
    return _filled(schema, case.arguments, tensors)


def _filled(
    schema: type[Schema], given: Mapping[str, Value], tensors: Mapping[str, object]
) -> Schema:
    hints = get_type_hints(schema)
    members = {name: _member(hints.get(name), value) for name, value in given.items()}
    make: Any = schema
    return cast("Schema", make(**members, **tensors))


def _member(hint: object, value: Value) -> object:
    """A mapping as the dataclass that the schema has in its place."""
    if not isinstance(value, Mapping):
        return value
    kinds = [kind for kind in get_args(hint) if kind is not NoneType and is_dataclass(kind)]
    return _filled(cast("type[object]", kinds[0]), value, {}) if kinds else value
