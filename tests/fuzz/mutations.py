"""Requests as no client writes them: valid ones changed by descriptors and by their bytes."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

NUMBERS: Sequence[int] = (
    *(0, 1, 2, -1, 7, 8, 9, 255, 256, 2**15, 2**16),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**31), -(2**63)),
    2**64 - 1,
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "a", "\0", "a\r\nb: c", "../../etc/passwd", "%s%n{0}", "\u202e\u0007", "é" * 300)
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_DEEPEST = 6


def made(kind: Descriptor, **fields: object) -> Message:
    """A message of a kind."""
    factory: Any = message_factory.GetMessageClass(kind)
    message: Message = factory(**fields)
    return message


def fill(message: Message, source: random.Random, *, keep: Callable[[str], object]) -> None:
    """Sets fields at random, to the numbers at which arithmetic breaks.

    Args:
        message: Changed.
        source: Of chance.
        keep: A value for a field of that name that should be right most often, or None.
    """
    _fill(message, source, keep, _DEEPEST)


def _fill(message: Any, source: random.Random, keep: Callable[[str], object], depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        right = keep(field.name)
        if right is not None and source.random() < 0.9:
            setattr(message, field.name, right)
        elif source.random() < 0.5:
            continue
        elif field.message_type is not None and depth:
            _fill_inner(message, field, source, keep, depth)
        elif field.message_type is None:
            _set(message, field, source)


def _fill_inner(
    message: Any,
    field: FieldDescriptor,
    source: random.Random,
    keep: Callable[[str], object],
    depth: int,
) -> None:
    part, inner = getattr(message, field.name), field.message_type
    assert inner is not None, "the caller has looked"
    if field.is_repeated:
        for _ in range(source.choice((1, 1, 2, 5))):
            if inner.GetOptions().map_entry:
                name, value = inner.fields
                if value.message_type is None:
                    part[_value(name, source)] = _value(value, source)
                else:
                    _fill(part[_value(name, source)], source, keep, depth - 1)
            else:
                _fill(part.add(), source, keep, depth - 1)
        return
    part.SetInParent()
    _fill(part, source, keep, depth - 1)


def _set(message: Any, field: FieldDescriptor, source: random.Random) -> None:
    if field.is_repeated:
        count = source.choice((0, 1, 2, 3, 4, 4, 5, 9, 40))
        getattr(message, field.name).extend(_value(field, source) for _ in range(count))
    else:
        setattr(message, field.name, _value(field, source))


def _value(field: FieldDescriptor, source: random.Random) -> object:
    kind = field.cpp_type
    if kind in _RANGES:
        low, high = _RANGES[kind]
        small = source.random() < 0.6
        chosen = source.randint(0, 16) if small else source.choice(NUMBERS)
        return min(max(chosen, low), high)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return source.random() < 0.5
    if kind in {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}:
        return source.choice(FLOATS)
    text = source.choice(TEXTS)
    return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text


def broken(data: bytes, source: random.Random) -> bytes:
    """Bytes of a message, cut, doubled, changed, or with parts that no message has."""
    return source.choice(_WAYS)(data, source)


def _cut(data: bytes, source: random.Random) -> bytes:
    return data[: source.randint(0, len(data))]


def _changed(data: bytes, source: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(source.choice((1, 2, 8))):
        changed[source.randrange(len(changed))] = source.randrange(256)
    return bytes(changed)


def _doubled(data: bytes, source: random.Random) -> bytes:
    return data * source.choice((2, 3, 50))


def _unknown(data: bytes, source: random.Random) -> bytes:
    number = source.choice((1, 15, 16, 2000, 2**29 - 1))
    return data + _varint(number << 3 | source.randrange(8)) + source.randbytes(8)


def _oversized(data: bytes, source: random.Random) -> bytes:
    length = source.choice((2**31 - 1, 2**32, 2**63, 2**64 - 1, len(data) + 1))
    return data + b"\x0a" + _varint(length) + data


def _deep(data: bytes, source: random.Random) -> bytes:
    for _ in range(source.choice((90, 110, 1000))):
        data = b"\x12" + _varint(len(data)) + data
    return data


_WAYS: Sequence[Callable[[bytes, random.Random], bytes]] = (
    *(_cut, _changed, _doubled, _unknown, _oversized, _deep),
)


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
