"""The arguments of a case in an operator's schema."""

from collections.abc import Mapping
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.cases.reading import refusal, shown
from opserve_kernels.tensor import Tensor

Schema = TypeVar("Schema")
_FORMS: Mapping[object, str] = {
    bool: "true or false",
    int: "an integer",
    str: "text",
    tuple[int, ...]: "an array of integers",
    tuple[bool, ...]: "an array of true and false",
    Tensor: "a member of tensors",
}


def arguments_of(
    case: Case, schema: type[Schema], handles: Mapping[str, int] | None = None
) -> Schema:
    """The case's call; missing arguments are None.

    Args:
        case: The case.
        schema: Dataclass of the operator's arguments.
        handles: Handles of buffers by tensor; tensors without a handle have no buffer.

    Raises:
        InvalidArgument: 100000, the schema has no such argument, or one of another type.
    """
    buffers, types = handles or {}, _types_of(schema)
    for name in case.tensors:
        if types.get(name) is not Tensor:
            allowed = ", ".join(one for one, kind in types.items() if kind is Tensor)
            raise refusal("tensors", given=f"a member {shown(name)}", allowed=allowed)
    tensors = {
        name: tensor.tensor(buffer=buffers.get(name, 0)) for name, tensor in case.tensors.items()
    }
    return cast("Schema", _filled(schema, case.arguments, "arguments", tensors))


def _filled(
    schema: type, given: Mapping[str, Value], place: str, tensors: Mapping[str, Tensor]
) -> object:
    types, members = _types_of(schema), dict[str, object]()
    for name, value in given.items():
        if name not in types:
            allowed = ", ".join(one for one, kind in types.items() if kind is not Tensor)
            raise refusal(place, given=f"a member {shown(name)}", allowed=allowed)
        members[name] = _member(types[name], value, f"{place}.{name}")
    return schema(**members, **tensors)


def _member(kind: Any, value: Value, place: str) -> object:  # noqa: ANN401  # a type
    """A value in the schema's form; a mapping becomes the dataclass of the field."""
    form = _FORMS.get(kind)
    if form is None and isinstance(value, Mapping):
        return _filled(kind, value, place, {})
    if form is None or not _is_of(kind, value):
        raise refusal(place, given=shown(value), allowed=form or "an object")
    return value


def _is_of(kind: Any, value: Value) -> bool:  # noqa: ANN401  # a type
    if get_origin(kind) is not tuple:
        return type(value) is kind
    entry = get_args(kind)[0]
    return isinstance(value, tuple) and all(type(one) is entry for one in value)


def _types_of(schema: type) -> Mapping[str, Any]:
    """Types of the members, without None."""
    return {
        name: next(kind for kind in get_args(hint) if kind is not NoneType)
        for name, hint in get_type_hints(schema).items()
    }
