"""A service whose descriptors or shared memory are used up refuses clearly, and recovers."""

import asyncio
import resource
import socket
from contextlib import ExitStack

import pytest

from benchmarks.census import descriptors_of
from opserve_client import AsyncClient, OpserveError
from system.drills import own_process, tell, until

pytestmark = [pytest.mark.system, pytest.mark.slow]
SPARE = 6
SLAB_BYTES = 2**20
OUT_OF_MEMORY = 207001
SETTINGS = {"slab_bytes": str(SLAB_BYTES), "device_memory_bytes": str(64 * SLAB_BYTES)}


async def test_without_descriptors_new_connections_wait_and_existing_ones_continue() -> None:
    async with (
        own_process(**SETTINGS) as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        AsyncClient(addresses.rest) as later,
        client.open_session() as session,
    ):
        held = await session.allocate(SLAB_BYTES)
        limit = len(descriptors_of(process.pid)) + SPARE
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
        host, _, port = addresses.rest.rpartition("/")[2].rpartition(":")
        with ExitStack() as stack:
            for _ in range(3 * SPARE):
                stack.enter_context(socket.create_connection((host, int(port))))

            async def used_up() -> bool:
                return len(descriptors_of(process.pid)) >= limit

            await until(used_up)
            with pytest.raises(OpserveError) as refused:
                await session.allocate(SLAB_BYTES)
            assert refused.value.code == OUT_OF_MEMORY
            await held.fill(3)
            assert set(await held.read()) == {3}
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(300):
            assert (await later.list_devices())[0].ready
        tell("descriptors back: a new connection after", asyncio.get_running_loop().time() - begun)
        await session.allocate(SLAB_BYTES)


async def test_without_shared_memory_an_allocation_is_refused_and_a_later_one_is_not() -> None:
    async with (
        own_process(**SETTINGS) as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        client.open_session() as session,
    ):
        held = await session.allocate(SLAB_BYTES)
        free = (await client.list_devices())[0].free_memory_bytes
        # The largest file that the front may make: as when the system has no memory for another.
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(OpserveError) as refused:
            await session.allocate(SLAB_BYTES)
        assert refused.value.code == OUT_OF_MEMORY
        assert (await client.list_devices())[0].free_memory_bytes == free, "nothing was taken"
        await held.fill(3)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        await session.allocate(SLAB_BYTES)
        assert set(await held.read()) == {3}
