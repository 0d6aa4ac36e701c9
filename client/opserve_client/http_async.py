"""HTTP/1.1 connections for asyncio; http_blocking is the counterpart."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from typing_extensions import override

from opserve_client.wire.http_messages import (
    CONNECT_LIMIT_S,
    PIECE_BYTES,
    SMALL_BYTES,
    Answer,
    Heads,
    HttpFailure,
    Origin,
    Request,
    failure_of,
    late,
    tune,
)


class HttpStream:
    """An answer whose body is read as it arrives.

    Args:
        connection: Its connection.
        answer: The answer, whose head is complete.
        deadline: Time at which it must be complete; None means no limit.
    """

    def __init__(self, connection: "_Connection", answer: Answer, deadline: float | None) -> None:
        self.status = answer.status
        self._connection = connection
        self._answer = answer
        self._deadline = deadline

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the body in pieces.

        Raises:
            HttpFailure: It does not arrive, or not in time.
        """
        while True:
            piece = self._answer.take()
            if piece:
                yield piece
            elif self._answer.complete:
                return
            else:
                await self._connection.receive(self._deadline)

    async def aread(self) -> bytes:
        """Returns the rest of the body."""
        return b"".join([piece async for piece in self.pieces()])


class HttpConnections:
    """Connections to one service, each of which serves one request at a time.

    Args:
        origin: Place of the service.
        context: TLS; None means none.
    """

    def __init__(self, origin: Origin, context: ssl.SSLContext | None) -> None:
        self._origin = origin
        self._heads = Heads(origin)
        self._context = context
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._closed = False

    async def call(self, request: Request, *, timeout_s: float) -> tuple[int, bytes]:
        """Sends a request, and returns the status and the body of the answer.

        Args:
            request: The request.
            timeout_s: Time limit in seconds.

        Raises:
            HttpFailure: There is no complete answer, or not in time.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        connection = await self._connected(timeout_s)
        answer = Answer()
        try:
            head = self._heads.of(request)
            await connection.send(answer, head, request.body, deadline)
            while not answer.complete:
                await connection.receive(deadline)
        finally:
            self._release(connection, answer)
        return answer.status, answer.take()

    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout_s: float | None
    ) -> AsyncGenerator[HttpStream]:
        """Sends a request, and yields the answer once its head is complete.

        An answer that is not read to its end closes its connection.
        """
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        connection = await self._connected(timeout_s)
        answer = Answer()
        try:
            head = self._heads.of(request)
            await connection.send(answer, head, request.body, deadline)
            while not answer.status:
                await connection.receive(deadline)
            yield HttpStream(connection, answer, deadline)
        finally:
            self._release(connection, answer)

    async def aclose(self) -> None:
        """Closes all connections; requests that run fail."""
        self._closed = True
        for connection in list(self._all):
            connection.close()
        # A transport closes its socket in the next iteration of the event loop.
        await asyncio.sleep(0)

    async def _connected(self, timeout_s: float | None) -> "_Connection":
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            self._drop(connection)
        connection = await _connection_to(self._origin, self._context, timeout_s)
        self._all.add(connection)
        return connection

    def _release(self, connection: "_Connection", answer: Answer) -> None:
        if answer.complete and answer.reusable and not self._closed:
            connection.rest()
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: "_Connection") -> None:
        self._all.discard(connection)
        connection.close()


async def _connection_to(
    origin: Origin, context: ssl.SSLContext | None, timeout_s: float | None
) -> "_Connection":
    limit_s = CONNECT_LIMIT_S if timeout_s is None else min(timeout_s, CONNECT_LIMIT_S)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limit_s):
            _, connection = await loop.create_connection(
                lambda: _Connection(loop), origin.host, origin.port, ssl=context
            )
    except OSError as error:
        raise failure_of(error) from error
    return connection


class _Connection(asyncio.Protocol):
    """A connection.

    Args:
        loop: The event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answer: Answer | None = None
        self._failure: HttpFailure | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport
        self._ended = False
        self._is_full = self._is_paused = False
        self._unread_bytes = 0

    async def send(
        self, answer: Answer, head: bytes, body: bytes | memoryview, deadline: float | None
    ) -> None:
        """Sends a request; its answer, which may be complete before the end of the body, is fed."""
        self._answer = answer
        if len(body) <= SMALL_BYTES:
            self._transport.write(head + body)
            return
        self._transport.write(head)
        for start in range(0, len(body), PIECE_BYTES):
            self._transport.write(body[start : start + PIECE_BYTES])
            while self._is_full and not (self._ended or answer.complete):
                await self._wait(deadline)

    async def receive(self, deadline: float | None) -> None:
        """Waits for more of the answer."""
        self._resume()
        answer = self._answer
        assert answer is not None, "its request was sent"
        if self._failure is None and self._ended:
            answer.end()
        else:
            await self._wait(deadline)

    def rest(self) -> None:
        """Ends the exchange; whatever arrives from now on makes the connection stale."""
        self._answer = None
        self._resume()

    def is_stale(self) -> bool:
        """Returns whether the service has closed the idle connection, or sent what is no answer."""
        return self._ended or self._failure is not None

    def close(self) -> None:
        """Closes the connection, also while a task waits for it."""
        self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # TCP and TLS have such; those of uvloop inherit from no class of asyncio.
        self._transport = cast("asyncio.Transport", transport)
        connected: socket.socket = transport.get_extra_info("socket")
        tune(connected)

    @override
    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self._failure = HttpFailure("the service sent what is no answer")
            return
        try:
            self._answer.feed(data)
        except HttpFailure as failure:
            self._failure = failure
        self._unread_bytes += len(data)
        if self._unread_bytes > PIECE_BYTES and self._answer.status and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        if isinstance(exc, OSError) and not (self._answer and self._answer.complete):
            self._failure = self._failure or failure_of(exc)
        self._wake()

    @override
    def pause_writing(self) -> None:
        self._is_full = True

    @override
    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def _resume(self) -> None:
        self._unread_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, deadline: float | None) -> None:
        """Waits for a change."""
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        timer = None if deadline is None else self._loop.call_at(deadline, self._expire)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        if self._failure is not None:
            raise self._failure

    def _expire(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(late())
