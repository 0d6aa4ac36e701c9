"""Session requests that wait in a farm: one line, ordered in the store, over all services."""

import asyncio
from dataclasses import replace

import pytest

from opserve_server.core.errors import Moved, Unavailable
from opserve_server.core.info import OpenedSession, WaitingInfo
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.tenants import Quota, Tenant
from opserve_server.store.waiting import WaitingLine
from server.farm_members import WAITS, Member, TwoMembers
from server.store.farm_services import end_lease
from server.store.samples import engine_of

pytestmark = pytest.mark.parametrize("url", ["postgresql"], indirect=True)
OTHER = Principal(tenant="other", name="test", scopes=frozenset({Scope.OPERATE}))
ADMIN = Principal(tenant="admin", name="test", scopes=frozenset({Scope.ADMIN}))
ALONE = replace(WAITS, exclusive=True)


async def requests_in_line(url: str) -> list[str]:
    return await _column(url, "SELECT request FROM waiting ORDER BY rank")


async def end_claims(url: str) -> None:
    """The time of all claims passes."""
    await _run(url, "UPDATE waiting SET claimed_until = 1.0")


async def end_rows(url: str) -> None:
    """The time passes for which places are kept that no service writes."""
    await _run(url, "UPDATE waiting SET until = 1.0")


async def _run(url: str, statement: str) -> None:
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.exec_driver_sql(statement)
    await engine.dispose()


async def _column(url: str, query: str) -> list[str]:
    engine = engine_of(url)
    async with engine.connect() as connection:
        found = [row[0] for row in await connection.exec_driver_sql(query)]
    await engine.dispose()
    return found


async def moved_to(waiting: "asyncio.Task[OpenedSession]") -> str:
    """The service that a waiting request is sent to."""
    with pytest.raises(Moved) as moved:
        await waiting
    return moved.value.service.name


async def opened_at(member: Member, request_id: str, request: SessionRequest = WAITS) -> str:
    """The session that a service has kept for a request."""
    return (await member.service.open_session(LOCAL, request, request_id=request_id)).session


async def gets_room(farm: TwoMembers, session: str) -> None:
    """Service b gets room, and both services read of it."""
    await farm.b.close(session)
    await farm.b.share()
    await farm.a.share()


@pytest.fixture
async def full(farm: TwoMembers) -> tuple[TwoMembers, list[str]]:
    """Both services without room, and the sessions at b."""
    for member in (farm.a, farm.b):
        member.service.renew_tenants([Tenant(name=OTHER.tenant)])
    await farm.a.fill()
    sessions = await farm.b.fill()
    for member in (farm.a, farm.b, farm.a):
        await member.renew()
    return farm, sessions


Full = tuple[TwoMembers, list[str]]


async def test_a_request_moves_to_the_service_that_gets_room(full: Full, url: str) -> None:
    farm, sessions = full
    waiting = await farm.a.waits("one")
    await farm.a.share()
    await gets_room(farm, sessions[0])
    assert await moved_to(waiting) == "b"
    assert await opened_at(farm.b, "one")
    await farm.b.share()
    assert await requests_in_line(url) == []


async def test_a_later_request_does_not_pass_one_that_waits_at_another_service(
    full: Full,
) -> None:
    farm, sessions = full
    first = await farm.a.waits("first")
    await farm.a.share()
    await farm.b.share()
    second = await farm.b.waits("second", who=OTHER)
    (told,) = farm.b.service.list_waiting(OTHER)
    assert told.position == 2
    await farm.b.close(sessions[0])
    await farm.b.share()
    assert not second.done(), "the device is kept for the first"
    await farm.a.share()
    assert await moved_to(first) == "b"
    assert await opened_at(farm.b, "first")
    assert not second.done()
    await farm.b.close(sessions[1])
    assert (await second).device.host == "b"


async def test_a_tenant_with_many_requests_stands_behind_one_with_few(full: Full) -> None:
    farm, sessions = full
    for number in range(3):
        await farm.a.waits(f"many-{number}")
    await farm.a.share()
    await farm.b.share()
    few = await farm.b.waits("few", who=OTHER)
    await farm.b.close(sessions[0])
    await farm.b.share()
    assert not few.done(), "the first of the many came before it"
    await farm.b.close(sessions[1])
    assert (await few).device.host == "b"


async def test_the_ranks_of_services_are_times_of_one_clock(full: Full) -> None:
    farm, _ = full
    farm.b.membership.ahead_s += 1000.0  # a host that started later
    await farm.a.share()
    await farm.b.share()
    assert farm.a.membership.ahead_s == pytest.approx(farm.b.membership.ahead_s, abs=5.0)


async def test_one_of_two_services_with_room_keeps_a_device(full: Full) -> None:
    farm, sessions = full
    waiting = await farm.a.waits("one")
    third = Member(farm.database, "c", farm.clock)
    await third.begin()
    await farm.a.share()
    await farm.b.close(sessions[0])
    await farm.b.share()
    await third.share()
    assert third.service.device_queue.wanted() == []
    await farm.a.renew()
    await farm.a.share()
    assert await moved_to(waiting) == "b"
    await third.stop()


async def test_a_claim_keeps_the_device_until_its_time_is_over(full: Full, url: str) -> None:
    farm, sessions = full
    await farm.a.waits("one")
    await farm.a.share()
    await farm.b.close(sessions[0])
    await farm.b.share()
    later = await farm.b.waits("later", who=OTHER)
    await farm.b.share()
    assert not later.done()
    await end_claims(url)
    await farm.b.share()
    assert (await later).device.host == "b"


async def test_a_client_that_comes_too_late_has_its_place(full: Full, url: str) -> None:
    farm, sessions = full
    waiting = await farm.a.waits("one")
    await farm.a.share()
    await gets_room(farm, sessions[0])
    assert await moved_to(waiting) == "b"
    await end_claims(url)
    await farm.b.share()
    assert await farm.b.fill()
    await farm.b.waits("other", who=OTHER)
    again = await farm.b.waits("one")
    await farm.b.close(sessions[1])
    assert (await again).device.host == "b"


@pytest.mark.parametrize("lost", ["its service", "its connection"])
async def test_a_request_has_its_place_at_any_service(full: Full, url: str, lost: str) -> None:
    farm, sessions = full
    waiting = await farm.a.waits("one")
    await farm.a.share()
    if lost == "its service":
        await end_lease(url, "a")
    else:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await farm.a.share()
    await farm.b.renew()
    await farm.b.waits("before", who=OTHER)
    await farm.b.close(sessions[0])
    await farm.b.share()
    assert farm.b.service.list_waiting(OTHER) == [], "no device is kept for who is not there"
    await farm.b.waits("other", who=OTHER)
    again = await farm.b.waits("one")
    await farm.b.share()
    await farm.b.close(sessions[1])
    assert (await again).device.host == "b"


async def test_a_place_of_which_nobody_speaks_is_lost(full: Full, url: str) -> None:
    farm, _ = full
    await farm.a.waits("one")
    await farm.a.share()
    assert await requests_in_line(url) == ["one"]
    await end_rows(url)
    await farm.b.waits("two", who=OTHER)
    await farm.b.share()
    assert await requests_in_line(url) == ["two"]
    (told,) = farm.b.service.list_waiting(OTHER)
    assert told.position == 1
    await farm.a.share()
    assert await requests_in_line(url) == ["one", "two"], "its service speaks of it again"


async def test_a_request_that_is_granted_or_cancelled_leaves_the_line(full: Full, url: str) -> None:
    farm, _ = full
    waiting = await farm.a.waits("one")
    await farm.a.share()
    (told,) = farm.a.service.list_waiting(LOCAL)
    farm.a.service.cancel_waiting(LOCAL, told.id)
    await asyncio.gather(waiting, return_exceptions=True)
    await farm.a.share()
    assert await requests_in_line(url) == []


async def test_an_id_that_no_store_takes_has_its_place(full: Full, url: str) -> None:
    farm, sessions = full
    hostile = "\0 \ud800 ' \\"
    waiting = await farm.a.waits(hostile)
    await farm.a.share()
    assert len(await requests_in_line(url)) == 1
    await gets_room(farm, sessions[0])
    assert await moved_to(waiting) == "b"
    assert await opened_at(farm.b, hostile)
    await farm.b.share()
    assert await requests_in_line(url) == []


async def test_ids_of_clients_are_none_of_requests_without_an_id(full: Full, url: str) -> None:
    farm, _ = full
    await farm.a.waits("")
    (told,) = farm.a.service.list_waiting(LOCAL)
    for request_id in (f"a/{told.id}", f"/a/{told.id}", f"\\/a/{told.id}"):
        await farm.a.waits(request_id)
    await farm.a.share()
    assert len(await requests_in_line(url)) == 4


async def test_a_request_without_an_id_stays_where_it_waits(full: Full) -> None:
    farm, sessions = full
    await farm.a.waits("")
    await farm.a.share()
    await farm.b.close(sessions[0])
    await farm.b.share()
    assert farm.b.service.device_queue.wanted() == []


async def test_repeated_tags_are_stored_once(full: Full) -> None:
    farm, _ = full
    await farm.a.waits("one", replace(WAITS, tags=("lab",) * 100_000))
    (shown,) = farm.a.service.device_queue.own()
    assert shown.terms.tags == ("lab",)


async def test_the_service_that_a_client_called_last_has_its_request(full: Full, url: str) -> None:
    farm, _ = full
    before = await farm.a.waits("one")
    await farm.a.share()
    await farm.b.share()
    again = await farm.b.waits("one")
    await farm.b.share()
    await farm.a.share()
    assert await moved_to(before) == "b"
    await farm.a.share()
    await farm.b.share()
    assert not again.done()
    assert await requests_in_line(url) == ["one"]


async def test_a_place_is_kept_that_its_new_service_has_not_read_yet(full: Full, url: str) -> None:
    farm, sessions = full
    await farm.a.waits("one")
    await farm.a.share()
    await end_lease(url, "a")
    await farm.b.waits("before", who=OTHER)
    again = await farm.b.waits("one")
    await farm.b.share()
    await farm.b.close(sessions[0])
    assert (await again).device.host == "b"


async def test_no_device_is_kept_for_more_sessions_than_a_tenant_may_open(full: Full) -> None:
    farm, sessions = full
    for member in (farm.a, farm.b):
        limited = Tenant(name=OTHER.tenant, quota=Quota(sessions=1))
        member.service.renew_tenants([limited])
    for number in range(3):
        await farm.a.waits(f"{number}", who=OTHER)
    await farm.a.share()
    for session in sessions:
        await farm.b.close(session)
    await farm.b.share()
    assert farm.b.service.device_queue.wanted() == [(OTHER.tenant, "0")]


async def test_a_service_that_drains_gives_up_what_it_keeps(full: Full) -> None:
    farm, sessions = full
    waiting = await farm.a.waits("one")
    await farm.a.share()
    await farm.b.close(sessions[0])
    await farm.b.share()
    draining = asyncio.create_task(farm.b.service.drain())
    await asyncio.sleep(0)
    await farm.b.share()
    await farm.a.share()
    assert not waiting.done()
    draining.cancel()


async def test_a_service_without_a_lease_gives_up_nothing(full: Full) -> None:
    farm, sessions = full
    waiting = await farm.a.waits("one")
    await farm.a.share()
    await farm.b.close(sessions[0])
    await farm.b.share()
    await farm.b.line.release(epoch=farm.b.membership.epoch - 1)
    await farm.a.share()
    assert await moved_to(waiting) == "b"


async def test_a_waiting_request_gets_no_session_after_the_lease(full: Full) -> None:
    farm, _ = full
    waiting = await farm.a.waits("one", replace(WAITS, here=True))
    (held, *_) = farm.a.service.list_sessions(ADMIN)
    farm.clock.now_s += 1e6
    await farm.a.service.release(ADMIN, held.id, force=True)
    assert not waiting.done()
    await farm.a.renew()
    await farm.a.share()
    assert (await waiting).device.host == "a"


async def test_a_request_that_must_stay_is_not_moved(full: Full) -> None:
    farm, sessions = full
    waiting = await farm.a.waits("one", replace(WAITS, here=True))
    await farm.a.share()
    await farm.b.close(sessions[0])
    await farm.b.share()
    assert farm.b.service.device_queue.wanted() == []
    await farm.a.share()
    assert not waiting.done()


async def test_a_client_between_two_calls_is_sent_on_by_the_next(full: Full) -> None:
    farm, sessions = full
    for _ in range(2):
        told = await farm.a.service.request_session(
            LOCAL, WAITS, request_id="one", tell_after_s=0.001
        )
        assert isinstance(told, WaitingInfo)
    await farm.a.share()
    await gets_room(farm, sessions[0])
    await farm.a.share()
    with pytest.raises(Moved) as moved:
        await farm.a.service.request_session(LOCAL, WAITS, request_id="one", tell_after_s=1.0)
    assert moved.value.service.name == "b"


async def test_an_exclusive_request_gets_a_device_of_any_service_and_empties_its_own_alone(
    full: Full,
) -> None:
    farm, sessions = full
    alone = await farm.a.waits("alone", ALONE)
    await farm.a.share()
    await farm.b.share()
    later = await farm.b.waits("later", who=OTHER)
    await farm.b.close(sessions[0])
    assert (await later).device.host == "b", "b keeps no device until one is empty"
    for session in sessions[1:]:
        await farm.b.close(session)
    await farm.b.service.close_session(OTHER, (await later).session)
    await farm.b.share()
    await farm.a.share()
    assert await moved_to(alone) == "b"
    (record,) = farm.b.service.device_records()
    assert await opened_at(farm.b, "alone", ALONE)
    assert record.exclusive_room


async def test_a_service_that_drains_keeps_no_device_and_its_requests_their_places(
    full: Full, url: str
) -> None:
    farm, _ = full
    await farm.b.waits("at-b")
    await farm.b.share()
    waiting = await farm.a.waits("at-a")
    await farm.a.share()
    draining = asyncio.create_task(farm.b.service.drain())
    await asyncio.sleep(0)  # its sessions end, so it has room
    await farm.b.share()
    assert farm.b.service.device_queue.wanted() == []
    assert await requests_in_line(url) == ["at-b", "at-a"]
    assert not waiting.done()
    draining.cancel()


async def test_a_service_without_a_lease_changes_nothing(full: Full, url: str) -> None:
    farm, sessions = full
    await farm.a.waits("one")
    await farm.a.share()
    await end_lease(url, "b")
    await farm.b.close(sessions[0])
    zombie = WaitingLine(farm.database, "b")
    assert await zombie.claim([("local", "one")], epoch=farm.b.membership.epoch) == set()
    found = await zombie.exchange(
        (), [("local", "one")], epoch=farm.b.membership.epoch, profiles=["ascend910b"]
    )
    assert found is None
    await farm.b.waits("two")
    await farm.b.share()
    assert await requests_in_line(url) == ["one"]
    farm.clock.now_s += 1e6
    with pytest.raises(Unavailable):
        await farm.b.service.open_session(LOCAL, SessionRequest(here=True))
