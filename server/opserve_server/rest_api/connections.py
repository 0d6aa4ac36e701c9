"""REST connections: limits on clients that are silent, send endlessly, do not read or vanished."""

import asyncio
import fcntl
import json
import socket
import sys
import termios
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import Any, cast

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from opserve_kernels.errors import rejection
from opserve_kernels.status import Status
from opserve_server.certificates import names_in_certificate
from opserve_server.core.errors import LimitExceeded

CONNECTION = "opserve.connection"
"""Extension of a request's scope: `names` in the verified client certificate, and `serve_tenant`,
to call once the caller is a tenant (OpenConnections.serve_tenant)."""
_PROBES = 3
_FOR_PROBES = 16
"""One connection in this many, and at least one, is reserved against calls of tenants."""
_HEAD_END = b"\r\n\r\n"
_TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds on a connection.

    Attributes:
        headers: Headers of one request.
        target_bytes: Its path and query.
        framing_bytes: Bytes of one body beside its content: chunk sizes, chunk extensions and
            trailers; so it bounds the number of chunks too.
    """

    headers: int
    target_bytes: int
    framing_bytes: int


class OpenConnections:
    """All open connections with their addresses.

    One connection too many ends another one that serves no tenant's call: of the same address if
    that has too many, else of the address with most such connections. Among those it is the one
    that has been idle for longest, or else the oldest with a call. Calls of tenants never occupy
    all connections, so that there always is such a connection, and probes are answered.

    Args:
        of_address: Connections of one address at once, at least 2.
        in_all: Connections of all addresses at once, at least 2.
    """

    def __init__(self, *, of_address: int, in_all: int) -> None:
        self._of_address = of_address
        self._in_all = in_all
        # Ordered by their last complete answer, the least recent first.
        self._others: dict[Connection, str] = {}
        self._tenants: dict[Connection, str] = {}

    def __len__(self) -> int:
        return len(self._others) + len(self._tenants)

    def enter(self, connection: "Connection", address: str) -> None:
        """Adds a connection; one too many ends another."""
        addresses = Counter(self._others.values())
        its_tenants = list(self._tenants.values()).count(address)
        if addresses[address] + its_tenants >= self._of_address:
            self._end_one_of(address)
        elif len(self) >= self._in_all:
            self._end_one_of(addresses.most_common(1)[0][0])
        self._others[connection] = address

    def leave(self, connection: "Connection") -> None:
        """Removes a connection."""
        self._others.pop(connection, None)
        self._tenants.pop(connection, None)

    def serve_tenant(self, connection: "Connection") -> None:
        """Reserves a connection for a tenant's call until the call's answer is complete.

        Raises:
            LimitExceeded: 207012, tenants use all connections that they may have.
        """
        address = self._others.get(connection)
        if address is None:  # it has ended
            return
        its_tenants = list(self._tenants.values()).count(address)
        for tenants, limit in ((its_tenants, self._of_address), (len(self._tenants), self._in_all)):
            allowed = limit - max(limit // _FOR_PROBES, 1)
            if tenants >= allowed:
                raise _too_many_tenants(allowed)
        self._tenants[connection] = self._others.pop(connection)

    def complete(self, connection: "Connection") -> None:
        """Records that a connection has completed an answer."""
        address = self._tenants.pop(connection, None) or self._others.pop(connection, None)
        if address is not None:
            self._others[connection] = address

    def _end_one_of(self, address: str) -> None:
        candidates = [one for one, its in self._others.items() if its == address]
        ended = min(candidates, key=lambda one: one.at_work)
        self.leave(ended)
        ended.end()


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with bounds on the bytes and the time of a request's head.

    The time is uvicorn's idle limit between two requests: within it the head of the next request
    must arrive, and after the connection was made that of the first. Two pieces of a body are no
    further apart.

    Args:
        limits: Bounds of each connection.
        connections: All connections.
        others: Arguments of uvicorn.
    """

    _framing_bytes = 0
    """Framing bytes of the current body so far."""
    _head_bytes: int | None = None
    """Bytes of an incomplete head, except its first piece."""
    _in_body = False
    _certificate: Sequence[str] = ()
    _unread_bytes = 0
    """Unread bytes of an answer at the last check, while its client does not read."""
    _reader_look: asyncio.TimerHandle | None = None

    def __init__(
        self,
        *,
        limits: ConnectionLimits,
        connections: OpenConnections,
        **others: Any,  # noqa: ANN401  # uvicorn's
    ) -> None:
        super().__init__(**others)
        self._limits = limits
        self._all = connections
        # Requests whose answer is not complete; all except the first wait for it.
        self._calls = deque[RequestResponseCycle]()

    @property
    def at_work(self) -> bool:
        """Whether a request has begun whose answer is not complete."""
        return bool(self._calls)

    def end(self) -> None:
        """Ends the connection at once, even with unread answers."""
        self._below.abort()

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._below = transport
        self.transport = cast("asyncio.Transport", JoiningTransport(transport, self.loop))
        self._certificate = names_in_certificate(transport.get_extra_info("peercert"))
        self._begin_silence()
        self._end_silence_in_time()
        self._all.enter(self, self.client[0] if self.client else "")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self)
        super().connection_lost(exc)
        for call in self._calls:  # uvicorn checks only the last one
            call.disconnected = True
            call.message_event.set()
        self._forget_reader()
        self.transport.close()  # drops its buffer here, not at the close of its handle

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_bytes = unread_bytes(self._below)
        self._reader_look = self.loop.call_later(self.timeout_keep_alive, self._look_at_reader)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_reader()

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        was_in_head, was_in_body = self._head_bytes is not None, self._in_body
        super().data_received(data)
        if self._in_body:
            head_end = 0 if was_in_body else data.find(_HEAD_END) + len(_HEAD_END)
            self._framing_bytes += len(data) - head_end
        if self._in_body and self._framing_bytes > self._limits.framing_bytes:
            allowed = f"{self._limits.framing_bytes} bytes"
            self._refuse("chunks", "more beside the body", allowed)
        if was_in_head and self._head_bytes is not None:
            self._head_bytes += len(data)
            limit = self.config.h11_max_incomplete_event_size
            assert limit is not None, "the service sets it"
            if self._head_bytes > limit:
                self._refuse("head", "more bytes", f"{limit} bytes", _TOO_LARGE)
        if not self.at_work:
            self._end_silence_in_time()
        elif self._in_body:
            self._expect_more()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        serve_tenant = partial(self._all.serve_tenant, self)
        self.scope["extensions"] = {
            CONNECTION: {"names": self._certificate, "serve_tenant": serve_tenant}
        }
        self._head_bytes = self._framing_bytes = 0

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) == self._limits.headers + 1:
            self._refuse("headers", "more of them", f"{self._limits.headers}", _TOO_LARGE)
            raise ValueError("stops the parser")

    @override
    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.target_bytes:
            allowed = f"{self._limits.target_bytes} bytes"
            self._refuse("path and query", "more bytes", allowed, HTTPStatus.REQUEST_URI_TOO_LONG)
            raise ValueError("stops the parser")

    @override
    def on_body(self, body: bytes) -> None:
        self._framing_bytes -= len(body)
        super().on_body(body)

    @override
    def on_headers_complete(self) -> None:
        self._head_bytes = None
        self._in_body = True
        super().on_headers_complete()
        self._calls.append(self.cycle)

    @override
    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()  # which starts uvicorn's timer, unless another call waits
        self._calls.popleft()
        self._all.complete(self)
        if not self.at_work:
            self._begin_silence()

    @override
    def send_400_response(self, msg: str) -> None:
        self._refuse("request", "bytes that are no HTTP", "HTTP/1.1")

    def _refuse(
        self,
        parameter: str,
        given: str,
        allowed: str,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
    ) -> None:
        """Sends an error where no answer has begun, and ends the connection."""
        if self.transport.is_closing():
            return
        # There is none before the first request, contrary to uvicorn's types.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_problem(parameter, given, allowed, status))
        self.transport.close()

    def _look_at_reader(self) -> None:
        """Ends the connection of a client that has read nothing since the last check."""
        unread = unread_bytes(self._below)
        if unread >= self._unread_bytes:
            self.end()
            return
        self._unread_bytes = unread
        self._reader_look = self.loop.call_later(self.timeout_keep_alive, self._look_at_reader)

    def _forget_reader(self) -> None:
        if self._reader_look is not None:
            self._reader_look.cancel()
            self._reader_look = None

    def _begin_silence(self) -> None:
        self._silent_until_s = self.loop.time() + self.timeout_keep_alive

    def _expect_more(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self._miss_more
        )

    def _miss_more(self) -> None:
        if self.flow.read_paused:  # the service itself has paused reading
            self._expect_more()
        elif self._in_body:
            self.timeout_keep_alive_handler()

    def _end_silence_in_time(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_at(
            self._silent_until_s, self.timeout_keep_alive_handler
        )


def _problem(parameter: str, given: str, allowed: str, status: HTTPStatus) -> bytes:
    """A complete answer for errors outside of any call."""
    problem = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": rejection(parameter, given=given, allowed=allowed),
        "parameter": parameter,
        "given": given,
        "allowed": allowed,
    }
    body = json.dumps(problem).encode()
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\n"
        b"Content-Length: %d\r\nConnection: close\r\n\r\n%s"
    ) % (status.value, status.phrase.encode(), len(body), body)


def _too_many_tenants(allowed: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"The service has {allowed} connections with calls of tenants, its limit: send the call "
        "again when another one has its answer.",
        parameter="connections",
        given="one more with a tenant's call",
        allowed=f"{allowed} at once",
    )


def unread_bytes(transport: asyncio.Transport) -> int:
    """Bytes written to a connection and not yet acknowledged, in any buffer."""
    found = bytearray(4)
    fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, found)
    return transport.get_write_buffer_size() + int.from_bytes(found, sys.byteorder)


def probe_silent_clients(listener: socket.socket, *, limit_s: float) -> None:
    """Makes the system end accepted connections whose other end acknowledges nothing."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    interval_s = max(ceil(limit_s / (_PROBES + 1)), 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, interval_s),
        (socket.TCP_KEEPINTVL, interval_s),
        (socket.TCP_KEEPCNT, _PROBES),
    ):
        listener.setsockopt(socket.IPPROTO_TCP, option, value)


_SMALL_BYTES = 4096
"""Size of a typical head or event; larger pieces are sent at once."""


class JoiningTransport:
    """Transport that joins the head of an answer with data of the same loop iteration.

    Head and body leave as one packet: a second one costs as much as the rest of the call.

    Args:
        transport: The transport below.
        loop: The event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: bytes | None = None

    def write(self, data: bytes) -> None:
        """Holds back a small piece until the next one, or the end of this iteration."""
        held, self._held = self._held, None
        if held is not None:
            # Python 3.12 and later never send an empty piece: the loop would spin until the end.
            self._transport.writelines((held, data) if data else (held,))
        elif len(data) > _SMALL_BYTES:
            self._transport.write(data)
        else:
            self._held = data
            self._loop.call_soon(self._write_held)

    def close(self) -> None:
        """Closes it after everything is written."""
        self._write_held()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether it is closed or closing."""
        return self._transport.is_closing()

    def _write_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._transport.write(held)
