"""The front's end of the socket to a worker: frames go out coalesced, messages come in."""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

from opserve_server.pool.messages import PACKET_BYTES_LIMIT, FrameError, Message, decode

QUEUED_PACKETS_LIMIT = 4096

log = logging.getLogger(__name__)


class ChannelOverflowError(OSError):
    """The worker does not read, and too many packets wait for it."""


class Channel:
    """A sequenced-packet socket on the event loop.

    Args:
        end: The connected socket; the channel owns it.
        operators: Names of the operators, in the order that both sides know.
        on_message: Told of each message.
        on_close: Told once that the other end is gone.
    """

    def __init__(
        self,
        end: socket.socket,
        *,
        operators: Sequence[str],
        on_message: Callable[[Message], None],
        on_close: Callable[[], None],
    ) -> None:
        self._end = end
        self._operators = operators
        self._on_message = on_message
        self._on_close = on_close
        self._packets: deque[tuple[bytearray, list[int]]] = deque()
        self._flush_scheduled = False
        self._closed = False
        end.setblocking(False)  # noqa: FBT003  # the socket module's own signature
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(end, self.drain)

    def send(self, frame: bytes, *, fd: int | None = None) -> None:
        """Queues a frame; a copy of a descriptor rides beside it, in order.

        Raises:
            ChannelOverflowError: Too much waits already.
            OSError: There is no room for the copy of the descriptor.
        """
        if self._closed:
            return
        last = self._packets[-1] if self._packets else None
        if last and not last[1] and fd is None and len(last[0]) + len(frame) <= PACKET_BYTES_LIMIT:
            last[0].extend(frame)
        elif len(self._packets) >= QUEUED_PACKETS_LIMIT:
            raise ChannelOverflowError(f"{QUEUED_PACKETS_LIMIT} packets wait for the worker")
        else:
            self._packets.append((bytearray(frame), [] if fd is None else [os.dup(fd)]))
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def drain(self) -> None:
        """Takes in all that the worker has said so far."""
        while not self._closed:
            try:
                packet = self._end.recv(PACKET_BYTES_LIMIT)
            except BlockingIOError:
                return
            except ConnectionResetError:
                # The worker died before it read everything; what it said is behind this error.
                continue
            self._take_in(packet)

    def close(self) -> None:
        """Closes the socket; on_close is not called for it."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._end)
            self._loop.remove_writer(self._end)
            self._end.close()
            while self._packets:
                self._drop_first()

    def _take_in(self, packet: bytes) -> None:
        if not packet:
            self._lost()
            return
        try:
            for message in decode(packet, self._operators):
                self._on_message(message)
        except FrameError:
            log.exception("a worker sent what is no message")
            self._lost()

    def _drop_first(self) -> None:
        _, fds = self._packets.popleft()
        for fd in fds:
            os.close(fd)

    def _flush(self) -> None:
        if self._closed:
            return
        self._loop.remove_writer(self._end)
        self._flush_scheduled = False
        try:
            while self._packets:
                packet, fds = self._packets[0]
                if fds:
                    socket.send_fds(self._end, [packet], fds)
                else:
                    self._end.send(packet)
                self._drop_first()
        except BlockingIOError:
            self._flush_scheduled = True
            self._loop.add_writer(self._end, self._flush)
        except OSError:
            self.drain()  # what the worker said before it died counts
            self._lost()

    def _lost(self) -> None:
        if not self._closed:
            self.close()
            self._on_close()
