"""Connections with an endless request: bounded in bytes and in time."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from unittest import mock

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from opserve_server.core.errors import LimitExceeded
from opserve_server.rest_api import connections
from opserve_server.rest_api.connections import (
    CONNECTION,
    Connection,
    ConnectionLimits,
    OpenConnections,
    unread_bytes,
)
from simulation.virtual_time import VirtualTimeLoop

LIMIT_S = 30
HEAD_BYTES = 1024
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await Response(body)(scope, receive, send)


class Wire:
    """A connection and what it wrote."""

    def __init__(self, connections: OpenConnections | None = None, peer: str = "") -> None:
        config = uvicorn.Config(
            echo,
            http=Connection,
            lifespan="off",
            log_config=None,
            timeout_keep_alive=LIMIT_S,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        config.load()
        self.end = Connection(
            config=config,
            server_state=ServerState(),
            app_state={},
            limits=ConnectionLimits(headers=50, target_bytes=64, framing_bytes=1024),
            connections=(
                OpenConnections(of_address=2, in_all=2) if connections is None else connections
            ),
        )
        self.transport = mock.Mock(spec=asyncio.Transport)
        self.transport.is_closing.side_effect = lambda: self.transport.close.called
        self.transport.writelines.side_effect = self._write_all
        self.transport.get_extra_info.side_effect = {"peername": (peer, 1)}.get
        self.transport.abort.side_effect = partial(self.end.connection_lost, None)
        self.end.connection_made(self.transport)

    def _write_all(self, data: Sequence[bytes]) -> None:
        self.transport.write(b"".join(data))

    @property
    def closed(self) -> bool:
        return bool(self.transport.close.called)

    @property
    def answers(self) -> list[bytes]:
        written = b"".join(call.args[0] for call in self.transport.write.call_args_list)
        return [answer[:3] for answer in written.split(b"HTTP/1.1 ")[1:]]


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
def test_a_head_that_arrives_too_slowly_ends_its_connection(before: bytes, piece: bytes) -> None:
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


def test_a_client_that_sends_requests_in_time_stays_connected() -> None:
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


def test_held_writes_are_dropped_with_their_connection() -> None:
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


def test_bytes_in_system_buffers_do_not_count_as_read() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(bytes(1000))
        transport = mock.Mock(spec=asyncio.Transport)
        transport.get_extra_info.return_value = one
        transport.get_write_buffer_size.return_value = 24
        assert unread_bytes(transport) >= 1024
        other.recv(1000)
        assert unread_bytes(transport) == 24


def of_peers(peers: str, *, of_address: int, in_all: int) -> tuple[OpenConnections, list[Wire]]:
    """Connections of addresses of one letter."""
    connections = OpenConnections(of_address=of_address, in_all=in_all)
    return connections, [Wire(connections, peer) for peer in peers]


def ended(wires: Sequence[Wire]) -> list[int]:
    return [number for number, wire in enumerate(wires) if wire.transport.abort.called]


def begin(wire: Wire) -> None:
    """A call whose body does not arrive."""
    wire.end.data_received(HEAD + b"Content-Length: 4\r\n\r\n")


def serve_tenant(wire: Wire) -> None:
    """A call of a tenant, as the middleware recognises it."""
    begin(wire)
    scope: Any = wire.end.scope
    scope["extensions"][CONNECTION]["serve_tenant"]()


def test_connections_are_forgotten_as_they_are_lost() -> None:
    async def test() -> None:
        connections, wires = of_peers("aab", of_address=2, in_all=4)
        serve_tenant(wires[0])
        for left, wire in zip((2, 1, 0), wires, strict=True):
            wire.end.connection_lost(None)
            assert len(connections) == left

    in_virtual_time(test)


def test_the_longest_idle_connection_of_the_address_with_most_ends_first() -> None:
    async def test() -> None:
        connections, wires = of_peers("baaaa", of_address=5, in_all=5)
        for wire in wires[1:3]:
            begin(wire)
        wires[1].end.data_received(b"body")
        await asyncio.sleep(0.1)
        assert wires[1].answers == [b"200"]
        for expected in ([3], [3, 4], [1, 3, 4]):  # 1 was at work until now, and 2 still is
            Wire(connections, "c")
            assert ended(wires) == expected

    in_virtual_time(test)


def test_the_eldest_connection_at_work_without_a_tenant_ends_where_none_is_idle() -> None:
    async def test() -> None:
        connections, wires = of_peers("abab", of_address=3, in_all=4)
        for wire in wires:
            begin(wire)
        Wire(connections, "c")
        assert ended(wires) == [0]
        Wire(connections, "b")
        assert ended(wires) == [0, 1]
        assert len(connections) == 4

    in_virtual_time(test)


def test_a_connection_that_serves_a_tenant_never_ends_for_another() -> None:
    async def test() -> None:
        connections, wires = of_peers("aaab", of_address=4, in_all=4)
        for wire in wires[:3]:
            serve_tenant(wire)
        wires += [Wire(connections, peer) for peer in "abc"]
        assert ended(wires) == [3, 4, 5]
        for wire in wires[:2]:
            wire.end.data_received(b"body")
        await asyncio.sleep(0.1)
        Wire(connections, "b")
        assert ended(wires) == [0, 3, 4, 5], "its answer is complete"

    in_virtual_time(test)


@pytest.mark.parametrize(("peers", "most"), [("aaaa", 3), ("aabbcc", 5)])
def test_tenants_never_have_the_connections_that_are_kept_for_probes(peers: str, most: int) -> None:
    async def test() -> None:
        _, wires = of_peers(peers, of_address=4, in_all=6)
        for wire in wires[:most]:
            serve_tenant(wire)
        with pytest.raises(
            LimitExceeded, match="connections with calls of tenants, its limit"
        ) as refusal:
            serve_tenant(wires[most])
        assert refusal.value.parameter == "connections"

    in_virtual_time(test)


def test_all_calls_of_a_connection_see_its_disconnection() -> None:
    async def test() -> None:
        seen: list[str] = []

        async def app(_: Scope, receive: Receive, __: Send) -> None:
            while (message := await receive())["type"] != "http.disconnect":
                pass
            seen.append(message["type"])

        wire = Wire()
        wire.end.app = app
        wire.end.data_received((HEAD + b"\r\n") * 2)
        await asyncio.sleep(0)
        wire.end.connection_lost(ConnectionResetError())
        await asyncio.sleep(0)
        assert seen == ["http.disconnect"], "the second one has not begun"

    in_virtual_time(test)
