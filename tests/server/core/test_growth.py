"""Calls beside many objects cost as many instructions of the interpreter, and work is counted."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import opserve_server
from opserve_server.core.principal import LOCAL
from opserve_server.core.service import Service
from opserve_server.core.tenants import Tenant
from server.core import every_command as c
from server.core.caller import Caller, on
from server.core.fakes import LIMITS, FakeDevice

_MANY = 40
"""An even number, so that sessions alternate between two devices as before."""
_SOURCE = str(Path(opserve_server.__file__).parent)
Act = Callable[[Caller, c.Execute], Awaitable[object]]


class Instructions:
    """Counts the instructions of the service's code inside a block."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Generator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, _: object) -> "Callable[..., Any] | None":
        del event
        if not frame.f_code.co_filename.startswith(_SOURCE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, _: FrameType, event: str, __: object) -> "Callable[..., Any]":
        self.count += event == "opcode"
        return self._step


async def roomy_caller() -> Caller:
    """A caller with room for many objects, on one of two devices, which ends calls at once."""
    caller = Caller()
    caller.device.auto = True
    many = 8 * _MANY
    limits = replace(
        LIMITS,
        sessions_limit=many,
        device_sessions_limit=many,
        buffers_limit=many,
        executors_limit=many,
        streams_limit=many,
        events_limit=many,
        stream_history_limit=many,
        copy_history_limit=many,
        request_ids_limit=many,
    )
    caller.service = Service([caller.device, FakeDevice(name="second")], limits=limits)
    await caller.open()
    return caller


async def session(caller: Caller, _: c.Execute) -> None:
    await caller.service.open_session(LOCAL)


async def tenant(caller: Caller, _: c.Execute) -> None:
    """Adds a tenant with a session."""
    tenants = [account.tenant for account in caller.service.accounts]
    name = f"tenant-{len(tenants)}"
    caller.service.renew_tenants([*tenants, Tenant(name=name)])
    await caller.service.open_session(replace(LOCAL, tenant=name))


async def buffer(caller: Caller, _: c.Execute) -> None:
    await caller.buffer(512)


async def executor(caller: Caller, _: c.Execute) -> None:
    await caller.plan()


async def stream(caller: Caller, execute: c.Execute) -> None:
    """Adds a stream with work in its history."""
    await call(caller, replace(execute, stream=(await caller.streams(1))[0]))


async def event(caller: Caller, _: c.Execute) -> None:
    created = (await caller.run(c.CreateEvent())).event
    await caller.run(c.RecordEvent(event=created))


async def call(caller: Caller, execute: c.Execute) -> None:
    """Makes a call, which also adds to the histories of its stream and of copies."""
    await caller.run(c.Fill(buffer=execute.workspace, size_bytes=8))
    await caller.run(execute)
    await caller.run(c.SynchronizeStream(stream=execute.stream))
    await caller.run(c.QueryStream(stream=execute.stream))


async def open_and_close(caller: Caller, _: c.Execute) -> None:
    opened = await caller.service.open_session(LOCAL)
    await caller.service.close_session(LOCAL, opened.session)


async def watch_devices(caller: Caller, _: c.Execute) -> None:
    """Reads what the page of metrics has of devices."""
    caller.service.list_devices(LOCAL)
    caller.service.waiting_entries()


async def allocate_and_free(caller: Caller, _: c.Execute) -> None:
    await caller.run(c.Free(buffer=await caller.buffer(512)))


async def create_and_destroy(caller: Caller, _: c.Execute) -> None:
    (created,) = await caller.streams(1)
    await caller.run(c.DestroyStream(stream=created))


@pytest.mark.parametrize("grown", [session, tenant, buffer, executor, stream, event, call])
@pytest.mark.parametrize(
    "act", [call, open_and_close, watch_devices, allocate_and_free, create_and_destroy]
)
async def test_a_call_runs_as_many_instructions_beside_many_objects(act: Act, grown: Act) -> None:
    caller = await roomy_caller()
    execute = await caller.repeatable()
    for _ in range(2):  # fills caches, of both devices
        await act(caller, execute)
        await grown(caller, execute)
    before, after = Instructions(), Instructions()
    await asyncio.sleep(1)  # virtual: what is ending has ended
    with before.counted():
        await act(caller, execute)
    for _ in range(_MANY):
        await grown(caller, execute)
    await asyncio.sleep(1)
    with after.counted():
        await act(caller, execute)
    await caller.service.stop()
    assert after.count == before.count > 0


async def test_entries_wait_until_they_run_are_dropped_or_their_session_ends(
    caller: Caller,
) -> None:
    def waiting() -> int:
        (entries,) = caller.service.waiting_entries().values()
        return entries

    execute = await caller.repeatable()
    queued = [on(execute, handle) for handle in await caller.streams(2)] * 12
    await caller.submit(*queued)
    at_device = len(caller.device.held)
    assert waiting() == len(queued) - at_device > 0
    await caller.finish()
    assert waiting() == len(queued) - at_device - 1
    aborted = asyncio.create_task(caller.run(c.AbortStream(stream=queued[0].stream)))
    await asyncio.sleep(1)
    assert 0 < waiting() < len(queued) // 2
    closed = asyncio.create_task(caller.service.close_session(LOCAL, caller.name))
    await asyncio.sleep(1)
    assert waiting() == 0
    while caller.device.held:
        await caller.finish()
    await asyncio.gather(aborted, closed, return_exceptions=True)


USES: dict[str, Callable[[int], c.Command]] = {
    "read": lambda buffer: c.Read(buffer=buffer, size_bytes=8),
    "write": lambda buffer: c.Write(buffer=buffer, data=bytes(8)),
    "fill": lambda buffer: c.Fill(buffer=buffer, size_bytes=8),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_calls_that_wait_for_a_buffer_cost_as_much_beside_many_of_them(
    use: Callable[[int], c.Command],
) -> None:
    """Each call waits for the work of the one before it, which is queued during the wait."""

    async def cost_of_each(calls: int) -> float:
        caller = await roomy_caller()
        execute = await caller.repeatable()
        batch = [use(execute.workspace), execute, c.SynchronizeStream()]
        counted = Instructions()
        with counted.counted():
            await asyncio.gather(
                *(caller.service.submit(LOCAL, caller.name, batch) for _ in range(calls))
            )
        assert len(caller.device.calls) == calls
        await caller.service.stop()
        return counted.count / calls

    assert await cost_of_each(2 * _MANY) < 1.2 * await cost_of_each(_MANY)
