"""Protobuf messages in their JSON form (https://protobuf.dev/programming-guides/json).

`google.protobuf.json_format` reads three microseconds per value in one piece, and accepts bytes
that are no base64, so requests are read here.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeVar

import pydantic_core
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from typing_extensions import TypeIs

from opserve_server.calls import malformed
from opserve_server.conformance.calls import LONG_LISTS
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.time_slices import end_slice
from opserve_server.json_slices import check_values, parts_of

MessageT = TypeVar("MessageT", bound=Message)
Path = tuple[str | int, ...]
Reader = Callable[[Any, Path], Any]
_LONG_LISTS: Mapping[str, str] = {
    "opserve.v1.SubmitRequest": "commands",
    **{f"opserve.v1.{kind.__name__}Request": member for kind, member in LONG_LISTS.items()},
}
"""Members that make a message too long to be parsed in one iteration of the event loop."""
_BYTES_AT_ONCE = 4096
"""Serialised bytes converted to JSON in one iteration of the event loop: about a millisecond."""
_FLOAT32_MAX = 3.4028235677973366e38
"""Numbers from here on round to infinity."""
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"-?[0-9]{1,64}(\.[0-9]{1,64})?([eE][+-]?[0-9]{1,4})?")
_NAMED_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


async def read_json(form: Descriptor, kind: type[MessageT], document: bytes) -> MessageT:
    """The message in a JSON document; yields to other calls between parts of a large one.

    Args:
        form: Type of the message.
        kind: Its class.
        document: The document, of any content.

    Raises:
        InvalidArgument: 100000, it is no such message, or has too many values or bytes.
    """
    member = _LONG_LISTS.get(form.full_name)
    if member is None:
        check_values(document, "message")
        return kind(**_fields_in(form, document))
    message: MessageT | None = None
    async for part in parts_of(document, member):
        if message is None:
            message = kind(**_fields_in(form, part))
        else:
            await end_slice()
            before = len(getattr(message, member))
            message.MergeFrom(kind(**_fields_in(form, part, elements_before=before)))
    assert message is not None, "every document has a part"
    return message


async def json_of(message: Message) -> bytes:
    """The JSON form of a message; yields to other calls between parts of a large one."""
    if message.ByteSize() <= _BYTES_AT_ONCE:
        return pydantic_core.to_json(MessageToDict(message))
    rest = type(message)()
    rest.CopyFrom(message)
    members: list[bytes] = []
    for field, values in message.ListFields():
        if field.is_repeated and field.message_type is not None and not _is_map(field):
            rest.ClearField(field.name)
            members.append(b'"%s":[%s]' % (field.json_name.encode(), await _elements(values)))
    inner = pydantic_core.to_json(MessageToDict(rest))[1:-1]
    return b"{%s}" % b",".join([inner, *members] if inner else members)


async def _elements(values: Any) -> bytes:  # noqa: ANN401  # protobuf's container
    texts: list[bytes] = []
    size = 0
    for value in values:
        texts.append(await json_of(value))
        size += value.ByteSize()
        if size > _BYTES_AT_ONCE:
            size = 0
            await end_slice()
    return b",".join(texts)


def _fields_in(form: Descriptor, document: bytes, *, elements_before: int = 0) -> dict[str, Any]:
    try:
        value = pydantic_core.from_json(document)
    except ValueError:
        given = "text that is not JSON, or too deep"
        raise malformed("message", given=given, allowed="an object") from None
    return _members(form, elements_before, value, ())


def _members(form: Descriptor, elements_before: int, value: object, path: Path) -> dict[str, Any]:
    """The fields of a message, for its constructor."""
    if not _is_object(value):
        raise _wrong(path, value, "an object")
    readers = _readers(form)
    found: dict[str, Any] = {}
    chosen: dict[str, str] = {}
    for name, member in value.items():
        reader = readers.get(name)
        if reader is None:
            allowed = ", ".join(field.json_name for field in form.fields) or "no field"
            raise malformed(_dotted((*path, name)), given="an unknown field", allowed=allowed)
        if member is None:
            continue
        field, read = reader
        if field.name in found:
            raise malformed(_dotted((*path, name)), given="two values", allowed="one")
        oneof = field.containing_oneof
        if oneof is not None and chosen.setdefault(oneof.name, name) != name:
            given = f"{chosen[oneof.name]} and {name}"
            raise malformed(_dotted((*path, oneof.name)), given=given, allowed="one of them")
        if field.is_repeated and not _is_map(field):
            found[field.name] = _list(read, elements_before, member, (*path, name))
        else:
            found[field.name] = read(member, (*path, name))
    return found


def _list(read: Reader, elements_before: int, value: object, path: Path) -> list[Any]:
    if not _is_array(value):
        raise _wrong(path, value, "an array")
    return [read(one, (*path, index)) for index, one in enumerate(value, elements_before)]


@cache
def _readers(form: Descriptor) -> Mapping[str, tuple[FieldDescriptor, Reader]]:
    """Fields and their readers, by both names of each."""
    readers = [(field, _reader(field)) for field in form.fields]
    return {
        name: (field, read) for field, read in readers for name in (field.name, field.json_name)
    }


def _reader(field: FieldDescriptor) -> Reader:
    if field.message_type is not None:
        return _map if _is_map(field) else partial(_members, field.message_type, 0)
    if field.enum_type is not None:
        return partial(_enum, field.enum_type)
    return _SCALARS[field.type]


def _is_map(field: FieldDescriptor) -> bool:
    form = field.message_type
    return form is not None and form.GetOptions().map_entry


def _map(value: object, path: Path) -> dict[str, str]:
    """A map of texts, the only kind that the protos have."""
    if not _is_object(value):
        raise _wrong(path, value, "an object")
    return {name: _text(one, (*path, name)) for name, one in value.items()}


def _enum(form: EnumDescriptor, value: object, path: Path) -> int:
    if isinstance(value, str) and value in form.values_by_name:
        number: int = form.values_by_name[value].number
        return number
    if type(value) is int and value in form.values_by_number:
        return value
    raise _wrong(path, value, ", ".join(form.values_by_name))


def _text(value: object, path: Path) -> str:
    if not isinstance(value, str):
        raise _wrong(path, value, "a string")
    return value


def _bool(value: object, path: Path) -> bool:
    if not isinstance(value, bool):
        raise _wrong(path, value, "true or false")
    return value


def _bytes(value: Any, path: Path) -> bytes:  # noqa: ANN401  # JSON
    """Bytes in base64, standard or for URLs, padded or not."""
    try:
        text = value.translate(_OF_URLS).rstrip("=")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (AttributeError, ValueError, binascii.Error):
        raise _wrong(path, value, "bytes in base64") from None


_OF_URLS = str.maketrans("-_", "+/")


def _integer(low: int, high: int, value: Any, path: Path) -> int:  # noqa: ANN401  # JSON
    number = int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if type(number) is not int or not low <= number <= high:
        raise _wrong(path, value, f"an integer from {low} to {high}")
    return number


def _real(limit: float, value: Any, path: Path) -> float:  # noqa: ANN401  # JSON
    if isinstance(value, str):
        if value in _NAMED_NUMBERS:
            return _NAMED_NUMBERS[value]
        value = float(value) if _NUMBER.fullmatch(value) else value
    if type(value) not in {int, float} or not -limit < value < limit:
        raise _wrong(path, value, "a number, NaN, Infinity or -Infinity")
    return float(value)


_INT32, _UINT32 = partial(_integer, -(2**31), 2**31 - 1), partial(_integer, 0, 2**32 - 1)
_INT64, _UINT64 = partial(_integer, -(2**63), 2**63 - 1), partial(_integer, 0, 2**64 - 1)
_SCALARS: Mapping[int, Reader] = {
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
    FieldDescriptor.TYPE_FLOAT: partial(_real, _FLOAT32_MAX),
    FieldDescriptor.TYPE_DOUBLE: partial(_real, math.inf),
    FieldDescriptor.TYPE_BOOL: _bool,
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_BYTES: _bytes,
}


_KINDS: Mapping[type, str] = {dict: "an object", list: "an array", type(None): "null"}


def _is_object(value: object) -> TypeIs[dict[str, Any]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeIs[list[Any]]:
    return isinstance(value, list)


def _wrong(path: Path, value: object, allowed: str) -> InvalidArgument:
    kind = _KINDS.get(type(value))
    given = f"{value}" if kind is None else kind
    return malformed(_dotted(path) or "message", given=given, allowed=allowed)


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))
