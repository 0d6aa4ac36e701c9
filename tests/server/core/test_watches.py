"""Watches of the service's state: items, changes, what each tenant sees, and bounds."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any

import pytest

from opserve_server.core.errors import LimitExceeded
from opserve_server.core.history import NoNews
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.tenants import Quota, Tenant
from opserve_server.core.watched import EXPIRY_STEP_S
from opserve_server.core.watches import KEPT_UPDATES, MEMBERS, WATCHES_LIMIT, Change
from server.core import every_command as c
from server.core.caller import Caller
from server.core.fakes import LIMITS, ONE_EVENT, FakeDevice
from server.core.waiting_clients import ADMIN, LAB, MILL, TURN, WAITS, WaitingClients

DEVICE = "ascend910b-0"
Watching = AsyncGenerator[Change | NoNews]
State = dict[str, dict[str, Any]]


@pytest.fixture
async def clients() -> AsyncIterator[WaitingClients]:
    clients = WaitingClients(limits=replace(LIMITS, device_sessions_limit=2))
    yield clients
    await clients.end()


async def change_in(watching: Watching) -> Change:
    news = await anext(watching)
    assert isinstance(news, Change)
    return news


def merged(state: State, change: Change) -> State:
    """The one rule: each named item replaces the one before, and null removes it."""
    for member, items in json.loads(change.data).items():
        for name, item in items.items():
            state[member].pop(name, None)
            if item is not None:
                state[member][name] = item
    return state


async def state_of(clients: WaitingClients, who: Principal) -> State:
    """All items that a caller sees."""
    async with aclosing(clients.service.watch(who)) as watching:
        state: State = json.loads((await change_in(watching)).data)
        return state


async def next_change(clients: WaitingClients, watching: Watching) -> Change:
    """The change of the next second."""
    waiting = asyncio.create_task(change_in(watching))
    await asyncio.sleep(1)
    await clients.service.tick()
    return await waiting


async def test_the_first_event_has_every_member_and_a_device_all_its_fields(
    clients: WaitingClients,
) -> None:
    await clients.service.open_session(LAB, WAITS)
    clients.devices[0].restarts = 3
    state = await state_of(clients, LAB)
    assert tuple(state) == MEMBERS
    (info,) = clients.service.list_devices(LAB)
    device = state["devices"][DEVICE]
    assert device["since"] > 1e9
    assert device == {
        "name": DEVICE,
        "profile": info.profile,
        "products": info.products,
        "operators": list(info.operators),
        "memory_bytes": info.memory_bytes,
        "free_memory_bytes": info.free_memory_bytes,
        "ready": True,
        "sessions": 1,
        "tags": [],
        "exclusive": False,
        "kernel_variant": info.kernel_variant,
        "host": "",
        "since": device["since"],
        "restarts": 3,
        "your_sessions": 1,
        "other_sessions": 0,
        "your_requests": 0,
        "other_requests": 0,
        "queued_entries": 0,
        "busy_share": 0.0,
        "calls_per_s": 0.0,
    }
    service = state["service"]["state"]
    assert (service["ready"], service["drains"]) == (True, False)
    assert state["service"]["usage"]["tenant"] == "lab"
    assert {use["resource"] for use in state["service"]["usage"]["uses"]} >= {"sessions"}


async def test_changes_merge_to_the_state_that_a_new_watch_gets(clients: WaitingClients) -> None:
    async with aclosing(clients.service.watch(LAB)) as watching:
        first = await change_in(watching)
        state: State = json.loads(first.data)
        opened = [await clients.service.open_session(LAB, WAITS) for _ in range(2)]
        clients.requests()
        change = await next_change(clients, watching)
        assert change.id > first.id
        merged(state, change)
        assert len(state["sessions"]) == 2
        (waiting,) = state["waiting"].values()
        assert (waiting["tenant"], waiting["position"]) == ("lab", 1)
        assert waiting["id"] in state["waiting"]
        assert state["devices"][DEVICE]["your_requests"] == 1
        for one in opened:
            await clients.close(one)
        change = await next_change(clients, watching)
        gone = json.loads(change.data)
        assert [gone["sessions"][one.session[:8]] for one in opened] == [None, None]
        assert list(gone["waiting"].values()) == [None]
        merged(state, change)
        async with aclosing(clients.service.watch(LAB)) as other:
            fresh: State = json.loads((await change_in(other)).data)
        for member in ("devices", "waiting", "sessions", "service"):
            assert state[member] == fresh[member]


async def test_only_items_that_changed_are_sent_and_passing_time_is_no_change(
    clients: WaitingClients,
) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    second = await clients.service.open_session(LAB, replace(WAITS, lease_s=3000.0))
    clients.requests()
    await asyncio.sleep(0)
    async with aclosing(clients.service.watch(LAB)) as watching:
        await change_in(watching)
        waiting = asyncio.create_task(change_in(watching))
        for _ in range(3):
            await asyncio.sleep(1)
            await clients.service.tick()
        assert not waiting.done()
        await asyncio.sleep(EXPIRY_STEP_S)
        clients.service.keep_alive(LAB, opened.session)
        await clients.service.tick()
        changed = {name: items for name, items in json.loads((await waiting).data).items() if items}
        ((_, session),) = changed.pop("sessions").items()
        assert not changed
        assert session["id"] == opened.session[:8] != second.session[:8]
        assert session["expires_in_s"] == 3600.0


async def test_a_tenant_sees_numbers_of_others_and_no_word(clients: WaitingClients) -> None:
    clients.service.renew_tenants((Tenant(name="lab"), Tenant(name="mill")))
    theirs = await clients.service.open_session(MILL, WAITS)
    own = [await clients.service.open_session(LAB, WAITS)]
    clients.requests(replace(WAITS, tags=()), who=MILL, request_id="secret-of-mill")
    await asyncio.sleep(TURN)
    state = await state_of(clients, LAB)
    device = state["devices"][DEVICE]
    names = ("your_sessions", "other_sessions", "your_requests", "other_requests")
    assert [device[name] for name in names] == [1, 1, 0, 1]
    assert state["service"]["state"]["other_requests"] == 1
    assert not state["waiting"]
    assert state["sessions"].keys() == {one.session[:8] for one in own}
    text = json.dumps(state)
    for word in ("mill", theirs.session[:8], "secret-of-mill"):
        assert word not in text
    assert own[0].session not in text, "the whole name is a secret"
    theirs_too = await state_of(clients, MILL)
    assert [theirs_too["devices"][DEVICE][name] for name in names] == [1, 1, 1, 0]
    assert [one["request_id"] for one in theirs_too["waiting"].values()] == ["secret-of-mill"]


async def test_an_administrator_sees_the_items_of_all_tenants(clients: WaitingClients) -> None:
    opened = [await clients.service.open_session(who, WAITS) for who in (LAB, MILL)]
    clients.service.renew_tenants((Tenant(name="lab"), Tenant(name="mill"), Tenant(name="ops")))
    clients.requests()
    await asyncio.sleep(0)
    state = await state_of(clients, ADMIN)
    assert state["sessions"].keys() == {one.session[:8] for one in opened}
    assert {one["tenant"] for one in state["sessions"].values()} == {"lab", "mill"}
    assert [one["tenant"] for one in state["waiting"].values()] == ["lab"]
    assert all(one.session not in json.dumps(state) for one in opened)


async def test_a_source_is_for_callers_with_its_scope(clients: WaitingClients) -> None:
    async def read(_: object) -> Mapping[str, object]:
        return {"calls": {"all": 7}}

    clients.service.watched.add_source("service", read, scope=Scope.METRICS)
    with_metrics = Principal(tenant="lab", name="x", scopes=frozenset(Scope) - {Scope.ADMIN})
    assert "calls" not in (await state_of(clients, LAB))["service"]
    assert (await state_of(clients, with_metrics))["service"]["calls"] == {"all": 7}


async def test_a_device_has_the_time_of_its_latest_death() -> None:
    device, times = FakeDevice(), iter(range(1000, 2000))
    clients = WaitingClients(device)
    clients.service.watched._wall_clock = lambda: float(next(times))
    since: list[float] = []
    for ready, restarts in ((True, 0), (True, 0), (False, 0), (True, 1), (True, 2)):
        device.ready, device.restarts = ready, restarts
        state = await state_of(clients, LAB)
        since.append(state["devices"][DEVICE]["since"])
    assert since[0] == since[1] < since[2] < since[3] < since[4]


async def test_without_a_watch_nothing_is_computed(clients: WaitingClients) -> None:
    computed = 0

    async def read(_: object) -> Mapping[str, object]:
        nonlocal computed
        computed += 1
        return {}

    clients.service.watched.add_source("runs", read, scope=Scope.OPERATE)
    await clients.service.tick()
    assert computed == 0
    async with AsyncExitStack() as stack:
        for _ in range(3):
            watching = await stack.enter_async_context(aclosing(clients.service.watch(LAB)))
            await change_in(watching)
        assert clients.service.watches.count == 3
        before = computed
        await clients.service.tick()
        assert computed == before + 1, "one computation serves all watches of a tenant"
    await clients.service.tick()
    assert computed == before + 1
    assert clients.service.watches.count == 0


async def test_watches_of_a_tenant_and_of_all_are_bounded(clients: WaitingClients) -> None:
    assert LIMITS.tenant_watches_limit == 3
    async with AsyncExitStack() as stack:
        for _ in range(3):
            watching = await stack.enter_async_context(aclosing(clients.service.watch(LAB)))
            await change_in(watching)
        with pytest.raises(LimitExceeded, match="this tenant's"):
            await anext(clients.service.watch(LAB))
        await stack.enter_async_context(aclosing(clients.service.watch(MILL)))
    await state_of(clients, LAB)
    clients.service.watches._tenants["many"] = WATCHES_LIMIT
    with pytest.raises(LimitExceeded, match="the service's"):
        await anext(clients.service.watch(LAB))
    del clients.service.watches._tenants["many"]


async def test_a_slow_reader_gets_one_event_of_all_seconds_and_a_slower_one_ends(
    clients: WaitingClients,
) -> None:
    async with aclosing(clients.service.watch(LAB)) as watching:
        await change_in(watching)
        for _ in range(KEPT_UPDATES - 1):
            opened = await clients.service.open_session(LAB, WAITS)
            await clients.service.tick()
            await clients.close(opened)
        last = await clients.service.open_session(LAB, WAITS)
        await clients.service.tick()
        sessions = json.loads((await change_in(watching)).data)["sessions"]
        assert sessions[last.session[:8]]["device"] == DEVICE
        assert [item for item in sessions.values() if item is not None] == [
            sessions[last.session[:8]]
        ]
        for _ in range(KEPT_UPDATES + 1):
            await clients.service.tick()
        with pytest.raises(StopAsyncIteration):
            await anext(watching)


async def test_items_that_are_long_gone_take_no_memory(clients: WaitingClients) -> None:
    async with aclosing(clients.service.watch(LAB)) as watching:
        await change_in(watching)
        (view,) = clients.service.watches._views.values()
        before = len(view._shown)
        for _ in range(5):
            opened = await clients.service.open_session(LAB, WAITS)
            await clients.service.tick()
            await clients.close(opened)
        for _ in range(KEPT_UPDATES + 3):
            await clients.service.tick()
        assert len(view._shown) == before


async def test_a_quiet_watch_gets_signs_of_life_and_ends_in_time(clients: WaitingClients) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    async with aclosing(clients.service.watch(LAB)) as watching:
        await change_in(watching)
        assert isinstance(await anext(watching), NoNews)
        assert loop.time() - began_s == LIMITS.watch_quiet_limit_s
        signs = [news async for news in watching]
    assert set(signs) == {NoNews()}
    assert loop.time() - began_s == LIMITS.watch_limit_s


async def test_a_watch_has_its_first_event_however_short_it_is(clients: WaitingClients) -> None:
    clients.service.watches._limits = ONE_EVENT
    events = [news async for news in clients.service.watch(LAB)]
    assert len(events) == 1
    assert isinstance(events[0], Change)


async def test_a_watch_lasts_through_the_drain_and_no_longer(caller: Caller) -> None:
    call = await caller.repeatable()
    await caller.service.submit(LOCAL, caller.name, [call])
    async with aclosing(caller.service.watch(LOCAL)) as watching:
        await change_in(watching)
        draining = asyncio.create_task(caller.service.drain())
        waiting = asyncio.create_task(change_in(watching))
        await asyncio.sleep(1)
        await caller.service.tick()
        state = json.loads((await waiting).data)["service"]["state"]
        assert (state["drains"], state["ready"]) == (True, False)
        await caller.finish()
        await draining
        with pytest.raises(StopAsyncIteration):
            await anext(watching)


async def test_a_device_item_has_the_rates_of_the_last_second(caller: Caller) -> None:
    call, found = await caller.repeatable(), list[tuple[float, float]]()
    await caller.service.tick()
    for step in (caller.submit(call), caller.finish(), caller.submit(c.QueryStream())):
        await step
        await caller.service.tick()
        async with aclosing(caller.service.watch(LOCAL)) as watching:
            (device,) = json.loads((await change_in(watching)).data)["devices"].values()
            found.append((device["busy_share"], device["calls_per_s"]))
    assert found == [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]


async def test_ticks_come_once_a_second_also_after_a_failure(
    clients: WaitingClients, caplog: pytest.LogCaptureFixture
) -> None:
    loop, times = asyncio.get_running_loop(), list[float]()

    async def read(_: object) -> Mapping[str, object]:
        times.append(loop.time())
        if len(times) == 3:
            raise RuntimeError("planted")
        return {"ticks": len(times)}

    clients.service.watched.add_source("service", read, scope=Scope.OPERATE)
    async with aclosing(clients.service.watch(LAB)) as watching:
        await change_in(watching)
        ticking = asyncio.create_task(clients.service.keep_ticking())
        found = [json.loads((await change_in(watching)).data)["service"]["ticks"] for _ in range(3)]
        ticking.cancel()
    assert found == [2, 4, 5]
    assert times == [0.0, 0.0, 1.0, 2.0, 3.0]
    assert "planted" in caplog.text


async def test_a_deleted_tenant_has_no_usage_and_harms_no_other_watch(
    clients: WaitingClients,
) -> None:
    watches = [clients.service.watch(who) for who in (LAB, MILL)]
    for watching in watches:
        await change_in(watching)
    clients.service.renew_tenants((Tenant(name="mill", quota=Quota(sessions=9)),))
    changes = [asyncio.create_task(change_in(watching)) for watching in watches]
    await asyncio.sleep(0)
    await clients.service.tick()
    gone, changed = [json.loads((await change).data) for change in changes]
    assert gone["service"] == {"usage": None}
    uses = {use["resource"]: use["limit"] for use in changed["service"]["usage"]["uses"]}
    assert uses["sessions"] == 9
    for watching in watches:
        await watching.aclose()


async def test_requests_for_one_of_several_devices_count_at_each() -> None:
    devices = FakeDevice(name="one"), FakeDevice(name="two", tags=frozenset("a"))
    clients = WaitingClients(*devices, limits=replace(LIMITS, device_sessions_limit=1))
    for _ in devices:
        await clients.service.open_session(LAB, WAITS)
    clients.requests()
    clients.requests(SessionRequest(wait_s=9.0, tags=("a",)))
    await asyncio.sleep(0)
    found = (await state_of(clients, LAB))["devices"]
    assert [found[name]["your_requests"] for name in ("one", "two")] == [1, 2]
    assert (await state_of(clients, LAB))["service"]["state"]["your_requests"] == 2
    await clients.end()
