"""REST connections whose client says nothing, or vanished without a word: they end."""

import asyncio
import socket
from math import ceil

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_PROBES = 3


class Connection(HttpToolsProtocol):
    """uvicorn's, with its limit on the time between two requests before the first one too."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
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
