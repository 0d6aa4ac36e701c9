# ruff: noqa: INP001 (opserve is a namespace package, as protoc makes it)
"""The chunks of MemoryService's streams, without the copies that messages make of their data.

A message is its fields one after another, and a chunk is two of them: data and its CRC-32C. Both
sides write and read chunks of that one form here, and leave any other to the message itself.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import google_crc32c
import numpy as np

_CRC32C_BYTES = 4
_START_BYTES = range(2, 6)  # a tag, and a varint up to 256 MiB; a message is far below that
_LAST = 0x80  # a byte of a varint below it is the last one
_STARTS_LIMIT = 64  # most chunks are as large as they may be

_value = cast(
    "Callable[[object], int]",
    google_crc32c.value,  # pyright: ignore[reportUnknownMemberType]  the package has no types
)


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C (Castagnoli)."""
    return _value(np.frombuffer(data, np.uint8))  # it takes no memoryview, but an array of one


class Fields:
    """Where a message has a chunk.

    Args:
        data: Number of the field of its bytes.
        checksum: Number of the field of their checksum.
    """

    def __init__(self, *, data: int, checksum: int) -> None:
        self._data = bytes([data << 3 | 2])  # length-delimited
        self._checksum = bytes([checksum << 3 | 5])  # four bytes

    def message(self, data: memoryview, header: bytes = b"") -> bytes:
        """The message of a header's fields and a chunk."""
        checksum = crc32c(data).to_bytes(_CRC32C_BYTES, "little")
        return b"".join((header, _start(self._data, len(data)), data, self._checksum, checksum))

    def parts(self, message: bytes) -> tuple[memoryview, int] | None:
        """Data and checksum of a message that is a chunk and nothing else, else None."""
        end = len(message) - _CRC32C_BYTES - 1
        start = _start_before(self._data, end)
        if not (start and message.startswith(start) and message.startswith(self._checksum, end)):
            return None
        data = memoryview(message)[len(start) : end]
        return data, int.from_bytes(message[end + 1 :], "little")


WRITTEN = Fields(data=5, checksum=6)
"""Of WriteRequest."""
READ = Fields(data=1, checksum=2)
"""Of ReadResponse."""


@lru_cache(_STARTS_LIMIT)
def _start(tag: bytes, size_bytes: int) -> bytes:
    """What comes before data of that size."""
    encoded = bytearray(tag)
    while size_bytes >= _LAST:
        encoded.append(size_bytes % _LAST | _LAST)
        size_bytes //= _LAST
    encoded.append(size_bytes)
    return bytes(encoded)


@lru_cache(_STARTS_LIMIT)
def _start_before(tag: bytes, end: int) -> bytes:
    """What comes before data that ends there; nothing where no data does."""
    for length in _START_BYTES:
        if length <= end and len(start := _start(tag, end - length)) == length:
            return start
    return b""
