"""Shared-memory transport: a unix socket where clients on this host map the memory of a session.

The socket is in the abstract namespace. A client connects, requests one buffer, and gets one answer
with the descriptor of the buffer's slab. It sends the session's token, which only its owner
received; the guard checks whether that owner may still call. Nothing is awaited here: a buffer that
is not available at once is copied over gRPC or REST.

    request   session (16 bytes), token (16 bytes), buffer (uint32)
    answer    state (uint8), slab (uint64), its bytes (uint64), the buffer's offset (uint64), its
        bytes (uint64); except in states REFUSED and LATER with the slab's descriptor
"""

import asyncio
import logging
import secrets
import socket
import struct
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from opserve_server.calls import ObservedCall, call_id, note_failure
from opserve_server.core.commands import SCOPE
from opserve_server.core.errors import OpserveError
from opserve_server.core.memory_commands import MappedBuffer
from opserve_server.core.observations import Call
from opserve_server.core.service import Service
from opserve_server.guard import Guard

REQUEST = struct.Struct("!16s16sI")
ANSWER = struct.Struct("!BQQQQ")
REFUSED, IDLE, BUSY, LATER = range(4)
"""No such buffer, or not permitted; no work uses it; queued work uses it; retry."""

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: Linux's struct ucred
_NEXT_ACCEPT_S = 0.5  # after the process ran out of descriptors

log = logging.getLogger(__name__)


def new_shared_memory_name() -> str:
    """128 random bits in hexadecimal."""
    return secrets.token_hex(16)


@contextmanager
def serve_shared_memory(
    service: Service, guard: Guard, name: str, *, requests_limit: int, request_timeout_s: float
) -> Generator[None]:
    """Serves the socket inside the block.

    Args:
        service: The core.
        guard: Checks every caller.
        name: The socket is "opserve-" + name, in the abstract namespace.
        requests_limit: Clients at once. One more evicts the oldest client of the user with most, so
            that no user keeps others out.
        request_timeout_s: Seconds until a client must send its request.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as listener:
        listener.bind(f"\0opserve-{name}")
        listener.listen(requests_limit)
        server = _SharedMemoryServer(service, guard, listener, requests_limit, request_timeout_s)
        try:
            yield
        finally:
            server.close()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A connected client without a request: its user, and the timer that disconnects it."""

    uid: int
    timer: asyncio.TimerHandle


class _SharedMemoryServer:
    def __init__(
        self,
        service: Service,
        guard: Guard,
        listener: socket.socket,
        requests_limit: int,
        request_timeout_s: float,
    ) -> None:
        self._service = service
        self._guard = guard
        self._listener = listener
        self._requests_limit = requests_limit
        self._request_timeout_s = request_timeout_s
        self._waiting: dict[socket.socket, _Waiting] = {}  # in the order of connection
        self._loop = asyncio.get_running_loop()
        self._retry_timer: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        for end in list(self._waiting):
            self._close_connection(end)

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            end, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            log.exception("the shared memory accepts no client for %g s", _NEXT_ACCEPT_S)
            self._loop.remove_reader(self._listener)
            self._retry_timer = self._loop.call_later(_NEXT_ACCEPT_S, self._listen)
            return
        if len(self._waiting) >= self._requests_limit:
            self._close_connection(self._eviction_candidate())
        end.setblocking(False)  # noqa: FBT003  # the socket module's own signature
        timer = self._loop.call_later(self._request_timeout_s, self._close_connection, end)
        self._waiting[end] = _Waiting(_user_of(end), timer)
        self._loop.add_reader(end, self._answer, end)

    def _eviction_candidate(self) -> socket.socket:
        users = Counter(waiting.uid for waiting in self._waiting.values())
        ((most, _),) = users.most_common(1)
        return next(end for end, waiting in self._waiting.items() if waiting.uid == most)

    def _answer(self, end: socket.socket) -> None:
        try:
            packet = end.recv(REQUEST.size + 1)
            if len(packet) == REQUEST.size:
                self._send(end, *REQUEST.unpack(packet))
        except OSError as error:  # the client has disconnected, or does not read
            log.debug("a client of the shared memory got no answer: %s", error)
        self._close_connection(end)

    def _send(self, end: socket.socket, session: bytes, token: bytes, buffer: int) -> None:
        call = Call(api="local", method="MapBuffer", request_id=call_id(None), headers={})
        try:
            with ObservedCall(call, self._service.observe):
                mapped = self._map(call, session.hex(), token, buffer)
        except OpserveError:
            end.send(ANSWER.pack(REFUSED, 0, 0, 0, 0))
            return
        if mapped is None:
            end.send(ANSWER.pack(LATER, 0, 0, 0, 0))
            return
        slab = mapped.slab
        state = IDLE if mapped.idle else BUSY
        answer = ANSWER.pack(state, slab.id, slab.size_bytes, mapped.offset, mapped.size_bytes)
        socket.send_fds(end, [answer], [slab.fd])

    def _map(self, call: Call, session: str, token: bytes, buffer: int) -> MappedBuffer | None:
        try:
            owner = self._service.shared_memory_owner(session, token)
            self._guard.check(owner, SCOPE)
            call.principal = owner
            mapped = self._service.map_buffer(owner, session, buffer)
        except OpserveError as error:
            call.outcome = error.status.name
            note_failure(error)
            raise
        call.outcome = "OK"
        return mapped

    def _close_connection(self, end: socket.socket) -> None:
        self._waiting.pop(end).timer.cancel()
        self._loop.remove_reader(end)
        end.close()


def _user_of(end: socket.socket) -> int:
    packed = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int
    _, uid, _ = _CREDENTIALS.unpack(packed)
    return uid
