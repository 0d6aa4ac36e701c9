"""Bodies of the Connect API's streams."""

import json
import struct
from typing import Any

END_STREAM = 2


def framed(message: bytes, *, flags: int = 0) -> bytes:
    """A message with its prefix."""
    return struct.pack(">BI", flags, len(message)) + message


def parted(body: bytes) -> tuple[list[bytes], dict[str, Any]]:
    """The messages of a complete stream, and the members of its last one."""
    messages: list[bytes] = []
    while body:
        flags, size = struct.unpack_from(">BI", body)
        message, body = body[5 : 5 + size], body[5 + size :]
        if flags == END_STREAM:
            assert not body, "nothing follows the end"
            return messages, json.loads(message)
        assert flags == 0
        messages.append(message)
    raise AssertionError("the stream has no end")
