"""Requests for a device that wait: their order, their ends, and sessions that have one alone."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from opserve_server.core.errors import (
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
    WaitTimedOut,
)
from opserve_server.core.info import OpenedSession, WaitingInfo
from opserve_server.core.principal import LOCAL
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.tenants import Tenant
from server.core.fakes import LIMITS, FakeDevice
from server.core.waiting_clients import (
    ADMIN,
    LAB,
    MILL,
    TENANTS,
    TURN,
    WAITS,
    WaitingClients,
    refused,
)


@pytest.fixture
async def clients() -> AsyncIterator[WaitingClients]:
    """One device that takes one session, and that is taken."""
    clients = WaitingClients()
    yield clients
    await clients.end()


# Devices by tags


async def test_a_session_is_on_a_device_that_has_every_tag() -> None:
    plain, tagged = FakeDevice(name="one"), FakeDevice(name="two", tags=frozenset("abc"))
    clients = WaitingClients(plain, tagged, limits=LIMITS)
    for tags, allowed in ((("a", "c"), {"two"}), ((), {"one", "two"})):
        opened = await clients.service.open_session(LAB, SessionRequest(tags=tags))
        assert opened.device.name in allowed
    assert [device.tags for device in clients.service.list_devices(LAB)] == [(), ("a", "b", "c")]


@pytest.mark.parametrize("tags", [("a", "x"), ("b", "a"), ("",)])
async def test_tags_that_no_device_has_together_are_refused_at_once(tags: tuple[str, ...]) -> None:
    clients = WaitingClients(
        FakeDevice(name="one", tags=frozenset("a")), FakeDevice(tags=frozenset("b"))
    )
    refusal = await refused(clients.service.open_session(LAB, replace(WAITS, tags=tags)))
    assert isinstance(refusal, InvalidArgument)
    assert refusal.allowed == "one: a; ascend910b-0: b"
    assert not clients.service.list_waiting(ADMIN)


# Order


async def test_requests_of_one_tenant_stand_behind_each_other_and_not_before_all_others(
    clients: WaitingClients,
) -> None:
    opened = await clients.service.open_session(LAB)
    many = [clients.requests() for _ in range(3)]
    await asyncio.sleep(TURN)
    few = clients.requests(who=MILL)
    await asyncio.sleep(TURN)
    await clients.close(opened)
    await clients.close(await many[0])
    assert (few.done(), many[1].done()) == (True, False)
    await clients.close(await few, who=MILL)
    assert many[1].done()


async def test_an_urgent_request_does_not_stand_behind_its_own_tenants_others(
    clients: WaitingClients,
) -> None:
    opened = await clients.service.open_session(LAB)
    many = [clients.requests() for _ in range(3)]
    await asyncio.sleep(TURN)
    urgent = clients.requests(replace(WAITS, priority=1))
    await asyncio.sleep(TURN)
    await clients.close(opened)
    assert (urgent.done(), many[0].done()) == (True, False)


async def test_a_heavier_tenants_requests_stand_closer_together(clients: WaitingClients) -> None:
    clients.service.renew_tenants([replace(TENANTS[0], weight=2), *TENANTS[1:]])
    opened = await clients.service.open_session(LAB, WAITS)
    heavy = [clients.requests() for _ in range(3)]
    await asyncio.sleep(LIMITS.priority_step_s * 0.75)
    light = clients.requests(who=MILL)
    await asyncio.sleep(TURN)
    for holder in (opened, heavy[0], heavy[1]):
        assert not light.done()
        await clients.close(await holder if isinstance(holder, asyncio.Task) else holder)
    assert (light.done(), heavy[2].done()) == (True, False)


# What is refused


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (SessionRequest(priority=4), "0 to 3, the limit of the tenant"),
        (SessionRequest(priority=-1), "0 to 3, the limit of the tenant"),
        (SessionRequest(wait_s=-1.0), "at least 0"),
        (SessionRequest(wait_s=float("nan")), "at least 0"),
        (SessionRequest(exclusive_s=601.0), "0 (the default) to 600.0"),
        (SessionRequest(lease_s=3601.0), "0 (the default) to 3600.0"),
    ],
)
async def test_numbers_out_of_bounds_are_refused_with_the_bound(
    clients: WaitingClients, asked: SessionRequest, allowed: str
) -> None:
    refusal = await refused(clients.service.open_session(LAB, asked))
    assert isinstance(refusal, InvalidArgument)
    assert refusal.allowed == allowed


async def test_without_a_wait_a_taken_device_is_refused_with_the_reason(
    clients: WaitingClients,
) -> None:
    await clients.service.open_session(LAB)
    refusal = await refused(clients.service.open_session(LAB))
    assert isinstance(refusal, LimitExceeded)
    assert "wait for ascend910b-0: 1 sessions, its limit" in refusal.message
    clients.devices[0].ready = False
    assert isinstance(await refused(clients.service.open_session(LAB)), Unavailable)


async def test_a_quota_is_refused_and_not_waited_for(clients: WaitingClients) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    first, second = clients.requests(who=MILL), clients.requests(who=MILL)
    await asyncio.sleep(TURN)
    await clients.close(opened)
    await clients.close(await first, who=MILL)  # whose tenant has room again
    assert (await second).session
    assert isinstance(await refused(clients.service.open_session(MILL, WAITS)), QuotaExceeded)


async def test_a_quota_that_is_used_at_the_grant_ends_the_wait() -> None:
    clients = WaitingClients(FakeDevice(name="one"), FakeDevice(name="two"))
    opened = [await clients.service.open_session(LAB, WAITS) for _ in range(2)]
    first, second = clients.requests(who=MILL), clients.requests(who=MILL)
    await asyncio.sleep(TURN)
    for one in opened:
        await clients.close(one)
    assert (await first).session
    with pytest.raises(QuotaExceeded):
        await second
    await clients.end()


async def test_the_queue_is_bounded_for_each_tenant_and_in_all(clients: WaitingClients) -> None:
    await clients.service.open_session(LAB)
    waiting = [clients.requests() for _ in range(LIMITS.tenant_waiting_limit)]
    await asyncio.sleep(TURN)
    refusal = await refused(clients.service.open_session(LAB, WAITS))
    assert "4 session requests wait already, each tenant's limit" in refusal.message
    waiting += [clients.requests(who=MILL) for _ in range(2)]
    await asyncio.sleep(TURN)
    refusal = await refused(clients.service.open_session(LOCAL, WAITS))
    assert isinstance(refusal, LimitExceeded)
    assert "6 session requests wait already, the service's limit" in refusal.message
    waiting.pop().cancel()
    await asyncio.sleep(TURN)
    waiting.append(clients.requests(who=LOCAL))
    await asyncio.sleep(TURN)
    assert len(clients.positions()) == len(waiting) == LIMITS.waiting_limit
    await clients.service.stop()
    assert {type(error) for error in await asyncio.gather(*waiting, return_exceptions=True)} == {
        Unavailable
    }


# The order


async def test_the_first_request_is_granted_first(clients: WaitingClients) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    waiting = [clients.requests() for _ in range(3)]
    await asyncio.sleep(1)
    for place, task in enumerate(waiting):
        assert clients.positions() == list(range(1, 4 - place))
        await clients.close(opened)
        opened = task.result()


async def test_a_step_of_priority_is_worth_some_seconds_of_waiting(clients: WaitingClients) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    long = replace(WAITS, wait_s=1000.0)
    early = clients.requests(long)
    await asyncio.sleep(LIMITS.priority_step_s + 1)
    late = clients.requests(replace(long, priority=1))
    last = clients.requests(replace(long, priority=2))
    await asyncio.sleep(TURN)
    waiting = {"early": early, "late": late, "last": last}
    for expected in ("last", "early", "late"):
        await clients.close(opened)
        assert [name for name, task in waiting.items() if task.done()] == [expected]
        opened = waiting.pop(expected).result()


async def test_requests_for_other_devices_block_no_request() -> None:
    one, two = FakeDevice(name="one", tags=frozenset("a")), FakeDevice(name="two")
    clients = WaitingClients(one, two)
    wants_one = replace(WAITS, tags=("a",))
    await clients.service.open_session(LAB, wants_one)
    blocked = clients.requests(wants_one)
    await asyncio.sleep(TURN)
    assert (await clients.service.open_session(LAB)).device.name == "two"
    behind = clients.requests(WAITS)
    await asyncio.sleep(TURN)
    assert clients.positions() == [1, 2]
    for task in (blocked, behind):
        task.cancel()
    await clients.end()


# How a wait ends


async def test_a_wait_ends_at_its_deadline_and_reports_the_position(
    clients: WaitingClients,
) -> None:
    await clients.service.open_session(LAB, WAITS)
    first, second = (
        clients.requests(replace(WAITS, wait_s=50.0)),
        clients.requests(replace(WAITS, wait_s=9.0)),
    )
    await asyncio.sleep(9 + TURN)
    with pytest.raises(WaitTimedOut) as timeout:
        await second
    assert "after 9 s the request is at position 2 and waits for ascend910b-0: 1 sessions" in (
        timeout.value.message
    )
    assert not first.done()
    assert clients.positions() == [1]
    first.cancel()


async def test_a_longer_wait_than_a_call_may_take_is_cut(clients: WaitingClients) -> None:
    await clients.service.open_session(LAB, WAITS)
    waiting = clients.requests(replace(WAITS, wait_s=1e9))
    await asyncio.sleep(LIMITS.wait_limit_s + 1)
    assert isinstance(waiting.exception(), WaitTimedOut)


async def test_a_client_that_disconnects_frees_its_place_at_once(clients: WaitingClients) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    gone, behind = clients.requests(), clients.requests()
    await asyncio.sleep(TURN)
    gone.cancel()
    await asyncio.sleep(TURN)
    assert clients.positions() == [1]
    await clients.close(opened)
    assert behind.done()


async def test_a_session_that_was_granted_to_no_caller_ends(clients: WaitingClients) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    waiting = clients.requests()
    await asyncio.sleep(TURN)
    closing = asyncio.create_task(clients.service.close_session(LAB, opened.session))
    await asyncio.sleep(0)
    assert [info.id for info in clients.service.list_sessions(LAB)] != [opened.session[:8]]
    assert not waiting.done()
    waiting.cancel()  # it is granted, and its client is not notified yet
    await closing
    await asyncio.sleep(TURN)
    assert waiting.cancelled()
    assert not clients.service.list_sessions(LAB)


async def test_a_drain_ends_every_wait_and_takes_none(clients: WaitingClients) -> None:
    await clients.service.open_session(LAB, WAITS)
    waiting = clients.requests()
    await asyncio.sleep(TURN)
    draining = asyncio.create_task(clients.service.drain())
    await asyncio.sleep(TURN)
    assert isinstance(waiting.exception(), Unavailable)
    assert isinstance(await refused(clients.service.open_session(LAB, WAITS)), Unavailable)
    await draining


async def test_the_waits_of_a_disabled_tenant_end(clients: WaitingClients) -> None:
    await clients.service.open_session(LOCAL, WAITS)
    waiting, other = clients.requests(who=LAB), clients.requests(who=MILL)
    await asyncio.sleep(TURN)
    clients.service.renew_tenants([Tenant(name="lab", disabled=True), TENANTS[1]])
    await asyncio.sleep(TURN)
    assert isinstance(waiting.exception(), Unauthenticated)
    assert not other.done()
    other.cancel()


async def test_a_device_that_becomes_ready_is_given(clients: WaitingClients) -> None:
    clients.devices[0].ready = False
    waiting = clients.requests()
    await asyncio.sleep(3)
    assert clients.service.list_waiting(LAB)[0].waits_for == "ascend910b-0: is not ready"
    clients.devices[0].ready = True
    await asyncio.sleep(1)
    assert waiting.done()


# Asking again


async def test_a_caller_receives_its_position_and_keeps_it_by_repeating_the_request(
    clients: WaitingClients,
) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    first = await clients.requests_notified("first")
    second = await clients.requests_notified("second")
    assert isinstance(first, WaitingInfo)
    assert isinstance(second, WaitingInfo)
    assert (first.position, second.position) == (1, 2)
    assert (first.waited_s, first.left_s) == (1, 99)
    repeated = [
        asyncio.create_task(clients.requests_notified(name, after_s=50.0))
        for name in ("second", "first")
    ]
    await asyncio.sleep(1)
    assert [info.request_id for info in clients.service.list_waiting(LAB)] == ["first", "second"]
    await clients.close(opened)
    assert repeated[1].done()
    assert not repeated[0].done()
    repeated[0].cancel()


async def test_a_tenant_cancels_its_own_waiting_requests_alone(clients: WaitingClients) -> None:
    await clients.service.open_session(LAB, WAITS)
    first, second = clients.requests(), clients.requests()
    await asyncio.sleep(TURN)
    mine, other = clients.service.list_waiting(LAB)
    with pytest.raises(HandleNotFound, match="id of a waiting request"):
        clients.service.cancel_waiting(MILL, mine.id)
    clients.service.cancel_waiting(LAB, mine.id)
    with pytest.raises(WaitTimedOut, match="was cancelled by its tenant"):
        await first
    assert [info.id for info in clients.service.list_waiting(LAB)] == [other.id]
    with pytest.raises(HandleNotFound):
        clients.service.cancel_waiting(LAB, mine.id)
    assert not second.done()
    second.cancel()


async def test_a_place_without_further_requests_expires(clients: WaitingClients) -> None:
    await clients.service.open_session(LAB, WAITS)
    await clients.requests_notified("first")
    await asyncio.sleep(LIMITS.waiting_return_s - TURN)
    assert clients.positions() == [1]
    await asyncio.sleep(2 * TURN)
    assert clients.positions() == []


async def test_a_client_that_was_cut_off_is_passed_over_and_keeps_its_place(
    clients: WaitingClients,
) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    cut_off = clients.requests(request_id="cut")
    await asyncio.sleep(TURN)
    behind = clients.requests()
    await asyncio.sleep(TURN)
    cut_off.cancel()
    await asyncio.sleep(1)
    (gone, other) = clients.service.list_waiting(LAB)
    assert (gone.request_id, other.position) == ("cut", 1)
    await clients.close(opened)
    again = clients.requests(request_id="cut")
    last = clients.requests()
    await asyncio.sleep(TURN)
    await clients.close(behind.result())
    assert again.done()
    assert not last.done()
    last.cancel()


async def test_a_session_granted_meanwhile_is_found_by_a_repeated_request(
    clients: WaitingClients,
) -> None:
    opened = await clients.service.open_session(LAB, WAITS)
    await clients.requests_notified("first")
    await clients.close(opened)
    granted = await clients.requests_notified("first")
    assert isinstance(granted, OpenedSession)
    assert granted == await clients.requests_notified("first"), "a retry gets the same session"


@pytest.mark.parametrize(
    ("request_id", "after_s"), [("", 1.0), ("one", -1.0), ("one", float("nan"))]
)
async def test_a_notified_request_needs_an_id_and_a_time(
    clients: WaitingClients, request_id: str, after_s: float
) -> None:
    assert isinstance(
        await refused(clients.requests_notified(request_id, after_s=after_s)), InvalidArgument
    )


async def test_a_tenant_sees_its_own_requests_alone(clients: WaitingClients) -> None:
    await clients.service.open_session(LOCAL, WAITS)
    waiting = [clients.requests(who=who) for who in (LAB, MILL)]
    await asyncio.sleep(TURN)
    assert [info.tenant for info in clients.service.list_waiting(MILL)] == ["mill"]
    assert [info.tenant for info in clients.service.list_waiting(ADMIN)] == ["lab", "mill"]
    for task in waiting:
        task.cancel()
