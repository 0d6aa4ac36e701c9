"""Unauthenticated gRPC calls: open calls and half messages leave room for other callers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from benchmarks.http2 import FRAME_BYTES, Http2, announced, http2
from opserve_client import AsyncClient
from opserve_client.private_service import Addresses
from system.drills import front_memory_mib, own_process, tell

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
STRANGER = "127.0.0.2"
CONNECTIONS = 3
STREAMS = 1100
HALF_MESSAGES = 100
WATCHES = 32
LARGEST = 4 * 2**20
MEMORY_MIB = 64
"""Allowed growth of the front by unauthenticated messages; 100 half messages hold 400 MiB."""


@asynccontextmanager
async def connections(addresses: Addresses, *, reads: bool = True) -> AsyncGenerator[list[Http2]]:
    host, _, port = addresses.grpc.rpartition(":")
    async with AsyncExitStack() as stack:
        opening = (http2(host, int(port), source=STRANGER, reads=reads) for _ in range(CONNECTIONS))
        yield [await stack.enter_async_context(one) for one in opening]


async def serves(addresses: Addresses) -> None:
    async with (
        grpc.aio.insecure_channel(addresses.grpc) as channel,
        AsyncClient(addresses.grpc, timeout_s=20.0) as client,
    ):
        health: Any = HealthStub(channel)  # without types
        found = await health.Check(HealthCheckRequest(), timeout=20.0)
        assert found.status == HealthCheckResponse.SERVING
        assert len(await client.list_devices()) == 1


async def ended(made: list[Http2], streams: int) -> None:
    """Waits until the service has ended so many streams."""
    async with asyncio.timeout(60):
        while sum(len(connection.ended) for connection in made) < streams:
            await asyncio.wait(
                [asyncio.ensure_future(connection.change()) for connection in made],
                return_when=asyncio.FIRST_COMPLETED,
            )


@pytest.mark.parametrize(("path", "message"), [(WATCH, announced(0)), (CHECK, b"")])
async def test_unauthenticated_open_calls_leave_room_for_others(path: str, message: bytes) -> None:
    async with (
        own_process(devices='["reference"]', log_level="ERROR") as (_, addresses),
        connections(addresses) as made,
    ):
        for number in range(STREAMS):
            connection = made[number % CONNECTIONS]
            await connection.send(connection.begin(path), message)
        await serves(addresses)
        await ended(made, STREAMS - 64)


@pytest.mark.parametrize("path", [WATCH, CHECK])
async def test_unread_unauthenticated_answers_are_few_and_leave_room_for_others(path: str) -> None:
    async with (
        own_process(devices='["reference"]', log_level="ERROR") as (process, addresses),
        connections(addresses, reads=False) as made,
    ):
        for number in range(STREAMS):
            connection = made[number % CONNECTIONS]
            await connection.send(connection.begin(path), announced(0))
        await serves(addresses)
        await ended(made, STREAMS - 64)
        process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == 0


async def test_unauthenticated_disconnections_write_no_line_of_the_log() -> None:
    async with own_process(devices='["reference"]', log_level="ERROR") as (process, addresses):
        async with connections(addresses, reads=False) as made:
            for number in range(STREAMS):
                connection = made[number % CONNECTIONS]
                await connection.send(connection.begin(CHECK), announced(0))
            await ended(made, STREAMS - 64)
        await serves(addresses)
        process.terminate()
        _, lines = await process.communicate()
        assert lines == b""


async def test_idle_unauthenticated_connections_end_and_leave_room_for_others() -> None:
    limits = {"connections_limit": str(CONNECTIONS), "silent_client_limit_s": "1"}
    async with (
        own_process(devices='["reference"]', log_level="ERROR", **limits) as (_, addresses),
        connections(addresses) as made,
        asyncio.timeout(60),
    ):
        for connection in made:
            while not connection.closed:
                await connection.change()
        await serves(addresses)


async def test_an_old_connection_ends_with_its_calls() -> None:
    limits = {"connection_age_limit_s": "1", "watch_limit_s": "1"}
    async with (
        own_process(devices='["reference"]', log_level="ERROR", **limits) as (_, addresses),
        connections(addresses, reads=False) as (connection, *_),
    ):
        await connection.send(connection.begin(CHECK), announced(0))
        async with asyncio.timeout(60):
            while not connection.closed:
                await connection.change()


@pytest.mark.parametrize(("count", "frame_bytes"), [(HALF_MESSAGES, FRAME_BYTES), (6, 24)])
async def test_incomplete_unauthenticated_messages_take_little_memory(
    count: int, frame_bytes: int
) -> None:
    async with (
        own_process(devices='["reference"]', log_level="ERROR") as (process, addresses),
        connections(addresses) as made,
    ):
        before = front_memory_mib(process)
        half = announced(LARGEST) + bytes(LARGEST - 1)
        for number in range(count):
            connection = made[number % CONNECTIONS]
            await connection.send(connection.begin(CHECK), half, frame_bytes=frame_bytes)
        await serves(addresses)
        more = front_memory_mib(process) - before
        tell(f"{count} half messages of strangers: the front larger by", more, "MiB")
        assert more < MEMORY_MIB


async def test_bytes_behind_unauthenticated_messages_take_little_memory() -> None:
    async with (
        own_process(devices='["reference"]', log_level="ERROR") as (process, addresses),
        connections(addresses) as (connection, *_),
    ):
        # Traffic by which gRPC estimates the bandwidth, and would make its windows wider.
        for _ in range(6):
            await connection.send(connection.begin(CHECK), announced(LARGEST) + bytes(LARGEST - 1))
        before = front_memory_mib(process)
        sent, watches = 0, list[int]()
        for _ in range(WATCHES):
            watches.append(watch := connection.begin(WATCH))
            await connection.send(watch, announced(0))
            await serves(addresses)
            size = connection.room(watch)
            await connection.send(watch, (announced(LARGEST) + bytes(size))[:size])
            sent += size
        await serves(addresses)
        more = front_memory_mib(process) - before
        assert not connection.ended.intersection(watches)
        tell("bytes behind messages of strangers", sent / 2**20, "MiB")
        tell("bytes behind messages of strangers: the front larger by", more, "MiB")
        assert more < MEMORY_MIB
