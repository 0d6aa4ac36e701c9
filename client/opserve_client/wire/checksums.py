"""Checksums of the chunks in which bytes travel."""

from collections.abc import Callable
from typing import cast

import google_crc32c

from opserve.v1.memory_service_pb2 import ReadResponse
from opserve_client.errors import corrupted

crc32c = cast(
    "Callable[[bytes], int]",
    google_crc32c.value,  # pyright: ignore[reportUnknownMemberType]  the package has no types
)
"""CRC-32C (Castagnoli)."""


def intact(chunk: ReadResponse) -> bytes:
    """The bytes of a chunk, which are those that were sent.

    Raises:
        AclrtError: 507052, they are others.
    """
    data = chunk.data
    if chunk.HasField("crc32c") and chunk.crc32c != (found := crc32c(data)):
        raise corrupted(given=f"{chunk.crc32c:#010x}", allowed=f"{found:#010x}")
    return data
