"""Device time of two tenants with the weights 1 and 3 that keep one device busy."""

import asyncio
from collections.abc import Mapping

from benchmarks.long_calls import long_call, queue_calls
from benchmarks.service_with_keys import ServiceWithKeys, gauges
from opserve_client import AsyncClient, AsyncSession
from opserve_server.core.tenants import Resource, Tenant

LIGHT, HEAVY = Tenant(name="light", weight=1), Tenant(name="heavy", weight=3)
SHARE = HEAVY.weight / (LIGHT.weight + HEAVY.weight)
CALLS = 100
"""Calls in the queue of each stream, so many that one stream always has work for the device."""
STREAMS = 2
BEGIN_S = 0.5
"""Seconds until both tenants keep the device busy."""


async def share_of_the_heavy(service: ServiceWithKeys, *, seconds: float) -> float:
    """Returns the heavy tenant's share of the device time of both, 0 to 1."""
    async with asyncio.TaskGroup() as working:
        tasks = [
            working.create_task(_keeps_busy(service.addresses.grpc, service.keys[tenant.name]))
            for tenant in (LIGHT, HEAVY)
        ]
        await asyncio.sleep(BEGIN_S)
        before = await _device_seconds(service)
        await asyncio.sleep(seconds)
        after = await _device_seconds(service)
        for task in tasks:
            task.cancel()
    used = {name: after[name] - before[name] for name in after}
    return used[HEAVY.name] / sum(used.values())


async def _device_seconds(service: ServiceWithKeys) -> Mapping[str, float]:
    rest, key = service.addresses.rest, service.keys[LIGHT.name]
    return {
        tenant.name: (await gauges(rest, key, "opserve_tenant_use", tenant=tenant.name))[
            Resource.DEVICE_SECONDS
        ]
        for tenant in (LIGHT, HEAVY)
    }


async def _keeps_busy(address: str, key: str) -> None:
    async with (
        AsyncClient(address, api_key=key) as client,
        client.open_session() as session,
        asyncio.TaskGroup() as streams,
    ):
        executor = await long_call(session)
        for _ in range(STREAMS):
            streams.create_task(_keeps_full(session, executor))


async def _keeps_full(session: AsyncSession, executor: int) -> None:
    stream = await session.create_stream()
    while True:
        await queue_calls(session, executor, stream=stream.handle, count=CALLS)
        await stream.synchronize()
