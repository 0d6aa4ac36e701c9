"""Requests and answers of the Connect transport, against a port with scripted answers."""

import asyncio
import base64
import json
import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from threading import Event
from typing import Any, TypeVar

import pytest
import uvloop
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo

from client.http_service import Received, answer, chunked, scripted
from opserve.v1.conformance_service_pb2 import GetInputsRequest, GetInputsResponse
from opserve.v1.memory_service_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ReadRequest,
    WriteRequest,
)
from opserve.v1.session_service_pb2 import ListDevicesRequest, ListDevicesResponse
from opserve.v1.stream_service_pb2 import StreamEntry, WatchStreamRequest, WatchStreamResponse
from opserve_client.access import access_to
from opserve_client.errors import (
    AclnnError,
    AclrtError,
    CallTimedOut,
    ExecutionFailed,
    OpserveError,
    ServiceUnreachable,
)
from opserve_client.transports import AsyncConnectTransport, ConnectTransport
from opserve_client.wire.conformance_methods import GET_INPUTS
from opserve_client.wire.http_messages import origin_of
from opserve_client.wire.methods import ALLOCATE, LIST_DEVICES, WATCH_STREAM

KEY = "opserve_0123"
DEVICES = ListDevicesResponse(version="7")
LISTED = answer(DEVICES.SerializeToString())
SILENCE = Event()
"""Never set."""
ResultT = TypeVar("ResultT")
Use = Callable[[AsyncConnectTransport], Awaitable[ResultT]]


class Both:
    """The transport of asyncio with the methods of the blocking one.

    Args:
        runs: Runs the coroutine of a call in a new event loop; None for the blocking transport.
    """

    def __init__(self, runs: Callable[[Coroutine[Any, Any, Any]], Any] | None) -> None:
        self._runs = runs

    def run(self, address: str, use: Callable[[Any], Any], **options: Any) -> Any:
        """The result of `use` of a transport, whose generators it consumes."""
        if self._runs is None:
            transport = ConnectTransport(address, **options)
            try:
                return consumed(use(transport))
            finally:
                transport.close()

        async def run() -> Any:
            over = AsyncConnectTransport(address, **options)
            try:
                made = use(over)
                return await made if hasattr(made, "__await__") else [one async for one in made]
            finally:
                await over.close()

        return self._runs(run())


def consumed(made: Any) -> Any:
    return made if isinstance(made, Message) else list(made)


@pytest.fixture(params=[None, asyncio.run, uvloop.run], ids=["blocking", "asyncio", "uvloop"])
def client(request: pytest.FixtureRequest) -> Both:
    return Both(request.param)


def list_devices(transport: Any, *, timeout_s: float = 30.0) -> Any:
    return transport.call(LIST_DEVICES, ListDevicesRequest(), timeout_s=timeout_s)


def test_a_call_is_a_post_of_its_message(client: Both) -> None:
    access = access_to("http://127.0.0.1", api_key=KEY, tls=None, allow_plaintext=None)
    made = AllocateResponse(buffer=3, size_bytes=64)
    with scripted(lambda _: [answer(made.SerializeToString())]) as port:
        request = AllocateRequest(session="s", size_bytes=64)
        found = client.run(
            port.address, lambda it: it.call(ALLOCATE, request, timeout_s=30.0), access=access
        )
    assert found == made
    (sent,) = port.requests
    assert sent.line == "POST /opserve.v1.MemoryService/Allocate HTTP/1.1"
    assert sent.headers == {
        "host": f"127.0.0.1:{port.port}",
        "content-type": "application/proto",
        "connect-protocol-version": "1",
        "connect-timeout-ms": "31000",
        "authorization": f"Bearer {KEY}",
        "content-length": str(len(sent.body)),
    }
    assert AllocateRequest.FromString(sent.body) == request


def test_a_path_of_the_address_precedes_every_path(client: Both) -> None:
    with scripted(lambda _: [LISTED]) as port:
        assert client.run(f"{port.address}/farm/", list_devices) == DEVICES
    assert port.requests[0].line.split()[1] == "/farm/opserve.v1.SessionService/ListDevices"


def test_calls_share_a_connection_and_a_stale_one_is_replaced() -> None:
    ends = [[LISTED], [LISTED, b""], [LISTED]]
    with scripted(lambda _: ends[len(port.requests) - 1]) as port:
        transport = ConnectTransport(port.address)
        for _ in range(2):
            assert list_devices(transport) == DEVICES
        assert port.connections == 1
        (idle,) = transport._http._idle
        idle._socket.settimeout(30)
        assert not idle._socket.recv(1, 2), "the end of the connection has arrived"
        assert list_devices(transport) == DEVICES
        transport.close()
    assert port.connections == 2


async def test_async_calls_share_a_connection_and_a_stale_one_is_replaced() -> None:
    ends = [[LISTED], [LISTED, b""], [LISTED]]
    with scripted(lambda _: ends[len(port.requests) - 1]) as port:
        transport = AsyncConnectTransport(port.address)
        for _ in range(2):
            assert await list_devices(transport) == DEVICES
        assert port.connections == 1
        (idle,) = transport._http._idle
        while not idle.is_stale():  # noqa: ASYNC110  # the end has no event
            await asyncio.sleep(0)
        assert await list_devices(transport) == DEVICES
        await transport.close()
    assert port.connections == 2


def test_a_connection_that_the_service_closes_is_not_used_again(client: Both) -> None:
    closing = answer(DEVICES.SerializeToString(), more="connection: close\r\n")

    def twice(transport: Any) -> Any:
        if isinstance(transport, ConnectTransport):
            return [list_devices(transport), list_devices(transport)]

        async def both() -> list[Any]:
            return [await list_devices(transport), await list_devices(transport)]

        return both()

    with scripted(lambda _: [closing, b""]) as port:
        assert client.run(port.address, twice) == [DEVICES, DEVICES]
    assert port.connections == 2


FRAMINGS = {
    "chunks": [chunked(DEVICES.SerializeToString()[:1], DEVICES.SerializeToString()[1:])],
    "to the end of the connection": [b"HTTP/1.1 200 OK\r\n\r\n" + DEVICES.SerializeToString(), b""],
    "an interim answer": [b"HTTP/1.1 100 Continue\r\n\r\n" + LISTED],
    "byte by byte": [bytes([byte]) for byte in LISTED],
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_an_answer_is_read_in_every_framing(client: Both, framing: str) -> None:
    with scripted(lambda _: FRAMINGS[framing]) as port:
        assert client.run(port.address, list_devices) == DEVICES


def connect_error(**metadata: str) -> bytes:
    info = ErrorInfo(reason="NAME", domain="opserve", metadata=metadata)
    value = base64.b64encode(info.SerializeToString()).rstrip(b"=").decode()
    details = [{"type": "google.rpc.ErrorInfo", "value": value}]
    return json.dumps({"code": "x", "message": "groups is 3", "details": details}).encode()


PROBLEM = {
    "title": "x",
    "status": 400,
    "detail": "groups is 3",
    "code": 161002,
    "reason": "NAME",
    "parameter": "groups",
    "given": "3",
    "allowed": "divisors of 8",
    "request_id": "r1",
}
MEMBERS = {"parameter": "groups", "given": "3", "allowed": "divisors of 8", "request_id": "r1"}
ERROR = connect_error(code="161002", **MEMBERS)
WRITE = WriteRequest(session="a/b", buffer=7, offset=2)
CALLS: dict[str, tuple[Callable[[Any], Any], bytes]] = {
    "call": (list_devices, ERROR),
    "write": (lambda it: it.write(WRITE, memoryview(b"abc"), timeout_s=9.0), b""),
    "read": (lambda it: it.read(ReadRequest(session="s", size_bytes=3), timeout_s=9.0), b""),
    "stream": (lambda it: it.archive(GET_INPUTS, GetInputsRequest(), timeout_s=9.0), ERROR),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_becomes_an_exception_with_all_its_members(client: Both, name: str) -> None:
    use, body = CALLS[name]
    failed = answer(body or json.dumps(PROBLEM).encode(), status=400)
    with scripted(lambda _: [failed]) as port, pytest.raises(AclnnError) as raised:
        client.run(port.address, use)
    error = raised.value
    assert (error.code, error.message, error.name) == (161002, "groups is 3", "NAME")
    assert {name: getattr(error, name) for name in MEMBERS} == MEMBERS


@pytest.mark.parametrize(
    ("sent", "kind", "code"),
    [
        (
            answer(connect_error(code="507015", executor="4"), status=500),
            ExecutionFailed,
            507015,
        ),
        (answer(b"bad gateway", status=502), ServiceUnreachable, 507901),
        (answer(b"{}", status=404), AclrtError, 500000),
        (answer(b'{"detail": "Not Found"}', status=400), AclrtError, 500000),
        (answer(b'{"message": "x", "details": [1]}', status=400), AclrtError, 500000),
        (answer(connect_error(code="none"), status=400), AclrtError, 500000),
        (answer(b"[" * 100_000, status=507), AclrtError, 500000),
        (answer(b"<html>"), AclrtError, 500000),
    ],
)
def test_every_kind_of_answer_has_its_exception(
    client: Both, sent: bytes, kind: type[OpserveError], code: int
) -> None:
    with scripted(lambda _: [sent]) as port, pytest.raises(kind) as raised:
        client.run(port.address, list_devices)
    assert raised.value.code == code
    assert not isinstance(raised.value, ExecutionFailed) or raised.value.executor == 4


@pytest.mark.parametrize(
    "sent",
    [
        [b""],
        [b"HTTP/1.1 200 OK\r\n", b""],
        [LISTED[:-1], b""],
        [chunked(b"abc")[:-3], b""],
        [b"SSH-2.0-x\r\n"],
        [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000],
        [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nx"],
    ],
)
def test_a_broken_connection_has_its_exception(client: Both, sent: list[bytes]) -> None:
    with scripted(lambda _: sent) as port, pytest.raises(ServiceUnreachable) as raised:
        client.run(port.address, list_devices)
    assert raised.value.message.startswith(f"{port.address}: ")


def dripping(_: Received) -> Iterable[bytes]:
    yield b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    while not SILENCE.wait(0.001):
        yield b"1\r\nx\r\n"


def silent(_: Received) -> Iterable[bytes]:
    SILENCE.wait(30)
    yield b""


@pytest.mark.parametrize("answers", [silent, dripping])
def test_the_time_limit_is_for_the_whole_call(
    client: Both, answers: Callable[[Received], Iterable[bytes]]
) -> None:
    with scripted(answers) as port, pytest.raises(CallTimedOut, match="ListDevices: the answer"):
        client.run(port.address, lambda it: list_devices(it, timeout_s=0.05))


NEWS = [WatchStreamResponse(entry=StreamEntry(sequence=number)) for number in (1, 2, 300)]


def framed(message: bytes, *, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(message)) + message


STREAM = b"".join(framed(one.SerializeToString()) for one in NEWS)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_stream_may_break_at_any_byte(client: Both, size: int) -> None:
    body = STREAM + framed(b"{}", flags=2)
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    with scripted(lambda _: [chunked(*parts)]) as port:
        found = client.run(
            port.address, lambda it: it.watch(WATCH_STREAM, WatchStreamRequest(session="s"))
        )
    assert found == NEWS
    (sent,) = port.requests
    assert sent.headers["content-type"] == "application/connect+proto"
    assert "connect-timeout-ms" not in sent.headers
    assert WatchStreamRequest.FromString(sent.body[5:]) == WatchStreamRequest(session="s")


def test_the_pieces_of_a_file_are_those_of_its_messages(client: Both) -> None:
    pieces = [GetInputsResponse(data=b"ab"), GetInputsResponse(data=b"c")]
    body = b"".join(framed(one.SerializeToString()) for one in pieces) + framed(b"{}", flags=2)
    with scripted(lambda _: [chunked(body)]) as port:
        found = client.run(
            port.address, lambda it: it.archive(GET_INPUTS, GetInputsRequest(), timeout_s=9.0)
        )
    assert found == [b"ab", b"c"]


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (framed(b'{"error": ' + ERROR + b"}", flags=2), AclnnError),
        (framed(b'{"error": {}}', flags=2), AclrtError),
        (framed(b"[]", flags=2), AclrtError),
        (framed(b"{", flags=2), AclrtError),
        (b"", AclrtError),
        (b"\0\0\0", AclrtError),
        (framed(b"\xff"), AclrtError),
    ],
)
def test_a_stream_that_ends_otherwise_has_its_exception(
    client: Both, end: bytes, kind: type[OpserveError]
) -> None:
    with scripted(lambda _: [chunked(STREAM + end)]) as port, pytest.raises(kind):
        client.run(port.address, lambda it: it.watch(WATCH_STREAM, WatchStreamRequest(session="s")))


def test_bytes_are_put_with_their_length_and_got_by_range(client: Both) -> None:
    data = bytes(range(256)) * 4000

    def answers(request: Received) -> Iterable[bytes]:
        if request.line.startswith("PUT"):
            return [answer(b'{"size_bytes": 1024000}')]
        return [answer(data, status=206)]

    with scripted(answers) as port:
        written = client.run(
            port.address, lambda it: it.write(WRITE, memoryview(data), timeout_s=30.0)
        )
        place = ReadRequest(session="a/b", buffer=7, offset=2, size_bytes=len(data))
        found = client.run(port.address, lambda it: it.read(place, timeout_s=30.0))
    assert written.size_bytes == 1024000
    assert b"".join(found) == data
    put, got = port.requests
    assert put.line == "PUT /v1/sessions/a%2Fb/buffers/7/content?offset=2 HTTP/1.1"
    assert (put.body, put.headers["content-type"]) == (data, "application/octet-stream")
    assert got.line == "GET /v1/sessions/a%2Fb/buffers/7/content HTTP/1.1"
    assert got.headers["range"] == f"bytes=2-{len(data) + 1}"


async def test_a_cancelled_call_closes_its_connection() -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answers(_: Received) -> Iterable[bytes]:
        if len(port.requests) == 1:
            loop.call_soon_threadsafe(asked.set)
            SILENCE.wait(1)
        return [LISTED]

    with scripted(answers) as port:
        transport = AsyncConnectTransport(port.address)
        waiting = asyncio.ensure_future(list_devices(transport))
        await asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await list_devices(transport) == DEVICES
        await transport.close()
    assert port.connections == 2


async def test_closing_ends_the_calls_that_wait() -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answers(_: Received) -> Iterable[bytes]:
        loop.call_soon_threadsafe(asked.set)
        SILENCE.wait(1)
        return [b""]

    with scripted(answers) as port:
        over = AsyncConnectTransport(port.address)
        waiting = asyncio.ensure_future(list_devices(over))
        await asked.wait()
        await over.close()
        with pytest.raises(ServiceUnreachable):
            await waiting
        asked.clear()
        blocking = ConnectTransport(port.address)
        in_thread = asyncio.ensure_future(asyncio.to_thread(list_devices, blocking))
        await asked.wait()
        blocking.close()
        with pytest.raises(ServiceUnreachable):
            await in_thread


@pytest.mark.parametrize(
    ("url", "host", "port", "prefix"),
    [
        ("http://farm", "farm", 80, ""),
        ("https://farm/", "farm", 443, ""),
        ("http://[::1]:8080/a/b/", "::1", 8080, "/a/b"),
    ],
)
def test_an_address_has_its_host_port_and_path(url: str, host: str, port: int, prefix: str) -> None:
    origin = origin_of(url)
    assert (origin.host, origin.port, origin.prefix) == (host, port, prefix)


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://:80",
        "http://farm:x",
        "http://farm:70000",
        "http://me:pw@farm",
        "http://f?q",
    ],
)
def test_a_malformed_address_is_rejected(url: str) -> None:
    with pytest.raises(OpserveError) as raised:
        ConnectTransport(url)
    assert (raised.value.code, raised.value.parameter) == (107000, "address")
    assert "pw" not in f"{raised.value}{raised.value.given}"
