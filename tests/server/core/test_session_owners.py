"""Owners of sessions, and how other callers end them."""

import asyncio

import pytest

from opserve_server.core.errors import HandleNotFound, WrongState
from opserve_server.core.info import SessionInfo
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.tenants import Tenant
from server.core import every_command as c
from server.core.caller import Caller
from server.core.fakes import KIB, LIMITS

LAB = Principal(tenant="lab", name="ann", scopes=frozenset({Scope.OPERATE}))
ADMIN = Principal(tenant="lab", name="root", scopes=frozenset({Scope.ADMIN}))


async def test_a_session_is_reported_by_an_id_that_is_not_its_name(caller: Caller) -> None:
    await caller.buffer()
    await asyncio.sleep(3)
    assert caller.service.list_sessions(LOCAL) == [
        SessionInfo(
            id=caller.name[:8],
            tenant="local",
            device="ascend910b-0",
            profile="ascend910b",
            open_s=3,
            expires_in_s=LIMITS.lease_default_s - 3,
            exclusive=False,
            calls=0,
            queued_entries=0,
            working=False,
            memory_bytes=128 * KIB,
        )
    ]


async def test_a_tenant_sees_its_own_sessions_and_an_admin_sees_all(caller: Caller) -> None:
    caller.service.renew_tenants([Tenant(name="lab")])
    (mine,) = [await caller.service.open_session(LAB)]
    assert [info.id for info in caller.service.list_sessions(LAB)] == [mine.session[:8]]
    assert {info.tenant for info in caller.service.list_sessions(ADMIN)} == {"local", "lab"}
    with pytest.raises(HandleNotFound, match="id of an open session"):
        await caller.service.release(LAB, caller.name[:8], force=True)


async def test_the_timeline_of_a_session_is_shown_by_its_id_to_its_tenant_and_admins(
    caller: Caller,
) -> None:
    caller.service.renew_tenants([Tenant(name="lab")])
    timeline = caller.service.timeline(LOCAL, caller.name)
    await asyncio.sleep(LIMITS.lease_default_s - 1)
    for principal in (LOCAL, ADMIN):
        assert caller.service.timeline_of(principal, caller.name[:8]) == timeline
    with pytest.raises(HandleNotFound, match="id of an open session"):
        caller.service.timeline_of(LAB, caller.name[:8])
    await asyncio.sleep(2)
    assert not caller.service.list_sessions(LOCAL), "looking at it renews no lease"


async def test_only_force_ends_a_session_that_works(caller: Caller) -> None:
    await caller.execute(await caller.plan())
    with pytest.raises(WrongState, match="has work"):
        await caller.service.release(ADMIN, caller.name[:8], force=False)
    releasing = asyncio.create_task(caller.service.release(ADMIN, caller.name[:8], force=True))
    await asyncio.sleep(1)
    assert not releasing.done(), "its memory comes back when nothing writes there any more"
    caller.device.finish(caller.device.held[0])
    await releasing
    assert caller.device.slabs.free_bytes == caller.device.memory_bytes


async def test_a_session_without_work_is_released_and_its_owner_alone_gets_the_reason(
    caller: Caller,
) -> None:
    caller.service.renew_tenants([Tenant(name="lab")])
    await caller.service.release(ADMIN, caller.name[:8], force=False)
    refused = await caller.refused(c.QueryStream())
    assert "has ended: it was released" in refused.message
    assert isinstance(refused, HandleNotFound)
    assert refused.ended == "it was released"
    answers: list[str] = []
    for name in (caller.name, "0" * 32):
        with pytest.raises(HandleNotFound) as refusal:
            await caller.service.run(LAB, name, c.QueryStream())
        answers.append(refusal.value.message.replace(name, "it"))
    assert len(set(answers)) == 1


async def test_an_expired_lease_is_reported(caller: Caller) -> None:
    await asyncio.sleep(LIMITS.lease_default_s + 1)
    message = (await caller.refused(c.QueryStream())).message
    assert "has ended: no call within its lease of 30 s" in message


async def test_records_of_ended_sessions_are_bounded(caller: Caller) -> None:
    await caller.service.release(LOCAL, caller.name[:8], force=False)
    for _ in range(LIMITS.sessions_limit):
        opened = await caller.service.open_session(LOCAL)
        await caller.service.close_session(LOCAL, opened.session)
    assert "released" not in (await caller.refused(c.QueryStream())).message
