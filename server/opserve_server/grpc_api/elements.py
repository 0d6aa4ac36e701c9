"""A bound on the values of a gRPC message, checked before the message is parsed."""

from collections.abc import Collection, Iterator, Mapping
from functools import cache

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from opserve_server.calls import malformed
from opserve_server.core.time_slices import end_slice

VALUES_LIMIT = 2**17
"""Values of a larger message, at most."""
SMALL_BYTES = 2 * VALUES_LIMIT + 1024
"""Size up to which a message is parsed without counting: 131,584 messages in it, or a chunk of 256
KiB."""
VALUES_AT_ONCE = 2**10
"""Values counted in one iteration of the event loop: about 0.2 ms."""
_VARINT, _FIXED64, _BYTES, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
"""Wire types: https://protobuf.dev/programming-guides/encoding/#structure."""
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4, _START_GROUP: 0, _END_GROUP: 0}
_TEXT_TYPES = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})
_CONTINUED, _VARINT_BYTES = 0x80, 10


async def check_elements(data: bytes, form: Descriptor) -> None:
    """Rejects a message of more than 131,072 values; yields to other calls meanwhile.

    A field counts as one value however long its text or bytes are, and a packed list of numbers as
    its bytes. The parser takes about 40 ns for a value, and some 30 bytes of memory: 4 MiB of empty
    messages would take 70 ms and 90 MiB.

    Args:
        data: The serialised message, of more than SMALL_BYTES, possibly malformed.
        form: Its type.

    Raises:
        InvalidArgument: 100000, it has more.
    """
    if _ends(data) <= 2 * VALUES_LIMIT:
        return
    for values in _counts(data, form):
        if values > VALUES_LIMIT:
            given, allowed = "more", f"at most {VALUES_LIMIT} values"
            raise malformed("message", given=given, allowed=allowed)
        await end_slice()


def _ends(data: bytes) -> int:
    """Bytes that may end a number: each message has two of them, in its tag and its size."""
    return int(np.count_nonzero(np.frombuffer(data, np.int8) >= 0))


def _counts(data: bytes, form: Descriptor) -> Iterator[int]:  # noqa: C901  a call for each field would double its time
    """Values so far, after every VALUES_AT_ONCE of them and at the end, in the order of the wire.

    In a malformed message the count continues after the fault, where the parser stops: so it is
    never less than the number of parsed values. A step here is the whole cost of a message of empty
    messages before it is rejected, hence the branches for numbers of one byte.
    """
    values, pause = 0, VALUES_AT_ONCE
    todo = [(0, len(data), form)]
    while todo:
        place, end, form = todo.pop()
        messages, lists = _nested(form)
        while place < end:
            tag = data[place]
            place += 1
            if tag >= _CONTINUED:
                tag, place = _varint(data, place - 1)
            wire_type = tag & 7
            if wire_type == _BYTES:
                size = data[place] if place < end else 0
                place += 1
                if size >= _CONTINUED:
                    size, place = _varint(data, place - 1)
                if size and tag in messages:
                    rest = place + size, end, form
                    todo += [rest, (place, min(place + size, end), messages[tag])]
                    end = place
                else:
                    place += size
                    if tag in lists:
                        values += size
            elif wire_type == _VARINT:
                _, place = _varint(data, place)
            elif wire_type in _FIXED_BYTES:
                place += _FIXED_BYTES[wire_type]
            else:
                break
            values += 1
            if values >= pause:
                yield values
                pause = values + VALUES_AT_ONCE
    yield values


@cache
def _nested(form: Descriptor) -> tuple[Mapping[int, Descriptor], Collection[int]]:
    """Fields with more than one value, by tag: messages with their types, and packed lists."""
    fields = [field for field in form.fields if field.type not in _TEXT_TYPES]
    messages = {
        field.number << 3 | _BYTES: field.message_type for field in fields if field.message_type
    }
    return messages, {field.number << 3 | _BYTES for field in fields} - messages.keys()


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of at most ten bytes, and the position after it."""
    if place < len(data) and data[place] < _CONTINUED:
        return data[place], place + 1
    value = shift = 0
    for last in range(place, min(place + _VARINT_BYTES, len(data))):
        value |= (data[last] & 0x7F) << shift
        if data[last] < _CONTINUED:
            return value, last + 1
        shift += 7
    return value, place + _VARINT_BYTES
