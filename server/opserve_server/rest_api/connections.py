"""REST connections whose client says nothing, or no end of it, or vanished: they end."""

import asyncio
import socket
from collections.abc import Sequence
from math import ceil

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from opserve_server.certificates import names_in_certificate

CERTIFICATE = "opserve.certificate"
"""Extension of a request's scope: the names in the client certificate that was verified."""
_PROBES = 3


class Connection(HttpToolsProtocol):
    """uvicorn's, which bounds no request's head: here its bytes and its time have a limit each.

    The time is uvicorn's between two requests: within it the head of the next one is here, and
    after the connection was made that of the first. No two pieces of a body are further apart.
    """

    _head_bytes: int | None = None
    """Bytes of a head that has begun and is not complete, but for its first piece."""
    _in_body = False
    _certificate: Sequence[str] = ()

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._certificate = names_in_certificate(transport.get_extra_info("peercert"))
        self._begin_silence()

    @override
    def data_received(self, data: bytes) -> None:
        was_in_head = self._head_bytes is not None
        super().data_received(data)
        if was_in_head and self._head_bytes is not None:
            self._head_bytes += len(data)
            limit = self.config.h11_max_incomplete_event_size
            assert limit is not None, "the service sets it"
            if self._head_bytes > limit:
                self.send_400_response("The head of the request is too large.")
        if not self._at_work:
            self._end_silence_in_time()
        elif self._in_body:
            self._expect_more()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CERTIFICATE: {"names": self._certificate}}
        self._head_bytes = 0

    @override
    def on_headers_complete(self) -> None:
        self._head_bytes = None
        self._at_work = self._in_body = True
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._begin_silence()

    def _begin_silence(self) -> None:
        self._at_work = False
        self._silent_until_s = self.loop.time() + self.timeout_keep_alive
        self._end_silence_in_time()

    def _expect_more(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self._miss_more
        )

    def _miss_more(self) -> None:
        if self.flow.read_paused:  # the service itself takes no more for now
            self._expect_more()
        elif self._in_body:
            self.timeout_keep_alive_handler()

    def _end_silence_in_time(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_at(
            self._silent_until_s, self.timeout_keep_alive_handler
        )


def probe_silent_clients(listener: socket.socket, *, limit_s: float) -> None:
    """Lets the system end accepted connections whose other end does not even acknowledge."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    interval_s = max(ceil(limit_s / (_PROBES + 1)), 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, interval_s),
        (socket.TCP_KEEPINTVL, interval_s),
        (socket.TCP_KEEPCNT, _PROBES),
    ):
        listener.setsockopt(socket.IPPROTO_TCP, option, value)
