"""The history of a stream: its entries, its readers and its lifetime."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from opserve_kernels.status import Status
from opserve_server.core.errors import HandleNotFound, InvalidArgument
from opserve_server.core.history import HistoryEntry, LostEntries, News, NoNews, Outcome, WorkKind
from opserve_server.core.principal import LOCAL, Principal
from opserve_server.core.session_request import SessionRequest
from opserve_server.pool.device import KernelFailed
from server.core import every_command as c
from server.core.caller import Caller, on
from server.core.fakes import LIMITS


def watch(caller: Caller, stream: int, after: int) -> AsyncGenerator[News]:
    return caller.service.watch_stream(LOCAL, caller.name, stream, after=after)


async def sequences(caller: Caller, stream: int, after: int) -> list[int]:
    """The numbers of all entries until the stream ends."""
    watching = watch(caller, stream, after)
    return [entry.sequence async for entry in watching if isinstance(entry, HistoryEntry)]


async def news_of(caller: Caller, count: int) -> list[News]:
    """The first entries of the default stream's history."""
    watching = watch(caller, 0, after=0)
    return [await anext(watching) for _ in range(count)]


async def test_a_history_reports_outcome_and_times_of_work(caller: Caller) -> None:
    call = await caller.repeatable()
    event = (await caller.run(c.CreateEvent())).event
    began_s = asyncio.get_running_loop().time()
    wait = c.StreamWaitEvent(event=event)
    await caller.submit(call, call, call, c.RecordEvent(event=event), wait)
    for failure in (None, KernelFailed("planted"), None):
        await caller.finish(failure)
    done, failed, _, record, waited = await news_of(caller, 5)
    common: dict[str, Any] = {
        "kind": WorkKind.EXECUTE,
        "handle": call.executor,
        "operator": "im2col_backward",
        "queued_s": began_s,
    }
    assert done == HistoryEntry(
        sequence=1,
        number=1,
        started_s=began_s,
        ended_s=began_s + 1,
        kernel_s=1.0,
        outcome=Outcome.DONE,
        status=None,
        **common,
    )
    assert failed == HistoryEntry(
        sequence=2,
        number=2,
        started_s=began_s,
        ended_s=began_s + 2,
        kernel_s=None,
        outcome=Outcome.FAILED,
        status=Status.ACL_ERROR_RT_AICORE_EXCEPTION,
        **common,
    )
    for entry, kind in ((record, WorkKind.RECORD), (waited, WorkKind.WAIT)):
        assert isinstance(entry, HistoryEntry)
        assert (entry.kind, entry.handle, entry.operator) == (kind, event, "")
        assert entry.outcome is Outcome.DONE
        assert (entry.started_s, entry.ended_s) == (began_s + 3, began_s + 3)


async def test_a_history_reports_aborted_dropped_and_late_work(caller: Caller) -> None:
    call = await caller.repeatable()
    await caller.submit(on(call, 0, 2000), call, on(call, 0, 3000), call)
    await asyncio.sleep(3)
    aborting = asyncio.create_task(caller.run(c.AbortStream()))
    await asyncio.sleep(1)
    await caller.finish()
    await caller.finish()
    await aborting
    entries = await news_of(caller, 4)
    assert [
        (entry.number, entry.outcome, entry.status)
        for entry in entries
        if isinstance(entry, HistoryEntry)
    ] == [
        (3, Outcome.DROPPED, Status.ACL_ERROR_RT_TASK_TIMEOUT),
        (4, Outcome.DROPPED, Status.ACL_ERROR_RT_STREAM_ABORT),
        (1, Outcome.ABORTED, Status.ACL_ERROR_RT_TASK_TIMEOUT),
        (2, Outcome.ABORTED, Status.ACL_ERROR_RT_STREAM_ABORT),
    ]


async def test_a_watcher_waits_for_more_and_ends_with_the_stream(caller: Caller) -> None:
    event = (await caller.run(c.CreateEvent())).event
    (stream,) = await caller.streams(1)
    record = c.RecordEvent(event=event, stream=stream)
    await caller.submit(record, record)

    readers = [asyncio.create_task(sequences(caller, stream, after=1)) for _ in range(3)]
    await asyncio.sleep(1)
    readers.pop().cancel()
    await caller.submit(record)
    assert not any(reader.done() for reader in readers)
    await caller.run(c.DestroyStream(stream=stream))
    assert await asyncio.gather(*readers) == [[2, 3], [2, 3]]


async def test_a_watcher_ends_with_its_session_and_does_not_keep_it(caller: Caller) -> None:
    reader = asyncio.create_task(sequences(caller, 0, after=0))
    await asyncio.sleep(LIMITS.lease_default_s + 1)
    assert await reader == []
    with pytest.raises(HandleNotFound):
        await anext(watch(caller, 0, after=0))


async def test_a_late_watcher_receives_the_numbers_of_lost_entries(caller: Caller) -> None:
    event = (await caller.run(c.CreateEvent())).event
    watching = watch(caller, 0, after=0)
    await caller.submit(c.RecordEvent(event=event))
    first = await anext(watching)
    assert isinstance(first, HistoryEntry)
    beyond = LIMITS.stream_history_limit + 3
    for _ in range(beyond):
        await caller.run(c.RecordEvent(event=event))
    assert await anext(watching) == LostEntries(first=2, last=4)
    rest = [await anext(watching) for _ in range(LIMITS.stream_history_limit)]
    assert [entry.sequence for entry in rest if isinstance(entry, HistoryEntry)] == list(
        range(5, beyond + 2)
    )


async def test_another_tenant_watches_nothing(caller: Caller) -> None:
    stranger = Principal(tenant="stranger", name="nobody", scopes=frozenset())
    with pytest.raises(HandleNotFound):
        await anext(caller.service.watch_stream(stranger, caller.name, 0))
    with pytest.raises(HandleNotFound):
        await anext(watch(caller, 9, after=0))


async def test_a_watch_sends_heartbeats_and_ends_in_time(caller: Caller) -> None:
    caller.name = (await caller.service.open_session(LOCAL, SessionRequest(lease_s=3600))).session
    began_s = asyncio.get_running_loop().time()
    signs = [news async for news in watch(caller, 0, after=0)]
    lasted_s = asyncio.get_running_loop().time() - began_s
    assert lasted_s == LIMITS.watch_limit_s
    assert signs == [NoNews()] * round(LIMITS.watch_limit_s / LIMITS.watch_quiet_limit_s)


async def test_watches_end_when_the_service_drains(caller: Caller) -> None:
    reader = asyncio.create_task(sequences(caller, 0, after=0))
    await asyncio.sleep(1)
    await caller.service.drain()
    assert await asyncio.wait_for(reader, timeout=1) == []


async def test_a_timeline_holds_every_stream_and_the_latest_copies(caller: Caller) -> None:
    event = (await caller.run(c.CreateEvent())).event
    (stream,) = await caller.streams(1)
    await caller.submit(c.RecordEvent(event=event, stream=stream))
    buffer = (await caller.run(c.Allocate(size_bytes=64))).buffer
    began_s = asyncio.get_running_loop().time()
    await caller.run(c.Write(buffer=buffer, data=b""))
    await caller.run(c.Write(buffer=buffer, data=b"12"))
    await caller.run(c.Read(buffer=buffer, size_bytes=3))
    await caller.run(c.Fill(buffer=buffer, size_bytes=4))
    await caller.run(c.Copy(destination=buffer, destination_offset=8, source=buffer, size_bytes=5))
    chunks = caller.service.read(LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=6)
    assert [len(chunk) async for chunk in chunks] == [6]
    timeline = caller.service.timeline(LOCAL, caller.name)
    kinds = {one.stream: [entry.kind for entry in one.entries] for one in timeline.streams}
    assert kinds == {0: [], stream: [WorkKind.RECORD]}
    assert [(copy.kind.value, copy.size_bytes) for copy in timeline.copies] == [
        ("WRITE", 2),
        ("READ", 3),
        ("FILL", 4),
        ("COPY", 5),
        ("READ", 6),
    ]
    assert {copy.buffer for copy in timeline.copies} == {buffer}
    assert {copy.started_s for copy in timeline.copies} == {began_s}
    for _ in range(LIMITS.copy_history_limit):
        await caller.run(c.Fill(buffer=buffer, size_bytes=1))
    copies = caller.service.timeline(LOCAL, caller.name).copies
    assert [copy.size_bytes for copy in copies] == [1] * LIMITS.copy_history_limit


async def test_a_copy_that_failed_is_none(caller: Caller) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"12"

    buffer = (await caller.run(c.Allocate(size_bytes=64))).buffer
    with pytest.raises(InvalidArgument):
        await caller.service.write(
            LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=3, chunks=chunks()
        )
    assert caller.service.timeline(LOCAL, caller.name).copies == ()
