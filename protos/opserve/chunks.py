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
_SIZE_BYTES_LIMIT = 4  # of a varint up to 256 MiB; a message is far below that
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
        """The message of a chunk and a header's fields, which come behind it."""
        checksum = crc32c(data).to_bytes(_CRC32C_BYTES, "little")
        return b"".join((_start(self._data, len(data)), data, self._checksum, checksum, header))

    def parts(self, message: bytes) -> tuple[memoryview, int, bytes] | None:
        """Data, checksum and all that comes behind them; None where a message begins otherwise."""
        size, start = _size_at(message, len(self._data))
        end = start + size
        rest = end + 1 + _CRC32C_BYTES
        ends = message[end : end + 1] == self._checksum and rest <= len(message)
        if message[: len(self._data)] != self._data or not ends:
            return None
        checksum = int.from_bytes(message[end + 1 : rest], "little")
        return memoryview(message)[start:end], checksum, message[rest:]


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


def _size_at(message: bytes, place: int) -> tuple[int, int]:
    """A varint and where it ends; a size that no message has for what is none."""
    value = 0
    for index, byte in enumerate(message[place : place + _SIZE_BYTES_LIMIT]):
        value |= byte % _LAST << 7 * index
        if byte < _LAST:
            return value, place + index + 1
    return len(message), place
