"""Streams of messages over Connect: each message has a prefix of its flags and its size."""

import json
import struct
from collections.abc import Iterator

from opserve_client.errors import malformed_answer
from opserve_client.wire.http_errors import from_end

_PREFIX = struct.Struct(">BI")
_END_STREAM = 0b10


def enveloped(message: bytes) -> bytes:
    """Returns a message with its prefix."""
    return _PREFIX.pack(0, len(message)) + message


class Messages:
    """The messages in a stream, from its bytes.

    Args:
        address: Address of the service, for errors.

    Attributes:
        ended: Whether the last message has arrived.
    """

    def __init__(self, address: str) -> None:
        self.ended = False
        self._address = address
        self._unread = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yields the messages that a piece of the stream completes.

        Raises:
            OpserveError: The error at the end of the stream.
        """
        unread = self._unread + piece if self._unread else piece
        begin = 0
        while len(unread) - begin >= _PREFIX.size and not self.ended:
            flags, size = _PREFIX.unpack_from(unread, begin)
            end = begin + _PREFIX.size + size
            if len(unread) < end:
                break
            message = unread[begin + _PREFIX.size : end]
            begin = end
            if flags & _END_STREAM:
                self._end(message)
            else:
                yield message
        self._unread = unread[begin:]

    def close(self) -> None:
        """Ends the stream with its connection.

        Raises:
            OpserveError: The stream is incomplete.
        """
        if not self.ended:
            raise malformed_answer(f"{self._address}: the stream has no end")

    def _end(self, message: bytes) -> None:
        self.ended = True
        try:
            members: object = json.loads(message)
        except (ValueError, RecursionError):
            members = None
        error = from_end(members, address=self._address)
        if error is not None:
            raise error
