"""A gRPC connection ends by its age, and its clients go on in another."""

import asyncio

import pytest

from benchmarks.http2 import http2
from opserve_client import AsyncClient, AsyncSession
from opserve_client.private_service import Addresses
from system.drills import long_work, own_process

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]
AGES = 2
DATA = bytes(range(256)) * 2**14


async def connections_end(addresses: Addresses) -> None:
    """Waits until as many connections have ended by their age, one after the other."""
    host, _, port = addresses.grpc.rpartition(":")
    for _ in range(AGES):
        async with http2(host, int(port)) as connection:
            while not connection.closed:
                await connection.change()


async def transfers(session: AsyncSession, until: asyncio.Task[None]) -> None:
    buffer = await session.allocate(len(DATA))
    while not until.done():
        await buffer.write(DATA)
        assert await buffer.read() == DATA


async def test_transfers_watches_and_sessions_resume_in_another_connection() -> None:
    limits = {"connection_age_limit_s": "1", "watch_limit_s": "1", "shared_memory": "false"}
    async with (
        own_process(log_level="ERROR", **limits) as (_, addresses),
        AsyncClient(addresses.grpc) as client,
        client.open_session() as session,
    ):
        work = await long_work(session)
        aging = asyncio.create_task(connections_end(addresses))
        sequences = list[int]()

        async def watch() -> None:
            async for entry in session.default_stream.watch():
                sequences.append(entry.sequence)
                if aging.done():
                    return

        watching = asyncio.create_task(watch())
        async with asyncio.timeout(60):
            await transfers(session, aging)
            await aging
            await work.queue(session, 1)
            await session.default_stream.synchronize()
            await watching
        assert sequences == [1]
