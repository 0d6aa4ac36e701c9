"""A service that drains: what it still does, what it refuses, and when its sessions end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from opserve_kernels.status import Status
from opserve_server.core.errors import HandleNotFound, Unavailable
from opserve_server.core.principal import LOCAL
from server.core import every_command as c
from server.core.caller import SIZE, Caller
from server.core.fakes import LIMITS

LITTLE_S = LIMITS.drain_quiet_s / 2


async def begin(caller: Caller) -> "asyncio.Task[None]":
    draining = asyncio.create_task(caller.service.drain())
    await asyncio.sleep(0)
    assert caller.service.draining
    return draining


async def test_new_work_is_refused_and_old_work_is_finished_and_read(caller: Caller) -> None:
    planned = await caller.plan()
    workspace = await caller.execute(planned)
    repeated = await caller.repeatable()
    draining = await begin(caller)
    requests: list[Callable[[], Awaitable[object]]] = [
        lambda: caller.service.open_session(LOCAL),
        lambda: caller.run(c.Allocate(size_bytes=1)),
        lambda: caller.run(c.CreateStream()),
        lambda: caller.run(c.CreateEvent()),
        lambda: caller.run(repeated),
        lambda: caller.service.submit(LOCAL, caller.name, [c.QueryStream(), repeated]),
    ]
    for request in requests:
        with pytest.raises(Unavailable) as refusal:
            await request()
        assert refusal.value.status is Status.ACL_ERROR_RT_SOCKET_CLOSE
    await asyncio.sleep(LIMITS.drain_quiet_s * 4)  # no caller waits for the running work
    waiting = asyncio.create_task(caller.run(c.SynchronizeStream()))
    await asyncio.sleep(LIMITS.lease_default_s * 2)
    assert not draining.done()
    await caller.finish()
    await waiting
    read = await caller.run(c.Read(buffer=2, size_bytes=SIZE))
    assert len(read.data) == SIZE
    await caller.run(c.Free(buffer=workspace))
    caller.service.keep_alive(LOCAL, caller.name)
    await caller.service.close_session(LOCAL, caller.name)
    await draining


async def test_an_idle_session_ends_despite_its_heartbeat(
    caller: Caller,
) -> None:
    await caller.execute(await caller.plan())
    draining = await begin(caller)
    await caller.finish()
    for _ in range(2):
        assert (await caller.run(c.QueryStream())).complete
        await asyncio.sleep(LITTLE_S)
        caller.service.keep_alive(LOCAL, caller.name)
    assert not draining.done()
    await asyncio.sleep(LITTLE_S * 1.5)
    await draining
    with pytest.raises(HandleNotFound, match="has ended: the service drains") as refused:
        caller.service.keep_alive(LOCAL, caller.name)
    assert not refused.value.ended, "its client opens it again elsewhere, or after the restart"


async def test_a_session_that_was_idle_holds_a_drain_up_no_longer(caller: Caller) -> None:
    await asyncio.sleep(LIMITS.drain_quiet_s)
    begun = asyncio.get_running_loop().time()
    await caller.service.drain()
    assert asyncio.get_running_loop().time() - begun < LITTLE_S


async def test_a_retry_of_what_was_done_gets_its_answer_and_a_new_request_none(
    caller: Caller,
) -> None:
    allocate = c.Allocate(size_bytes=1)
    done = await caller.service.run(LOCAL, caller.name, allocate, request_id="before")
    draining = await begin(caller)
    again = await caller.service.run(LOCAL, caller.name, allocate, request_id="before")
    assert again == done
    for _ in range(2):
        with pytest.raises(Unavailable):
            await caller.service.run(LOCAL, caller.name, allocate, request_id="behind")
    await draining


async def test_a_whole_call_that_was_begun_is_finished(caller: Caller) -> None:
    with caller.service.whole_call(LOCAL, caller.name):
        draining = await begin(caller)
        await asyncio.sleep(LIMITS.drain_quiet_s * 4)
        await caller.run(c.Allocate(size_bytes=1))
        assert not draining.done()
    await draining
