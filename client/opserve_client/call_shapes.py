"""Shapes of calls: all of a call but the elements of its arrays, by which its request is known."""

from dataclasses import fields
from functools import cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from opserve_client.data_types import is_dtype_like
from opserve_client.operators import OperatorCall, tensor_fields
from opserve_client.tensors import is_device_tensor

CallShape: TypeAlias = tuple[object, ...]
ValueT = TypeVar("ValueT")
_KNOWN_LIMIT = 32
"""Requests that a session keeps, by their shape: at most 2 MiB."""


def shape_of(call: OperatorCall[Any]) -> CallShape | None:
    """Returns the shape of a call; None if a value has another type than most calls have.

    Two calls of one shape have the same request but for handles and the elements of arrays. The
    shape has the types of values, too: 1 and True are equal, and a call accepts one of them alone.
    """
    kind = type(call)
    parts: list[object] = [kind]
    for name, is_tensor in _arguments(kind, tensor_fields(call)):
        value: object = getattr(call, name)
        part = _tensor(value) if is_tensor else _plain(value)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def remember(known: dict[CallShape, ValueT], shape: CallShape | None, value: ValueT) -> None:
    """Keeps a value by the shape of its call; forgets all when there are too many."""
    if shape is None:
        return
    if len(known) >= _KNOWN_LIMIT:
        known.clear()
    known[shape] = value


@cache
def _arguments(kind: Any, tensors: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:  # noqa: ANN401  a dataclass
    return tuple((field.name, field.name in tensors) for field in fields(kind))


def _tensor(value: object) -> object:
    if value is None:
        return ()
    if type(value) is np.ndarray:
        array: np.ndarray[Any, Any] = value
        return array.shape, array.dtype
    if is_device_tensor(value):
        return value.spec, value.format_follows_call
    return (type(value), value) if is_dtype_like(value) else None


def _plain(value: object) -> object:
    kind = type(value)
    if kind is list or kind is tuple:
        entries: tuple[object, ...] = tuple(value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportUnknownVariableType]  just checked
        kinds = tuple(map(type, entries))
        return (entries, kinds) if _SCALARS.issuperset(kinds) else None
    return (value, kind) if kind in _SCALARS or isinstance(value, int) else None


_SCALARS = frozenset({bool, int, str, type(None)})
