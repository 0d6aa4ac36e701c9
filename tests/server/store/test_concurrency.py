"""Concurrent writers to one store, as two services on one database are."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from opserve_server.core.errors import HandleNotFound, WrongState
from opserve_server.store.store import Store, open_store
from server.store.samples import ACME, NOW, TODAY, entry, flush, key, recorded, use

ROUNDS = 20


@pytest.fixture
async def stores(migrated: str) -> AsyncIterator[list[Store]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                open_store(migrated, timeout_s=30.0, connections_limit=4)
            )
            for _ in range(2)
        ]


async def test_usage_of_two_writers_is_neither_lost_nor_doubled(stores: list[Store]) -> None:
    there = [use("acme"), use("acme", profile="mt7004"), use("umbra")]
    back = there[::-1]
    writes = [
        store.usage.add(flush(*rows))
        for _ in range(ROUNDS)
        for store in stores
        for rows in (there, back)
    ]
    await asyncio.gather(*writes)
    wanted = [replace(row, calls=len(writes), device_s=0.25 * len(writes)) for row in there]
    assert await stores[0].usage.of(None, first_day=TODAY, last_day=TODAY) == wanted


async def test_a_third_live_key_is_refused_under_concurrent_requests(stores: list[Store]) -> None:
    await stores[0].tenants.create(ACME, audit=entry())
    asked = [stores[number % 2].keys.add(key(number), audit=entry()) for number in range(8)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [WrongState] * 6
    assert len((await stores[0].directory()).keys) == 2
    assert len(await recorded(stores[1])) == 1 + 2


async def test_a_change_by_one_is_seen_by_the_other(stores: list[Store]) -> None:
    here, there = stores
    empty = await there.directory()
    assert await there.directory() is empty
    await here.tenants.create(ACME, audit=entry())
    changed = await there.directory()
    assert changed.tenants == {"acme": ACME}
    await here.keys.touch({"00000001": NOW})
    assert await there.directory() is changed


async def test_one_of_many_gets_a_name(stores: list[Store]) -> None:
    asked = [stores[number % 2].tenants.create(ACME, audit=entry()) for number in range(6)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [WrongState] * 5


async def test_no_change_of_a_tenant_is_lost(stores: list[Store]) -> None:
    await stores[0].tenants.create(replace(ACME, weight=0), audit=entry())
    changes = [
        store.tenants.update(
            "acme", change=lambda tenant: replace(tenant, weight=tenant.weight + 1), audit=entry()
        )
        for _ in range(ROUNDS)
        for store in stores
    ]
    await asyncio.gather(*changes)
    assert (await stores[0].tenants.get("acme")).weight == len(changes)


async def test_no_key_lives_on_when_its_tenant_ends_meanwhile(stores: list[Store]) -> None:
    for number in range(1, 6):
        tenant = f"t{number}"
        owner = replace(key(number).principal, tenant=tenant)
        await stores[0].tenants.create(replace(ACME, name=tenant), audit=entry())
        added, _ = await asyncio.gather(
            stores[0].keys.add(key(number, owner), audit=entry()),
            stores[1].tenants.delete(tenant, audit=entry(at=NOW + 50)),
            return_exceptions=True,
        )
        assert added is None or isinstance(added, HandleNotFound)
        live = [found for found in await stores[0].keys.of(tenant) if found.revoked_at is None]
        assert live == []


async def test_last_uses_of_two_writers_end_at_the_latest(stores: list[Store]) -> None:
    await stores[0].tenants.create(ACME, audit=entry())
    for number in (1, 2):
        await stores[0].keys.add(key(number), audit=entry())
    names = ["00000001", "00000002"]
    times = [float(at) for at in range(ROUNDS)]
    await asyncio.gather(
        *(stores[0].keys.touch(dict.fromkeys(names, at)) for at in times),
        *(stores[1].keys.touch(dict.fromkeys(reversed(names), at)) for at in reversed(times)),
    )
    assert [found.last_used_at for found in await stores[0].keys.of("acme")] == [times[-1]] * 2


@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
async def test_calls_that_are_cancelled_keep_no_connection(migrated: str) -> None:
    async with open_store(migrated, timeout_s=30.0, connections_limit=1) as store:
        await store.tenants.create(ACME, audit=entry())
        for turns in range(0, 60, 3):
            change = store.tenants.update("acme", change=lambda tenant: tenant, audit=entry())
            changing = asyncio.create_task(change)
            for _ in range(turns):
                await asyncio.sleep(0)
            changing.cancel()
            await asyncio.wait([changing])
        assert await store.tenants.get("acme") == ACME
    # A connection that was cancelled while it opened ends when it is collected: since Python 3.13
    # with a warning, which must not reach another test.
    gc.collect()
