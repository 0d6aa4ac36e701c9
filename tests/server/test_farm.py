"""Services of a farm: their leases, what they list, and what they open without the store."""

import json
import logging
from contextlib import suppress

import pytest
from typing_extensions import override

from opserve_server.core.errors import Moved, QuotaExceeded, Unavailable
from opserve_server.core.memory_commands import Allocate
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.tenants import Quota, Resource, Tenant
from opserve_server.farm import FULL_READING_S
from opserve_server.store.database import Database
from opserve_server.store.services import Reading, ServiceRow, Services
from server.core.fakes import KIB, LIMITS
from server.farm_members import LEASE_S, Clock, Member, TwoMembers
from server.store.farm_services import end_lease, row, set_back

pytestmark = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


async def test_the_devices_of_the_farm_are_listed_own_ones_first(farm: TwoMembers) -> None:
    await farm.b.service.open_session(LOCAL)
    await farm.b.renew()
    await farm.a.renew()
    own, other = farm.a.service.list_farm(LOCAL)
    assert (own.host, own.sessions) == ("a", 0)
    assert other == farm.b.service.list_devices(LOCAL)[0]
    assert (other.host, other.sessions, other.tags) == ("b", 1, ("lab",))
    assert farm.a.service.list_devices(LOCAL) == [own]


async def test_room_of_a_device_is_that_of_its_service(farm: TwoMembers) -> None:
    (room,) = farm.a.service.device_records()
    assert (room.room, room.exclusive_room) == (LIMITS.device_sessions_limit, True)
    await farm.a.service.open_session(LOCAL)
    (room,) = farm.a.service.device_records()
    assert (room.room, room.exclusive_room) == (LIMITS.device_sessions_limit - 1, False)
    farm.a.device.ready = False
    (room,) = farm.a.service.device_records()
    assert (room.room, room.exclusive_room) == (0, False)


async def test_a_device_of_a_later_version_is_listed(farm: TwoMembers) -> None:
    later = json.loads((await farm.services.read()).changed[1].devices)[0]
    later |= {"profile": "ascend999", "a_new_member": 1}
    await farm.services.register(row("c", devices=json.dumps([later])), lease_s=LEASE_S)
    await farm.a.renew()
    found = farm.a.service.list_farm(LOCAL)[-1]
    assert (found.host, found.profile, found.operators) == ("c", "ascend999", ())


async def test_a_service_knows_the_others_by_what_changed(farm: TwoMembers, url: str) -> None:
    await set_back(url, 100.0)
    await farm.a.renew()
    assert [one.name for one in farm.a.membership.others] == ["b"], "nothing changed"
    opened = await farm.b.service.open_session(LOCAL)
    await farm.b.renew()
    await farm.a.renew()
    assert farm.a.service.list_farm(LOCAL)[1].sessions == 1
    await farm.b.service.close_session(LOCAL, opened.session)
    await farm.b.renew()
    await set_back(url, 100.0)  # as if the transaction had taken long
    await farm.a.renew()
    assert farm.a.service.list_farm(LOCAL)[1].sessions == 1
    farm.clock.now_s += FULL_READING_S
    await farm.a.renew()
    assert farm.a.service.list_farm(LOCAL)[1].sessions == 0


async def test_no_session_is_opened_after_the_lease_and_open_ones_go_on(farm: TwoMembers) -> None:
    opened = await farm.a.service.open_session(LOCAL)
    farm.clock.now_s += LEASE_S
    with pytest.raises(Unavailable, match="has lost the store of its farm") as refusal:
        await farm.a.service.open_session(LOCAL, SessionRequest(here=True))
    assert refusal.value.status == 507901
    with pytest.raises(Moved):
        await farm.a.service.open_session(LOCAL)
    assert farm.a.service.get_session(LOCAL, opened.session).session == opened.session
    await farm.a.renew()
    await farm.a.service.open_session(LOCAL)


class Slow(Services):
    """A store whose answer takes longer than the lease."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database)
        self._clock = clock

    @override
    async def renew(
        self, row: ServiceRow, *, epoch: int, lease_s: float, since_s: float = 0.0
    ) -> Reading | None:
        found = await super().renew(row, epoch=epoch, lease_s=lease_s, since_s=since_s)
        self._clock.now_s += LEASE_S + 1
        return found


async def test_a_lease_counts_from_the_start_of_its_renewal(farm: TwoMembers) -> None:
    slow = Slow(farm.database, farm.clock)
    await farm.a.membership.renew(slow, farm.a.service)
    assert not farm.a.membership.accepts


async def test_a_service_whose_lease_ended_in_the_store_registers_again(
    farm: TwoMembers, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    epoch = farm.a.membership.epoch
    await end_lease(url, "a")
    await farm.b.renew()
    assert [one.name for one in farm.b.membership.others] == []
    with caplog.at_level(logging.WARNING):
        await farm.a.renew()
    assert "the lease of a had ended" in caplog.text
    assert farm.a.membership.epoch == epoch + 1
    assert [one.name for one in farm.a.membership.others] == ["b"]


async def test_the_last_started_process_of_a_name_wins_and_the_other_drains(
    farm: TwoMembers, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    second = Member(farm.database, "a", farm.clock)
    await second.begin()
    await farm.a.renew()
    assert farm.a.membership.superseded
    with caplog.at_level(logging.ERROR):
        await farm.a.membership.keep(farm.services, farm.a.line, farm.a.service)
    assert "another process has registered as a" in caplog.text
    assert farm.a.service.draining
    await end_lease(url, "a")  # nor does it come back when the second one's lease ends
    await farm.a.renew()
    assert not farm.a.membership.accepts
    assert (await farm.services.read()).live == ["b"]
    await second.stop()


async def test_a_service_that_ends_leaves_the_directory(farm: TwoMembers) -> None:
    await farm.a.membership.end(farm.services)
    await farm.b.renew()
    assert farm.b.membership.others == []
    assert not farm.a.membership.accepts


OURS = Principal(tenant="ours", name="test", scopes=frozenset({Scope.OPERATE}))


def limit(farm: TwoMembers, **quota: int) -> None:
    for member in (farm.a, farm.b):
        member.service.renew_tenants(
            [Tenant(name="ours", quota=Quota(**quota))]
        )  # each by its name


async def open_until_refused(member: Member) -> list[str]:
    """The sessions that a service admits."""
    opened: list[str] = []
    with suppress(QuotaExceeded):
        while True:
            request = SessionRequest(here=True)
            opened.append((await member.service.open_session(OURS, request)).session)
    return opened


async def test_a_quota_of_sessions_holds_for_the_farm_but_for_one_renewal(
    farm: TwoMembers,
) -> None:
    limit(farm, sessions=2)
    own = await open_until_refused(farm.a)
    assert len(own) == 2
    await farm.a.renew()
    await farm.b.renew()
    assert await open_until_refused(farm.b) == []
    await farm.a.service.close_session(OURS, own[0])
    await farm.a.renew()
    await farm.b.renew()
    # Until the next renewal each service may admit what was left: 1 session each, 2 in all.
    admitted = [len(await open_until_refused(member)) for member in (farm.a, farm.b)]
    assert admitted == [1, 1]
    await farm.a.renew()
    await farm.b.renew()
    assert [await open_until_refused(member) for member in (farm.a, farm.b)] == [[], []]
    assert farm.b.service.accounts.of("ours").use(Resource.SESSIONS) == 3


async def test_a_quota_of_device_memory_holds_for_the_farm(farm: TwoMembers) -> None:
    limit(farm, device_memory_bytes=256 * KIB)
    session = (await farm.a.service.open_session(OURS)).session
    await farm.a.service.run(OURS, session, Allocate(size_bytes=100 * KIB))
    await farm.a.renew()
    await farm.b.renew()
    session = (await farm.b.service.open_session(OURS)).session
    await farm.b.service.run(OURS, session, Allocate(size_bytes=100 * KIB))
    with pytest.raises(QuotaExceeded, match="Quota of device memory"):
        await farm.b.service.run(OURS, session, Allocate(size_bytes=100 * KIB))


async def test_what_a_lost_service_used_is_free_after_its_lease(farm: TwoMembers, url: str) -> None:
    limit(farm, sessions=2)
    await open_until_refused(farm.a)
    await farm.a.renew()
    await farm.b.renew()
    await end_lease(url, "a")
    await farm.b.renew()
    assert len(await open_until_refused(farm.b)) == 2


async def test_a_request_moves_to_the_room_of_the_last_renewal(farm: TwoMembers) -> None:
    opened = await farm.a.service.open_session(LOCAL)
    for _ in range(LIMITS.device_sessions_limit - 1):
        await farm.a.service.open_session(LOCAL)
    with pytest.raises(Moved) as moved:
        await farm.a.service.open_session(LOCAL)
    assert moved.value.service == opened.services[1]
    assert moved.value.service.http == "http://b:2"
    with pytest.raises(Moved) as moved:
        farm.b.service.get_session(LOCAL, opened.session)
    assert moved.value.service.name == "a"
