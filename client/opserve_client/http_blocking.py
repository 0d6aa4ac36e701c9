"""HTTP/1.1 connections for threads; http_async is the counterpart."""

import select
import socket
import ssl
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

from opserve_client.wire.http_messages import (
    CONNECT_LIMIT_S,
    PIECE_BYTES,
    SMALL_BYTES,
    Answer,
    Heads,
    Origin,
    Request,
    failure_of,
    late,
    tune,
)

_ENDLESS_S = 10.0**6
"""Time limit of an answer without one: no service sends nothing for so long."""
_TOLERANCE_S = 0.001
"""Accuracy of time limits, seconds."""


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

    def pieces(self) -> Iterator[bytes]:
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
                self._connection.receive(self._answer, self._deadline, PIECE_BYTES)

    def read(self) -> bytes:
        """Returns the rest of the body."""
        return b"".join(self.pieces())


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

    def call(self, request: Request, *, timeout_s: float) -> tuple[int, bytes]:
        """Sends a request, and returns the status and the body of the answer.

        Args:
            request: The request.
            timeout_s: Time limit in seconds.

        Raises:
            HttpFailure: There is no complete answer, or not in time.
        """
        deadline = time.monotonic() + timeout_s
        connection = self._connected(timeout_s)
        answer = Answer()
        try:
            connection.send(self._heads.of(request), request.body, deadline)
            while not answer.complete:
                connection.receive(answer, deadline, SMALL_BYTES)
        finally:
            self._release(connection, answer)
        return answer.status, answer.take()

    @contextmanager
    def stream(self, request: Request, *, timeout_s: float | None) -> Generator[HttpStream]:
        """Sends a request, and yields the answer once its head is complete.

        An answer that is not read to its end closes its connection.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        connection = self._connected(timeout_s)
        answer = Answer()
        try:
            connection.send(self._heads.of(request), request.body, deadline)
            while not answer.status:
                connection.receive(answer, deadline, SMALL_BYTES)
            yield HttpStream(connection, answer, deadline)
        finally:
            self._release(connection, answer)

    def close(self) -> None:
        """Closes all connections; requests that run fail."""
        self._closed = True
        for connection in list(self._all):
            connection.close()

    def _connected(self, timeout_s: float | None) -> "_Connection":
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if not connection.is_stale():
                return connection
            self._drop(connection)
        connection = _Connection(self._origin, self._context, timeout_s)
        self._all.add(connection)
        return connection

    def _release(self, connection: "_Connection", answer: Answer) -> None:
        if answer.complete and answer.reusable and not self._closed:
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: "_Connection") -> None:
        self._all.discard(connection)
        connection.close()


class _Connection:
    """A connection."""

    def __init__(
        self, origin: Origin, context: ssl.SSLContext | None, timeout_s: float | None
    ) -> None:
        limit_s = CONNECT_LIMIT_S if timeout_s is None else min(timeout_s, CONNECT_LIMIT_S)
        self._limit_s = limit_s
        try:
            self._socket = socket.create_connection((origin.host, origin.port), timeout=limit_s)
            tune(self._socket)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=origin.host)
        except OSError as error:
            raise failure_of(error) from error

    def send(self, head: bytes, body: bytes | memoryview, deadline: float | None) -> None:
        """Sends a request; a service that has answered may end the connection before its end."""
        try:
            self._limit(deadline)
            if len(body) <= SMALL_BYTES:
                self._socket.sendall(head + body)
            else:
                self._socket.sendall(head)
                self._limit(deadline)
                self._socket.sendall(body)
        except TimeoutError:
            raise late() from None
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError as error:
            raise failure_of(error) from error

    def receive(self, answer: Answer, deadline: float | None, size_bytes: int) -> None:
        """Waits for more of an answer."""
        try:
            self._limit(deadline)
            data = self._socket.recv(size_bytes)
        except TimeoutError:
            raise late() from None
        except OSError as error:
            raise failure_of(error) from error
        if data:
            answer.feed(data)
        else:
            answer.end()

    def is_stale(self) -> bool:
        """Returns whether the service has closed the idle connection, or sent what is no answer."""
        if sys.platform == "win32":
            return bool(select.select([self._socket], [], [], 0)[0])
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def close(self) -> None:
        """Closes the connection, also while another thread waits for it."""
        with suppress(OSError):  # it is not connected any more
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _limit(self, deadline: float | None) -> None:
        left_s = _ENDLESS_S if deadline is None else deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        # Setting it is a call of the system, which most calls would make with the same limit.
        if abs(left_s - self._limit_s) > _TOLERANCE_S:
            self._socket.settimeout(left_s)
            self._limit_s = left_s
