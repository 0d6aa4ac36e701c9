"""Connections whose request never gets to an end: bounded in bytes and in time."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from unittest import mock

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from opserve_server.rest_api import connections
from opserve_server.rest_api.connections import Connection, ConnectionLimits, unread_bytes
from simulation.virtual_time import VirtualTimeLoop

LIMIT_S = 30
HEAD_BYTES = 1024
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await Response(body)(scope, receive, send)


class Wire:
    """A connection and what it wrote."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        config = uvicorn.Config(
            echo,
            http=Connection,
            lifespan="off",
            log_config=None,
            timeout_keep_alive=LIMIT_S,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        config.load()
        limits = limits or ConnectionLimits(
            headers=50, target_bytes=64, framing_bytes=1024, per_peer=1, in_all=1
        )
        self.end = Connection(
            config=config, server_state=ServerState(), app_state={}, limits=limits
        )
        self.transport = mock.Mock(spec=asyncio.Transport)
        self.transport.is_closing.side_effect = lambda: self.transport.close.called
        self.transport.writelines.side_effect = self._write_all
        self.transport.get_extra_info.return_value = None
        self.end.connection_made(self.transport)

    def _write_all(self, data: Sequence[bytes]) -> None:
        self.transport.write(b"".join(data))

    @property
    def closed(self) -> bool:
        return bool(self.transport.close.called)

    @property
    def answers(self) -> list[bytes]:
        told = b"".join(call.args[0] for call in self.transport.write.call_args_list)
        return [answer[:3] for answer in told.split(b"HTTP/1.1 ")[1:]]


def in_virtual_time(test: Callable[[], Coroutine[None, None, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(test())


def test_a_head_that_grows_and_grows_is_refused() -> None:
    async def test() -> None:
        wire = Wire()
        wire.end.data_received(HEAD)
        for _ in range(HEAD_BYTES // 64 + 1):
            assert not wire.closed
            wire.end.data_received(b"X-Long: " + b"a" * 54 + b"\r\n")
        assert wire.closed
        assert wire.answers == [b"431"]

    in_virtual_time(test)


@pytest.mark.parametrize("before", [b"", HEAD + b"\r\n"])
@pytest.mark.parametrize("piece", [b"G", b"\r\n"])
def test_a_head_that_comes_too_slowly_ends_its_connection(before: bytes, piece: bytes) -> None:
    async def test() -> None:
        wire = Wire()
        wire.end.data_received(before)
        await asyncio.sleep(LIMIT_S - 1)
        assert not wire.closed
        wire.end.data_received(piece)
        await asyncio.sleep(2)
        assert wire.closed

    in_virtual_time(test)


def test_a_body_that_stalls_ends_its_connection_and_a_slow_one_does_not() -> None:
    async def test() -> None:
        wire = Wire()
        wire.end.data_received(HEAD + b"Content-Length: 4\r\n\r\n")
        for _ in range(3):
            await asyncio.sleep(LIMIT_S - 1)
            wire.end.data_received(b"a")
        assert not wire.closed
        await asyncio.sleep(LIMIT_S + 1)
        assert wire.closed

    in_virtual_time(test)


def test_a_client_that_asks_in_time_stays_for_any_number_of_requests() -> None:
    async def test() -> None:
        wire = Wire()
        for _ in range(2 * HEAD_BYTES // len(HEAD)):
            wire.end.data_received(HEAD)
            await asyncio.sleep(LIMIT_S - 1)
            wire.end.data_received(b"\r\n")
            await asyncio.sleep(0.5)
        wire.end.data_received((HEAD + b"\r\n") * 2)
        await asyncio.sleep(0.5)
        assert not wire.closed
        assert set(wire.answers) == {b"200"}
        assert len(wire.answers) == 2 * HEAD_BYTES // len(HEAD) + 2

    in_virtual_time(test)


def test_what_is_held_is_dropped_with_its_connection() -> None:
    async def test() -> None:
        wire = Wire()
        wire.end.transport.write(b"held")
        wire.end.connection_lost(ConnectionResetError())
        wire.transport.write.side_effect = AssertionError("the handle is closed")
        failed = mock.Mock()
        asyncio.get_running_loop().set_exception_handler(failed)
        await asyncio.sleep(0)
        failed.assert_not_called()

    in_virtual_time(test)


def test_a_client_that_reads_nothing_of_an_answer_is_cut_off_and_a_slow_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = 1000

    def unread(_: asyncio.Transport) -> int:
        return left

    monkeypatch.setattr(connections, "unread_bytes", unread)

    async def test() -> None:
        nonlocal left
        wire = Wire()
        wire.end.data_received(HEAD + b"\r\n")
        wire.end.pause_writing()
        for _ in range(3):
            await asyncio.sleep(LIMIT_S - 1)
            left -= 1
        assert not wire.transport.abort.called
        wire.end.resume_writing()
        await asyncio.sleep(3 * LIMIT_S)
        assert not wire.transport.abort.called
        wire.end.pause_writing()
        await asyncio.sleep(LIMIT_S + 1)
        assert wire.transport.abort.called

    in_virtual_time(test)


def test_what_the_system_holds_of_an_answer_is_not_read() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(bytes(1000))
        transport = mock.Mock(spec=asyncio.Transport)
        transport.get_extra_info.return_value = one
        transport.get_write_buffer_size.return_value = 24
        assert unread_bytes(transport) >= 1024
        other.recv(1000)
        assert unread_bytes(transport) == 24


def test_an_address_is_forgotten_with_its_last_connection() -> None:
    async def test() -> None:
        limits = ConnectionLimits(
            headers=50, target_bytes=64, framing_bytes=1024, per_peer=2, in_all=2
        )
        first, second = Wire(limits), Wire(limits)
        assert list(limits.open) == [first.end, second.end]
        first.end.connection_lost(None)
        assert list(limits.open) == [second.end]
        second.end.connection_lost(None)
        assert not limits.open

    in_virtual_time(test)
