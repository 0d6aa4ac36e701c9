"""Devices that one session has alone."""

import asyncio
from dataclasses import replace

from opserve_server.core.errors import (
    HandleNotFound,
)
from opserve_server.core.principal import LOCAL
from opserve_server.core.session_request import SessionRequest
from server.core import every_command as c
from server.core.caller import Caller
from server.core.fakes import LIMITS, FakeDevice
from server.core.waiting_clients import (
    ALONE,
    LAB,
    MILL,
    TURN,
    WAITS,
    WaitingClients,
    refused,
)


async def test_an_exclusive_session_is_alone_on_its_device() -> None:
    clients = WaitingClients(limits=LIMITS)
    shared = await clients.service.open_session(LAB, WAITS)
    refusal = await refused(clients.service.open_session(LAB, SessionRequest(exclusive=True)))
    assert "ascend910b-0: 1 sessions, where none may be" in refusal.message
    alone = clients.requests(ALONE)
    await asyncio.sleep(TURN)
    await clients.close(shared)
    opened = alone.result()
    assert (opened.device.exclusive, opened.exclusive_left_s) == (True, LIMITS.exclusive_limit_s)
    refusal = await refused(clients.service.open_session(LAB))
    assert "ascend910b-0: an exclusive session" in refusal.message
    await clients.end()


async def test_a_device_is_reserved_for_an_exclusive_request() -> None:
    clients = WaitingClients(limits=LIMITS)
    shared = await clients.service.open_session(LAB, WAITS)
    alone = clients.requests(ALONE)
    await asyncio.sleep(TURN)
    refusal = await refused(clients.service.open_session(MILL))
    assert "reserved for a request before this one" in refusal.message
    behind = clients.requests()
    await asyncio.sleep(TURN)
    assert clients.positions() == [1, 2]
    await clients.close(shared)
    await clients.close(alone.result())
    assert behind.done()
    await clients.end()


async def test_a_reserved_device_is_free_when_the_wait_ends_without_it() -> None:
    clients = WaitingClients(limits=LIMITS)
    await clients.service.open_session(LAB, WAITS)
    alone, behind = clients.requests(ALONE), clients.requests()
    await asyncio.sleep(TURN)
    assert not behind.done()
    alone.cancel()
    await asyncio.sleep(TURN)
    assert behind.done()
    await clients.end()


async def test_a_tenant_has_one_device_kept_for_it_at_a_time() -> None:
    clients = WaitingClients(FakeDevice(name="one"), FakeDevice(name="two"), limits=LIMITS)
    for _ in range(2):
        await clients.service.open_session(LAB, WAITS)
    waiting = [clients.requests(ALONE) for _ in range(2)]
    await asyncio.sleep(TURN)
    assert (await clients.service.open_session(MILL)).session
    for task in waiting:
        task.cancel()
    await clients.end()


async def test_an_exclusive_session_ends_by_itself_and_its_owner_alone_gets_the_reason() -> None:
    clients = WaitingClients(limits=LIMITS)
    opened = await clients.service.open_session(LAB, replace(ALONE, exclusive_s=60.0))
    for _ in range(5):
        await asyncio.sleep(11)
        clients.service.keep_alive(LAB, opened.session)
    await asyncio.sleep(6)
    for who, names_the_reason in ((LAB, True), (MILL, False)):
        refusal = await refused(clients.service.run(who, opened.session, c.QueryStream()))
        assert isinstance(refusal, HandleNotFound)
        reason = "has ended: it had its device alone for 60 s, as was granted"
        assert (reason in refusal.message) is names_the_reason
    assert (await clients.service.open_session(LAB)).session
    await clients.end()


async def test_an_exclusive_session_waits_for_work_that_is_being_stopped() -> None:
    caller = Caller()
    await caller.open()
    await caller.execute(await caller.plan())
    closing = asyncio.create_task(caller.service.close_session(LOCAL, caller.name))
    alone = asyncio.create_task(caller.service.open_session(LOCAL, ALONE))
    await asyncio.sleep(1)
    assert not alone.done()
    (waiting,) = caller.service.list_waiting(LOCAL)
    assert waiting.waits_for == "ascend910b-0: a session that ends"
    caller.device.finish(caller.device.held[0])
    await closing
    await asyncio.sleep(TURN)
    assert alone.done()
    await caller.service.stop()
