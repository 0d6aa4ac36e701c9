"""Messages of a stream: each has a prefix of its flags, a byte, and its size, four bytes."""

import struct
from typing import Any

import pydantic_core

from opserve_server.calls import malformed

_PREFIX = struct.Struct(">BI")
PREFIX_BYTES = _PREFIX.size
_END_STREAM = 0b10


def envelope(message: bytes) -> bytes:
    """A message with its prefix."""
    return _PREFIX.pack(0, len(message)) + message


def end_of_stream(members: dict[str, Any]) -> bytes:
    """The last message of a stream, whose members are `error` and `metadata`."""
    body = pydantic_core.to_json(members)
    return _PREFIX.pack(_END_STREAM, len(body)) + body


def only_message(body: bytes) -> bytes:
    """The message of a body that has one.

    Raises:
        InvalidArgument: 100000, it has none, more than one, part of one, or a compressed one.
    """
    if len(body) < PREFIX_BYTES:
        raise malformed("message", given=f"{len(body)} bytes", allowed="a message with its prefix")
    flags, size = _PREFIX.unpack_from(body)
    if flags:
        raise malformed("message", given=f"the flags {flags}", allowed="no flags")
    if size != len(body) - PREFIX_BYTES:
        given = f"a prefix of {size} bytes before {len(body) - PREFIX_BYTES}"
        raise malformed("message", given=given, allowed="one message of the size in its prefix")
    return body[PREFIX_BYTES:]
