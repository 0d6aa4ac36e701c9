"""Workers and fronts that are killed under work: what survives, and how long it takes."""

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from benchmarks.census import children_of
from opserve.v1.session_service_pb2 import GetSessionRequest
from opserve_client import AsyncClient, OpserveError
from opserve_client.wire.methods import GET_SESSION
from system.drills import EXACT, Process, long_work, own_process, tell, until, workers_of

pytestmark = [pytest.mark.system, pytest.mark.slow]
CALLS = 100
UPLOAD_BYTES = 64 * 2**20
CLEAR = {107017, 507901}
"""The session has ended; the service is unreachable or draining."""


def kill_worker(process: Process) -> int:
    (worker,) = workers_of(process)
    os.kill(worker, signal.SIGKILL)
    return worker


async def test_an_idle_worker_that_is_killed_is_replaced() -> None:
    async with (
        own_process() as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        client.open_session() as session,
    ):
        work = await long_work(session)
        begun = asyncio.get_running_loop().time()
        killed = kill_worker(process)
        await work.queue(session, 1)
        await session.default_stream.synchronize()
        took_s = asyncio.get_running_loop().time() - begun
        tell("worker killed idle: the next call done after", took_s)
        assert await work.out() == EXACT
        assert workers_of(process) != [killed]


async def test_no_queued_call_is_lost_when_a_worker_is_killed_in_the_middle() -> None:
    async with (
        own_process() as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        client.open_session() as session,
    ):
        work = await long_work(session)
        await work.queue_at_once(session, CALLS)
        begun = asyncio.get_running_loop().time()
        killed = kill_worker(process)
        assert not await session.default_stream.query()

        async def replaced() -> bool:
            workers = workers_of(process)
            device = (await client.list_devices())[0]
            return device.ready and workers not in ([], [killed])

        await until(replaced)
        took_s = asyncio.get_running_loop().time() - begun
        tell("worker killed in a call: device ready after", took_s)
        await session.default_stream.synchronize()
        assert await work.out() == EXACT


@pytest.mark.parametrize("shared_memory", ["true", "false"])
async def test_bytes_survive_a_worker_that_is_killed_while_they_are_copied(
    shared_memory: str,
) -> None:
    array = np.random.default_rng(5).integers(0, 256, UPLOAD_BYTES, np.uint8)
    async with (
        own_process(shared_memory=shared_memory) as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        client.open_session() as session,
    ):
        buffer = await session.allocate(UPLOAD_BYTES)
        copying = asyncio.create_task(buffer.write(array))
        await session.default_stream.query()
        kill_worker(process)
        await copying
        assert await buffer.read() == array.tobytes()


async def test_a_killed_front_leaves_nothing_and_its_clients_get_errors() -> None:
    async with own_process() as (process, addresses), AsyncClient(addresses.grpc) as client:
        session = await client.open_session()
        asked = GetSessionRequest(session=session.name)
        transport = (await client._connection.call(GET_SESSION, asked)).local_lane
        await (await long_work(session)).queue_at_once(session, CALLS)
        waiting = asyncio.create_task(session.default_stream.synchronize())
        await session.default_stream.query()
        left = children_of(process.pid)
        assert shared_memory_is_open(transport)
        begun = asyncio.get_running_loop().time()
        process.kill()
        with pytest.raises(OpserveError, match="507901"):
            await waiting
        told_s = asyncio.get_running_loop().time() - begun
        tell("front killed: a waiting client notified after", told_s)

        async def gone() -> bool:
            return not any(Path(f"/proc/{one}/exe").exists() for one in left)

        await until(gone)
        ended_s = asyncio.get_running_loop().time() - begun
        tell("front killed: its processes, and their memory, gone after", ended_s)
        assert not shared_memory_is_open(transport)
        again = {
            "grpc_address": addresses.grpc,
            "rest_address": addresses.rest.removeprefix("http://"),
        }
        async with own_process(**again) as (_, same):
            assert same == addresses
            with pytest.raises(OpserveError, match="107017"):
                await session.default_stream.query()
            async with client.open_session() as new:
                await (await long_work(new)).queue(new, 1)
                await new.default_stream.synchronize()


def shared_memory_is_open(name: str) -> bool:
    assert name
    return f"@opserve-{name}" in Path("/proc/net/unix").read_text()


async def test_under_load_each_call_at_a_service_that_drains_is_right_or_clearly_refused() -> None:
    outcomes: list[str] = []

    async def tenant(address: str) -> None:
        async with AsyncClient(address) as client:
            session = await client.open_session()
            work = await long_work(session)
            try:
                while True:
                    await work.queue(session, 2)
                    await session.default_stream.synchronize()
                    assert await work.out() == EXACT
                    outcomes.append("right")
            except OpserveError as refused:
                outcomes.append("refused" if refused.code in CLEAR else str(refused))
            await session._heartbeat.stop()

    async with own_process() as (process, addresses):
        async with asyncio.TaskGroup() as tenants:
            for address in (addresses.grpc, addresses.rest) * 2:
                tenants.create_task(tenant(address))

            async def busy() -> bool:
                return outcomes.count("right") >= 8

            await until(busy)
            begun = asyncio.get_running_loop().time()
            process.send_signal(signal.SIGTERM)
        assert sorted(set(outcomes)) == ["refused", "right"]
        assert outcomes.count("refused") == 4
        assert await process.wait() == 0
        took_s = asyncio.get_running_loop().time() - begun
        tell("SIGTERM under load: ended after", took_s)
