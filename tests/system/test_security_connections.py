"""Unauthenticated connections: input beyond the limits ends them, and others continue."""

import asyncio
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from opserve.v1 import session_service_pb2 as session_pb
from opserve_client import AsyncClient, TlsFiles
from opserve_client.private_service import Addresses, private_service
from system.drills import until

pytestmark = pytest.mark.system
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RESET, SETTINGS, END_HEADERS = 1, 3, 4, 4
RAPID = 20_000


LIMITS = {
    "devices": '["reference"]',
    "connections_per_address_limit": "8",
    "connections_limit": "8",
    "streams_per_connection_limit": "4",
    "chunk_framing_bytes_limit": "4096",
}


@pytest.fixture(scope="module")
def service() -> Iterator[Addresses]:
    with private_service(**LIMITS) as addresses:
        yield addresses


Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(address: str) -> Wire:
    host, _, port = address.rpartition("//")[2].rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def problem_of(wire: Wire) -> dict[str, object]:
    """The problem that a connection ends with."""
    answer = await wire[0].read()
    await close(wire)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head.replace(b"Content-Type", b"content-type"), answer
    problem: dict[str, object] = json.loads(body)
    assert head.split()[1] == str(problem["status"]).encode()
    return problem


async def serves(addresses: Addresses) -> None:
    for address in (addresses.grpc, addresses.rest):
        async with AsyncClient(address, timeout_s=20.0) as client:
            assert len(await client.list_devices()) == 1


async def first_bytes(wire: Wire, size: int) -> bytes:
    """The answer to a connection; empty where the service closed it without one."""
    try:
        return await wire[0].read(size)
    except ConnectionResetError:
        return b""


async def close(wire: Wire) -> None:
    wire[1].close()
    with suppress(ConnectionResetError):
        await wire[1].wait_closed()


async def has_capacity(address: str, said: bytes) -> bool:
    """Whether another connection is answered, now that a service has seen others go."""
    wire = await connected(address)
    wire[1].write(said)
    answer = await first_bytes(wire, 12)
    await close(wire)
    return answer not in (b"", b"HTTP/1.1 503")


HEAD = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = HEAD + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "parameter"),
    [
        (b"\x16\x03\x01 no http\r\n\r\n", 400, "request"),
        (HEAD + b"a: b\r\n" * 200 + b"\r\n", 431, "headers"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 414, "path and query"),
        (b"GET /livez?" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 414, "path and query"),
        (HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400, "request"),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400, "request"),
        (HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "request"),
        (CHUNKED + b"fffffffffffffffff\r\n", 400, "request"),
    ],
)
async def test_an_invalid_request_is_answered_with_a_problem(
    service: Addresses, sent: bytes, status: int, parameter: str
) -> None:
    wire = await connected(service.rest)
    wire[1].write(sent)
    problem = await problem_of(wire)
    assert (problem["status"], problem["parameter"]) == (status, parameter)
    await serves(service)


@pytest.mark.parametrize("piece", [b"1\r\n \r\n", b"1;" + b"e" * 50 + b"\r\n \r\n"])
async def test_a_body_of_too_many_chunks_ends(service: Addresses, piece: bytes) -> None:
    wire = await connected(service.rest)
    wire[1].write(CHUNKED + piece * (4096 // (len(piece) - 1) + 2))
    assert (await problem_of(wire))["parameter"] == "chunks"
    await serves(service)


async def test_a_body_of_few_chunks_is_taken(service: Addresses) -> None:
    reader, writer = await connected(service.rest)
    writer.write(CHUNKED)
    for piece in (b'9\r\n{"profile\r\n', b'e\r\n":"no such one\r\n'):
        writer.write(piece)
        await writer.drain()
    writer.write(b'2\r\n"}\r\n0\r\n\r\n')
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()


async def test_calls_of_tenants_leave_a_connection_for_probes_over_rest(service: Addresses) -> None:
    wires = [await connected(service.rest) for _ in range(8)]
    for _, writer in wires:
        writer.write(CHUNKED)  # a call is at work on each, and waits for its body
    heads = [asyncio.ensure_future(first_bytes(wire, 12)) for wire in wires]
    answered, waiting = await asyncio.wait(heads, return_when=asyncio.FIRST_COMPLETED)
    assert [head.result() for head in answered] == [b"HTTP/1.1 429"]
    probe = await connected(service.rest)
    for _ in range(2):
        probe[1].write(PROBE)
        assert (await first_bytes(probe, 4096)).startswith(b"HTTP/1.1 200")
    for head in waiting:
        assert not head.done(), "no call of a tenant ended for it"
        head.cancel()
    for wire in (probe, *wires):
        await close(wire)
    await until(lambda: has_capacity(service.rest, PROBE))
    await serves(service)


@pytest.mark.slow
async def test_connections_over_grpc_are_limited() -> None:
    with private_service(**LIMITS) as own:  # no other connection is still closing there
        wires = [await connected(own.grpc) for _ in range(9)]
        for _, writer in wires:
            writer.write(PREFACE + frame(SETTINGS))
        answers = [len(await first_bytes(wire, 9)) for wire in wires]
        for wire in wires:
            await close(wire)
        assert sorted(answers) == [0, *[9] * 8], "one more is closed"
        await until(lambda: has_capacity(own.grpc, PREFACE + frame(SETTINGS)))
        await serves(own)


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


async def test_calls_that_are_reset_as_fast_as_they_begin_disturb_no_other_client(
    service: Addresses,
) -> None:
    reader, writer = await connected(service.grpc)
    path = literal(b":path", b"/opserve.v1.SessionService/ListDevices")
    called = b"\x83\x86" + path + literal(b":authority", b"a") + literal(b"te", b"trailers")
    called += literal(b"content-type", b"application/grpc")
    writer.write(PREFACE + frame(SETTINGS))
    try:
        for stream in range(1, 2 * RAPID, 2):
            writer.write(frame(HEADERS, END_HEADERS, stream, called))
            writer.write(frame(RESET, 0, stream, struct.pack("!I", 8)))
            if stream % 1000 == 1:
                await writer.drain()
                await serves(service)
    except ConnectionError:  # the service may disconnect
        pass
    await serves(service)
    writer.close()
    del reader


async def test_too_much_metadata_is_refused(service: Addresses) -> None:
    async with grpc.aio.insecure_channel(service.grpc) as channel:
        untyped: Any = channel
        call = untyped.unary_unary(
            "/opserve.v1.SessionService/ListDevices",
            response_deserializer=session_pb.ListDevicesResponse.FromString,
        )
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await call(b"", metadata=[("x-large", "a" * 20_000)])
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert len((await call(b"")).devices) == 1


@pytest.mark.slow
async def test_a_handshake_that_stalls_ends_on_both_apis(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    pem = f"{tmp_path / 'server.pem'}"
    tls = {"tls_certificate_file": pem, "tls_key_file": pem}
    with private_service(**LIMITS, **tls, handshake_timeout_s="1") as addresses:
        for address in (addresses.grpc, addresses.rest):
            reader, writer = await connected(address)
            writer.write(b"\x16\x03\x01\x02\x00")  # a hello begins, and no more arrives
            async with asyncio.timeout(300):
                await reader.read()
            writer.close()
        async with AsyncClient(addresses.rest, tls=TlsFiles(ca=tmp_path / "ca.pem")) as client:
            assert len(await client.list_devices()) == 1


@pytest.mark.slow
async def test_probes_over_rest_are_answered_beside_idle_connections_of_many_addresses() -> None:
    few = LIMITS | {"connections_per_address_limit": "8", "connections_limit": "12"}
    with private_service(**few) as own:
        host, _, port = own.rest.rpartition("//")[2].rpartition(":")
        idle = [
            await asyncio.open_connection(host, int(port), local_addr=(f"127.0.0.{address}", 0))
            for address in (2, 3, 4)
            for _ in range(8)
        ]
        for address in (1, 2):  # its own, and one that has all it may have
            wire = await asyncio.open_connection(
                host, int(port), local_addr=(f"127.0.0.{address}", 0)
            )
            wire[1].write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await first_bytes(wire, 12) == b"HTTP/1.1 200"
            await close(wire)
        for wire in idle:
            await close(wire)


@pytest.mark.slow
async def test_probes_over_rest_are_answered_beside_slow_readers_of_many_addresses() -> None:
    few = LIMITS | {"connections_per_address_limit": "8", "connections_limit": "12"}
    download = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    loop = asyncio.get_running_loop()
    with private_service(**few) as own, ExitStack() as readers:
        host, _, port = own.rest.rpartition("//")[2].rpartition(":")
        for address in (2, 3) * 6:
            reader = readers.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.bind((f"127.0.0.{address}", 0))
            reader.settimeout(0)
            await loop.sock_connect(reader, (host, int(port)))
            await loop.sock_sendall(reader, download * 4)  # more than the system holds of answers
            assert await loop.sock_recv(reader, 12) == b"HTTP/1.1 200"
        for address in (1, 2):
            wire = await asyncio.open_connection(
                host, int(port), local_addr=(f"127.0.0.{address}", 0)
            )
            wire[1].write(PROBE)
            assert await first_bytes(wire, 12) == b"HTTP/1.1 200"
            await close(wire)
