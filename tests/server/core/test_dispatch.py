"""Calls of streams at the device: how many, in what order, aborted, late and remembered."""

import asyncio
from unittest import mock

import pytest

from opserve_kernels.status import Status
from opserve_server.core.dispatch import CALLS_OF_A_TENANT, SHORT_CALLS_OF_A_TENANT
from opserve_server.core.errors import (
    DeadlineMissed,
    ExecutionAborted,
    WaitTimedOut,
    WrongState,
)
from opserve_server.core.principal import LOCAL
from opserve_server.core.streams import Stream
from opserve_server.pool.device import KernelFailed
from server.core import every_command as c
from server.core.caller import Caller, on
from server.core.fakes import LIMITS

STOP = c.FailureMode.STOP


# Dispatch


async def test_at_most_two_calls_of_a_tenant_are_on_the_device(
    caller: Caller,
) -> None:
    call = await caller.repeatable()
    await caller.submit(*[call] * 5)
    assert len(caller.device.held) == CALLS_OF_A_TENANT


async def test_more_calls_are_on_the_device_while_they_are_short(caller: Caller) -> None:
    call = await caller.repeatable()
    await caller.submit(*[call] * 32)
    most: list[int] = []
    for takes_ns in (0, 4_000_000, 10_000_000):
        caller.device.takes_ns = takes_ns
        for _ in range(100):
            await caller.finish()
            await caller.submit(call)
        most.append(len(caller.device.held))
    assert most == [SHORT_CALLS_OF_A_TENANT, 3, CALLS_OF_A_TENANT]


async def test_streams_take_turns_in_any_order_of_arrival(caller: Caller) -> None:
    call = await caller.repeatable()
    greedy, *modest = await caller.streams(3)
    await caller.submit(*[on(call, greedy)] * 6)
    await caller.submit(*[on(call, stream) for stream in modest for _ in range(2)])
    order = [await caller.finish() for _ in range(10)]
    one, other = modest
    assert order == [greedy, greedy, greedy, one, other, greedy, one, other, greedy, greedy]


async def test_a_stream_in_stop_mode_sends_its_next_call_after_the_one_before(
    caller: Caller,
) -> None:
    call = await caller.repeatable()
    (stream,) = await caller.streams(1)
    await caller.submit(c.SetFailureMode(stream=stream, mode=STOP), *[on(call, stream)] * 3)
    assert len(caller.device.held) == 1
    await caller.finish()
    await caller.finish(KernelFailed("planted"))
    assert not caller.device.held
    assert (await caller.run(c.QueryStream(stream=stream))).complete
    assert isinstance(await caller.refused(call), WrongState)


async def test_a_record_is_reached_after_all_before_it_and_before_all_behind_it(
    caller: Caller,
) -> None:
    call = await caller.repeatable()
    event = (await caller.run(c.CreateEvent())).event
    await caller.submit(call, call, c.RecordEvent(event=event), call)
    for _ in range(2):
        assert not (await caller.run(c.QueryEvent(event=event))).complete
        await caller.finish()
    assert (await caller.run(c.QueryEvent(event=event))).complete
    assert len(caller.device.held) == 1


async def test_a_wait_holds_the_calls_behind_it_until_its_record(caller: Caller) -> None:
    call = await caller.repeatable()
    event = (await caller.run(c.CreateEvent())).event
    one, other = await caller.streams(2)
    wait = c.StreamWaitEvent(stream=other, event=event)
    await caller.submit(on(call, one), c.RecordEvent(event=event, stream=one))
    await caller.submit(wait, on(call, other))
    assert [held.stream for held in caller.device.held] == [one]
    await caller.finish()
    assert [held.stream for held in caller.device.held] == [other]


# Aborted


async def test_an_abort_drops_queued_work_and_ends_with_the_work_it_stops(caller: Caller) -> None:
    call = await caller.repeatable()
    event = (await caller.run(c.CreateEvent())).event
    await caller.submit(call, call, call, c.RecordEvent(event=event), call)
    aborting = asyncio.create_task(caller.run(c.AbortStream()))
    await asyncio.sleep(1)
    assert [held.stopping for held in caller.device.held] == [True, True]
    await caller.finish()
    assert not aborting.done()
    assert not (await caller.run(c.QueryEvent(event=event))).complete, "one still writes"
    await caller.finish()
    await aborting
    assert (await caller.run(c.QueryEvent(event=event))).complete
    refusal = await caller.refused(c.SynchronizeStream())
    assert isinstance(refusal, ExecutionAborted)
    assert refusal.status is Status.ACL_ERROR_RT_STREAM_ABORT
    assert refusal.executor == call.executor
    assert len(caller.device.calls) == 2
    await caller.run(c.SynchronizeStream())


async def test_an_aborted_stream_runs_later_calls(caller: Caller) -> None:
    call = await caller.repeatable()
    (stream,) = await caller.streams(1)
    await caller.submit(c.SetFailureMode(stream=stream, mode=STOP), *[on(call, stream)] * 2)
    aborting = asyncio.create_task(caller.run(c.AbortStream(stream=stream)))
    await asyncio.sleep(1)
    await caller.submit(on(call, stream))
    await caller.finish()
    await aborting
    await caller.finish()
    assert len(caller.device.calls) == 2
    await caller.refused(c.SynchronizeStream(stream=stream))
    await caller.run(c.SynchronizeStream(stream=stream))


async def test_an_abort_of_nothing_reports_nothing(caller: Caller) -> None:
    await caller.run(c.AbortStream())
    await caller.run(c.SynchronizeStream())
    await caller.refused(c.AbortStream(stream=9))


async def test_an_abort_frees_a_stream_that_waits_for_an_event(caller: Caller) -> None:
    call = await caller.repeatable()
    event = (await caller.run(c.CreateEvent())).event
    one, other = await caller.streams(2)
    await caller.submit(on(call, one), c.RecordEvent(event=event, stream=one))
    await caller.submit(c.StreamWaitEvent(stream=other, event=event))
    await caller.run(c.AbortStream(stream=other))
    await caller.submit(on(call, other))
    assert [held.stream for held in caller.device.held] == [one, other]
    assert isinstance(
        await caller.refused(c.SynchronizeStream(stream=one, timeout_ms=1)), WaitTimedOut
    )


async def test_waits_that_were_dropped_leave_nothing_at_their_record(caller: Caller) -> None:
    call = await caller.repeatable()
    event = (await caller.run(c.CreateEvent())).event
    one, other = await caller.streams(2)
    await caller.submit(on(call, one), c.RecordEvent(event=event, stream=one))
    for _ in range(20):
        await caller.submit(c.StreamWaitEvent(stream=other, event=event))
        await caller.run(c.AbortStream(stream=other))
    with mock.patch.object(Stream, "_advance", autospec=True, side_effect=Stream._advance) as done:
        await caller.finish()
    assert done.call_count == 1, "the stream with the call alone goes on"


async def test_a_call_that_ends_before_it_is_stopped_is_no_failure(caller: Caller) -> None:
    call = await caller.repeatable()
    await caller.submit(call)
    caller.device.finish(caller.device.held[0])
    await caller.run(c.AbortStream())
    await caller.run(c.SynchronizeStream())


# Late


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_deadline_is_at_least_a_millisecond(caller: Caller, timeout_ms: int) -> None:
    call = await caller.repeatable()
    refusal = await caller.refused(on(call, 0, timeout_ms))
    assert refusal.status is Status.ACL_ERROR_RT_PARAM_INVALID
    assert refusal.parameter == "timeout_ms"


async def test_queued_work_is_dropped_at_its_deadline(caller: Caller) -> None:
    call = await caller.repeatable()
    late = await caller.plan()
    workspace = await caller.buffer(late.workspace_size)
    await caller.submit(call, call)
    await caller.submit(c.Execute(executor=late.executor, workspace=workspace, timeout_ms=5000))
    await caller.run(c.Free(buffer=workspace))
    await caller.submit(call)
    free = caller.device.slabs.free_bytes
    await asyncio.sleep(5)
    assert free == caller.device.slabs.free_bytes
    for _ in range(3):
        await caller.finish()
    refusal = await caller.refused(c.SynchronizeStream())
    assert isinstance(refusal, DeadlineMissed)
    assert refusal.status is Status.ACL_ERROR_RT_TASK_TIMEOUT
    assert refusal.executor == late.executor
    assert "its deadline of 5000 ms" in refusal.message
    assert len(caller.device.calls) == 3


async def test_running_work_is_stopped_at_its_deadline(caller: Caller) -> None:
    call = await caller.repeatable()
    await caller.submit(on(call, 0, 5000))
    await asyncio.sleep(3)
    assert not caller.device.held[0].stopping
    await asyncio.sleep(2)
    assert caller.device.held[0].stopping
    await caller.finish()
    assert isinstance(await caller.refused(c.SynchronizeStream()), DeadlineMissed)


async def test_work_that_ends_in_time_is_not_late(caller: Caller) -> None:
    call = await caller.repeatable()
    await caller.submit(on(call, 0, 5000), on(call, 0, 5000))
    await caller.finish()
    await caller.finish()
    await asyncio.sleep(10)
    await caller.run(c.SynchronizeStream())


async def test_a_late_call_stops_what_is_behind_it_in_stop_mode_and_not_what_is_before(
    caller: Caller,
) -> None:
    call = await caller.repeatable()
    (stream,) = await caller.streams(1)
    await caller.submit(c.SetFailureMode(stream=stream, mode=STOP))
    await caller.submit(*[on(call, stream, timeout_ms) for timeout_ms in (None, None, 5000, None)])
    await asyncio.sleep(5)
    await caller.finish()
    await caller.finish()
    assert not caller.device.held
    assert isinstance(await caller.refused(c.SynchronizeStream(stream=stream)), DeadlineMissed)


# The end of a session


async def test_the_end_of_a_lease_stops_what_runs_and_drops_the_rest(caller: Caller) -> None:
    call = await caller.repeatable()
    await caller.submit(*[call] * 4)
    await asyncio.sleep(LIMITS.lease_default_s + 1)
    assert [held.stopping for held in caller.device.held] == [True, True]
    assert caller.device.slabs.free_bytes < caller.device.memory_bytes
    await caller.finish()
    await caller.finish()
    assert caller.device.slabs.free_bytes == caller.device.memory_bytes
    assert len(caller.device.calls) == 2


async def test_another_session_gets_the_device_when_one_ends(caller: Caller) -> None:
    call = await caller.repeatable()
    await caller.submit(*[call] * 4)
    ended = caller.name
    await caller.open()
    await caller.submit(await caller.repeatable())
    closing = asyncio.create_task(caller.service.close_session(LOCAL, ended))
    await asyncio.sleep(1)
    await caller.finish()
    assert not caller.device.held[1].stopping
    await caller.finish()
    await closing
    await caller.finish()
