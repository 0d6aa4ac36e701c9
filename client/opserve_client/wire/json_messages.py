"""Conversion of messages to JSON and back, by their descriptors.

An enum is its name without the prefix; Int64Array and BoolArray are plain arrays, bytes are base64,
and every integer is a number. A string that is a JSON object arrives as an object. Absent optional
fields are left out, and so are other fields with default values (0, false, "", unspecified).
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from opserve.v1 import tensor_pb2
from opserve_kernels.errors import rejection

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
MessageT = TypeVar("MessageT", bound=Message)

_PLAIN_ARRAYS = (tensor_pb2.Int64Array, tensor_pb2.BoolArray)
_PLAIN_ARRAY_TYPES = frozenset(array.DESCRIPTOR for array in _PLAIN_ARRAYS)
_ENUM_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def to_json(message: Message) -> dict[str, Json]:
    """Converts a message to a JSON object."""
    return {field.name: _field_to_json(field, value) for field, value in message.ListFields()}


def to_full_json(message: Message) -> dict[str, Json]:
    """Converts a message to a JSON object with all members but absent optional ones."""
    return {
        field.name: _field_to_json(field, getattr(message, field.name), convert=to_full_json)
        for field in fields_of(message)
        if not field.has_presence or message.HasField(field.name)
    }


def from_json(value: Json, message: type[MessageT]) -> MessageT:
    """Converts a JSON object to a message; null means absent, and unknown members are ignored.

    Raises:
        ValueError: The value of a member does not fit its field.
    """
    made = message()
    _fill(made, value)
    return made


def fields_of(message: Message | type[Message]) -> Sequence[FieldDescriptor]:
    """Returns the descriptors of a message's fields."""
    # The stubs declare the descriptors of two implementations with the same members.
    return cast("Sequence[FieldDescriptor]", message.DESCRIPTOR.fields)


def is_map(field: FieldDescriptor) -> bool:
    """Returns whether a field is a map."""
    inside = field.message_type if field.is_repeated else None
    return inside is not None and inside.GetOptions().map_entry


def _field_to_json(
    field: FieldDescriptor,
    value: Any,  # noqa: ANN401  of the field's type
    *,
    convert: Callable[[Message], Json] = to_json,
) -> Json:
    if is_map(field):
        return dict(value)
    if field.is_repeated:
        return [_item_to_json(field, item, convert) for item in value]
    return _item_to_json(field, value, convert)


def _item_to_json(
    field: FieldDescriptor,
    value: Any,  # noqa: ANN401  of the field's type
    convert: Callable[[Message], Json],
) -> Json:
    if field.message_type in _PLAIN_ARRAY_TYPES:
        return list(value.values)
    if field.message_type is not None:
        return convert(value)
    if field.enum_type is not None:
        name = field.enum_type.values_by_number[value].name
        return name.removeprefix(_prefix(field.enum_type))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b64encode(value).decode("ascii")
    plain: Json = value
    return plain


def _fill(message: Message, value: Json) -> None:
    if not isinstance(value, dict):
        raise ValueError(rejection(message.DESCRIPTOR.name, given=repr(value), allowed="an object"))  # noqa: TRY004
    for field in fields_of(message):
        member = value.get(field.name)
        if member is not None:
            try:
                _fill_field(message, field, member)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{field.name}: {error}") from error


def _fill_field(message: Message, field: FieldDescriptor, member: Any) -> None:  # noqa: ANN401
    if is_map(field):
        getattr(message, field.name).update(member)
    elif field.message_type is not None and field.is_repeated:
        for item in member:
            _fill(getattr(message, field.name).add(), item)
    elif field.message_type in _PLAIN_ARRAY_TYPES:
        array = getattr(message, field.name)
        array.SetInParent()
        array.values.extend(member)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
        _fill(getattr(message, field.name), member)
    elif field.is_repeated:
        getattr(message, field.name).extend([_scalar(field, item) for item in member])
    else:
        setattr(message, field.name, _scalar(field, member))


def _scalar(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401  of the field's type
    if field.enum_type is not None:
        name = _prefix(field.enum_type) + value
        if name not in field.enum_type.values_by_name:
            raise ValueError(f"given {value!r}, which is no {field.enum_type.name}")
        return field.enum_type.values_by_name[name].number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b64decode(value, validate=True)
    if field.type == FieldDescriptor.TYPE_STRING and isinstance(value, dict):
        return json.dumps(value)
    return value


def _prefix(enum: EnumDescriptor) -> str:
    return _ENUM_WORD.sub("_", enum.name).upper() + "_"
