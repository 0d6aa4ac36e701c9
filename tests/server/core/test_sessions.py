"""Sessions, batches of commands, retries and limits."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from opserve_kernels.status import Status
from opserve_server.core import commands as c
from opserve_server.core.errors import (
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    OutOfMemory,
    Unavailable,
)
from opserve_server.core.principal import LOCAL
from server.core.caller import SIZE, Caller
from server.core.fakes import LIMITS


async def test_a_session_ends_with_its_lease_but_not_during_a_call(caller: Caller) -> None:
    await caller.execute(await caller.plan())
    waiting = asyncio.create_task(caller.run(c.SynchronizeStream()))
    await asyncio.sleep(2 * LIMITS.lease_default_s)
    caller.device.finish(caller.device.held[0])
    await waiting
    await asyncio.sleep(LIMITS.lease_default_s - 1)
    caller.service.keep_alive(LOCAL, caller.name)
    await asyncio.sleep(LIMITS.lease_default_s - 1)
    await caller.run(c.QueryStream())
    await asyncio.sleep(LIMITS.lease_default_s + 1)
    assert isinstance(await caller.refused(c.QueryStream()), HandleNotFound)


async def test_sessions_have_a_limit_and_devices_must_be_ready(caller: Caller) -> None:
    for _ in range(LIMITS.sessions_limit - 1):
        await caller.service.open_session(LOCAL)
    with pytest.raises(LimitExceeded):
        await caller.service.open_session(LOCAL)
    caller.device.ready = False
    with pytest.raises(Unavailable):
        await caller.service.open_session(LOCAL)
    with pytest.raises(InvalidArgument, match="ascend910b"):
        await caller.service.open_session(LOCAL, profile="ascend9000")


async def test_a_batch_stops_at_the_first_failure_and_what_ran_stands(caller: Caller) -> None:
    commands: list[c.Command] = [
        c.Allocate(size_bytes=8, buffer=5),
        c.Free(buffer=9),
        c.Free(buffer=5),
    ]
    done, failed = await caller.service.submit(LOCAL, caller.name, commands)
    assert done == c.Allocated(buffer=5, size_bytes=8)
    assert isinstance(failed, c.Failed)
    await caller.run(c.Free(buffer=5))


@pytest.mark.parametrize(
    "commands",
    [
        [c.QueryStream()] * (LIMITS.commands_per_submit_limit + 1),
        [c.Write(buffer=1, data=bytes(LIMITS.inline_bytes_limit + 1))],
        [c.Read(buffer=1, size_bytes=LIMITS.inline_bytes_limit + 1)],
        [c.Read(buffer=1, size_bytes=LIMITS.inline_bytes_limit)] * 5,
    ],
)
async def test_a_batch_beyond_its_limits_is_refused_whole(
    caller: Caller, commands: list[c.Command]
) -> None:
    with pytest.raises(LimitExceeded):
        await caller.service.submit(LOCAL, caller.name, commands)


async def test_a_retry_gets_the_first_answer(caller: Caller) -> None:
    command = c.Allocate(size_bytes=8)
    first, second = [
        await caller.service.run(LOCAL, caller.name, command, request_id="one") for _ in range(2)
    ]
    assert first == second == c.Allocated(buffer=1, size_bytes=8)
    other = c.Allocate(size_bytes=9)
    with pytest.raises(InvalidArgument, match="request_id"):
        await caller.service.run(LOCAL, caller.name, other, request_id="one")
    opened = [await caller.service.open_session(LOCAL, request_id="two") for _ in range(2)]
    assert opened[0] == opened[1]


async def test_a_cancelled_call_with_an_id_goes_on_for_its_retry(caller: Caller) -> None:
    await caller.execute(await caller.plan())
    batch: list[c.Command] = [c.SynchronizeStream(), c.Allocate(size_bytes=8, buffer=50)]
    first = asyncio.create_task(
        caller.service.submit(LOCAL, caller.name, batch, request_id="batch")
    )
    await asyncio.sleep(1)
    first.cancel()
    await asyncio.sleep(1)
    caller.device.finish(caller.device.held[0])
    results = await caller.service.submit(LOCAL, caller.name, batch, request_id="batch")
    assert results[-1] == c.Allocated(buffer=50, size_bytes=8)


async def test_a_refused_request_is_tried_again(caller: Caller) -> None:
    whole = await caller.buffer(caller.device.memory_bytes)
    command = c.Allocate(size_bytes=8)
    with pytest.raises(OutOfMemory):
        await caller.service.run(LOCAL, caller.name, command, request_id="again")
    await caller.run(c.Free(buffer=whole))
    await caller.service.run(LOCAL, caller.name, command, request_id="again")


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_chunks_must_add_up_to_what_was_announced(caller: Caller) -> None:
    buffer = await caller.buffer()

    async def write(size: int, *parts: bytes) -> None:
        await caller.service.write(
            LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=size, chunks=chunks(*parts)
        )

    await write(4, b"ab", b"cd")
    with pytest.raises(InvalidArgument, match="inside"):
        await write(SIZE + 1, b"never written")
    assert (await caller.run(c.Read(buffer=buffer, size_bytes=5))).data == b"abcd\0"
    for parts in ((b"xy",), (b"xy", b"zz", b"z")):
        with pytest.raises(InvalidArgument, match="announced"):
            await write(4, *parts)


async def test_queues_and_tables_are_bounded(caller: Caller) -> None:
    event = (await caller.run(c.CreateEvent())).event
    await caller.execute(await caller.plan())
    for _ in range(LIMITS.stream_queue_limit):
        await caller.run(c.RecordEvent(event=event))
    full = await caller.refused(c.RecordEvent(event=event))
    assert full.status == Status.ACL_ERROR_RT_QUEUE_FULL
    for _ in range(LIMITS.streams_limit - 1):
        await caller.run(c.CreateStream())
    refusal = await caller.refused(c.CreateStream())
    assert refusal.status == Status.ACL_ERROR_RT_NO_STREAM_RESOURCE
