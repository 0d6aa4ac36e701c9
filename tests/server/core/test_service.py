"""What the core refuses, and that nothing has changed afterwards."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from opserve_kernels.im2col_backward.schema import Im2colBackward
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core import commands as c
from opserve_server.core.errors import (
    ExecutionFailed,
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    OpserveError,
    OutOfMemory,
    Unavailable,
    WaitTimedOut,
    WrongState,
)
from opserve_server.core.principal import LOCAL
from opserve_server.core.service import Service
from opserve_server.pool.device import KernelFailed
from server.core.fakes import KIB, LIMITS, FakeDevice, make_service

SIZE = 4 * KIB


class Caller:
    """A session on a device that ends calls when the test says so."""

    def __init__(self) -> None:
        self.device = FakeDevice(auto=False)
        self.service: Service = make_service(self.device)
        self.name = ""

    async def open(self) -> None:
        self.name = (await self.service.open_session(LOCAL)).session

    async def run(self, command: c.Command) -> Any:
        return await self.service.run(LOCAL, self.name, command)

    async def refused(self, command: c.Command) -> OpserveError:
        with pytest.raises(OpserveError) as refusal:
            await self.run(command)
        assert refusal.value.message
        return refusal.value

    async def buffer(self, size: int = SIZE) -> int:
        handle: int = (await self.run(c.Allocate(size_bytes=size))).buffer
        return handle

    async def plan(self, **changes: Any) -> c.Planned:
        """Columns (9, 4) of float16, which need a workspace, summed into an image (1, 4, 4)."""
        arguments = Im2colBackward(
            grad_output=Tensor(
                shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9), buffer=await self.buffer()
            ),
            input_size=(4, 4),
            kernel_size=(3, 3),
            dilation=(1, 1),
            padding=(0, 0),
            stride=(1, 1),
            out=Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, buffer=await self.buffer()),
        )
        command = c.GetWorkspaceSize(
            operator="im2col_backward", arguments=replace(arguments, **changes)
        )
        planned: c.Planned = await self.run(command)
        assert planned.workspace_size > 0
        return planned

    async def execute(self, planned: c.Planned, *, stream: int = 0) -> int:
        """Executes on a workspace of the planned size; its handle."""
        workspace = await self.buffer(planned.workspace_size)
        await self.run(c.Execute(executor=planned.executor, workspace=workspace, stream=stream))
        await asyncio.sleep(0)
        return workspace


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    caller = Caller()
    await caller.open()
    yield caller
    caller.device.auto = True
    for held in caller.device.held:
        held.done.set_result(None)
    await caller.service.stop()
    assert caller.device.slabs.free_bytes == caller.device.memory_bytes, "memory is lost"
    caller.device.slabs.close()


# Memory


async def test_allocating_nothing_is_refused_as_the_vendor_does(caller: Caller) -> None:
    assert (await caller.refused(c.Allocate())).status == Status.ACL_ERROR_INVALID_PARAM


async def test_memory_runs_out_with_the_vendors_code_and_comes_back(caller: Caller) -> None:
    whole = await caller.buffer(caller.device.memory_bytes)
    refusal = await caller.refused(c.Allocate(size_bytes=1))
    assert isinstance(refusal, OutOfMemory)
    assert refusal.status == Status.ACL_ERROR_RT_MEMORY_ALLOCATION
    await caller.run(c.Free(buffer=whole))
    assert await caller.buffer() == whole + 1, "the refused allocation used no handle"


async def test_idle_memory_of_one_session_serves_another(caller: Caller) -> None:
    await caller.run(c.Free(buffer=await caller.buffer(caller.device.memory_bytes)))
    other = (await caller.service.open_session(LOCAL)).session
    command = c.Allocate(size_bytes=caller.device.memory_bytes)
    await caller.service.run(LOCAL, other, command)


async def test_memory_is_zero_when_a_session_first_gets_it(caller: Caller) -> None:
    buffer = await caller.buffer()
    await caller.run(c.Fill(buffer=buffer, size_bytes=SIZE, value=255))
    await caller.service.close_session(LOCAL, caller.name)
    await caller.open()
    content = await caller.run(c.Read(buffer=await caller.buffer(), size_bytes=SIZE))
    assert content.data == bytes(SIZE)


@pytest.mark.parametrize(
    ("offset", "size"), [(0, SIZE + 1), (SIZE, 1), (-1, 1), (1, -1), (2**63, 2**63)]
)
async def test_a_range_that_leaves_its_buffer_is_refused(
    caller: Caller, offset: int, size: int
) -> None:
    buffer = await caller.buffer()
    for command in (
        c.Read(buffer=buffer, offset=offset, size_bytes=size),
        c.Fill(buffer=buffer, offset=offset, size_bytes=size),
        c.Copy(destination=buffer, source=buffer, source_offset=offset, size_bytes=size),
    ):
        refusal = await caller.refused(command)
        assert refusal.status == Status.ACL_ERROR_RT_PARAM_INVALID


async def test_copies_within_a_buffer_may_not_overlap(caller: Caller) -> None:
    buffer = await caller.buffer()
    await caller.run(c.Write(buffer=buffer, data=b"abcd"))
    overlapping = c.Copy(destination=buffer, destination_offset=3, source=buffer, size_bytes=4)
    assert (await caller.refused(overlapping)).parameter == "source_offset"
    await caller.run(replace(overlapping, destination_offset=4))
    assert (await caller.run(c.Read(buffer=buffer, size_bytes=8))).data == b"abcdabcd"


async def test_a_copy_waits_for_the_work_on_its_buffer(caller: Caller) -> None:
    buffer = await caller.buffer()
    columns = Tensor(shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9), buffer=buffer)
    await caller.execute(await caller.plan(grad_output=columns))
    reading = asyncio.create_task(caller.run(c.Read(buffer=buffer, size_bytes=1)))
    await asyncio.sleep(1)
    assert not reading.done()
    caller.device.finish(caller.device.held[0])
    await reading


# Executors


async def test_an_executor_runs_once(caller: Caller) -> None:
    planned = await caller.plan()
    workspace = await caller.execute(planned)
    refusal = await caller.refused(c.Execute(executor=planned.executor, workspace=workspace))
    assert isinstance(refusal, HandleNotFound)
    assert "no longer there" in refusal.message
    assert len(caller.device.calls) == 1


async def test_a_repeatable_executor_runs_until_it_is_destroyed(caller: Caller) -> None:
    planned = await caller.plan()
    await caller.run(c.SetRepeatable(executor=planned.executor))
    await caller.execute(planned)
    await caller.execute(planned)
    await caller.run(c.DestroyExecutor(executor=planned.executor))
    assert isinstance(await caller.refused(c.Execute(executor=planned.executor)), HandleNotFound)


async def test_a_missing_workspace_ends_the_executor_as_the_vendor_does(caller: Caller) -> None:
    planned = await caller.plan()
    refusal = await caller.refused(c.Execute(executor=planned.executor))
    assert refusal.status == Status.ACLNN_ERR_PARAM_NULLPTR
    assert isinstance(await caller.refused(c.Execute(executor=planned.executor)), HandleNotFound)


async def test_other_bad_workspaces_are_refused_and_the_executor_stays(caller: Caller) -> None:
    planned = await caller.plan()
    needed = planned.workspace_size
    small, large = await caller.buffer(needed - 1), await caller.buffer(needed + 512)
    command = c.Execute(executor=planned.executor, workspace=large)
    for broken, parameter in (
        (replace(command, workspace=small), "workspace_size"),
        (replace(command, workspace_size=needed - 1), "workspace_size"),
        (replace(command, workspace_size=needed + 513), "workspace_size"),
        (replace(command, workspace_offset=1024), "workspace_size"),
        (replace(command, workspace_offset=8), "workspace_offset"),
        (replace(command, workspace_offset=-512), "workspace_offset"),
    ):
        refusal = await caller.refused(broken)
        assert refusal.status == Status.ACLNN_ERR_PARAM_INVALID
        assert refusal.parameter == parameter
    await caller.run(replace(command, workspace_offset=512, workspace_size=needed))


async def test_a_workspace_on_top_of_a_tensor_is_refused(caller: Caller) -> None:
    shared = await caller.buffer(8 * KIB)
    out = Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, buffer=shared)
    planned = await caller.plan(out=out)
    refusal = await caller.refused(c.Execute(executor=planned.executor, workspace=shared))
    assert (refusal.status, refusal.parameter) == (Status.ACLNN_ERR_PARAM_INVALID, "workspace")
    await caller.run(c.Execute(executor=planned.executor, workspace=shared, workspace_offset=512))


async def test_an_output_that_overlaps_an_input_is_refused(caller: Caller) -> None:
    shared = await caller.buffer()
    columns = Tensor(shape=(9, 4), dtype=DataType.FLOAT, buffer=shared)
    out = Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, buffer=shared, offset=35)
    with pytest.raises(InvalidArgument) as refusal:
        await caller.plan(grad_output=columns, out=out)
    assert refusal.value.parameter == "out"


async def test_a_freed_buffer_is_refused_in_both_phases(caller: Caller) -> None:
    buffer = await caller.buffer()
    out = Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, buffer=buffer)
    planned = await caller.plan(out=out)
    workspace = await caller.buffer(planned.workspace_size)
    await caller.run(c.Free(buffer=buffer))
    with pytest.raises(HandleNotFound):
        await caller.plan(out=out)
    refusal = await caller.refused(c.Execute(executor=planned.executor, workspace=workspace))
    assert isinstance(refusal, HandleNotFound)
    fresh = c.SetTensorBuffer(executor=planned.executor, index=1, buffer=await caller.buffer())
    await caller.run(fresh)
    await caller.run(c.Execute(executor=planned.executor, workspace=workspace))


@pytest.mark.parametrize("index", [-1, 2, 100])
async def test_a_tensor_that_is_not_there_gets_no_buffer(caller: Caller, index: int) -> None:
    planned = await caller.plan()
    buffer = await caller.buffer()
    command = c.SetTensorBuffer(executor=planned.executor, index=index, buffer=buffer)
    assert (await caller.refused(command)).status == Status.ACLNN_ERR_PARAM_INVALID


async def test_a_buffer_too_small_for_its_tensor_is_refused(caller: Caller) -> None:
    planned = await caller.plan()
    small = c.SetTensorBuffer(executor=planned.executor, index=1, buffer=await caller.buffer(63))
    assert (await caller.refused(small)).status == Status.ACLNN_ERR_PARAM_INVALID


# Streams and events


async def test_a_failure_surfaces_once_at_synchronise_and_names_its_executor(
    caller: Caller,
) -> None:
    planned = await caller.plan()
    await caller.execute(planned)
    caller.device.finish(caller.device.held[0], KernelFailed("planted"))
    with pytest.raises(ExecutionFailed) as failure:
        await caller.run(c.SynchronizeStream())
    assert failure.value.executor == planned.executor
    await caller.run(c.SynchronizeStream())


async def test_synchronise_gives_up_with_the_vendors_codes(caller: Caller) -> None:
    event = (await caller.run(c.CreateEvent())).event
    await caller.execute(await caller.plan())
    await caller.run(c.RecordEvent(event=event))
    for command, status in (
        (c.SynchronizeStream(timeout_ms=10), Status.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT),
        (c.SynchronizeEvent(event=event, timeout_ms=10), Status.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT),
        (c.SynchronizeStream(), Status.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT),
    ):
        refusal = await caller.refused(command)
        assert isinstance(refusal, WaitTimedOut)
        assert refusal.status == status
    assert isinstance(await caller.refused(c.SynchronizeStream(timeout_ms=-2)), InvalidArgument)


async def test_a_stream_in_stop_mode_drops_what_is_behind_a_failure(caller: Caller) -> None:
    stream = (await caller.run(c.CreateStream())).stream
    await caller.run(c.SetFailureMode(stream=stream, mode=c.FailureMode.STOP))
    again = c.SetFailureMode(stream=stream, mode=c.FailureMode.CONTINUE)
    assert isinstance(await caller.refused(again), InvalidArgument)
    for _ in range(2):
        await caller.execute(await caller.plan(), stream=stream)
    caller.device.finish(caller.device.held[0], KernelFailed("planted"))
    assert isinstance(await caller.refused(c.SynchronizeStream(stream=stream)), ExecutionFailed)
    assert len(caller.device.calls) == 1
    planned = await caller.plan()
    workspace = await caller.buffer(planned.workspace_size)
    command = c.Execute(executor=planned.executor, workspace=workspace)
    refusal = await caller.refused(command)
    assert isinstance(refusal, WrongState)
    assert refusal.status == Status.ACL_ERROR_RT_STREAM_ABORT
    assert isinstance(await caller.refused(c.DestroyStream(stream=stream)), ExecutionFailed)
    await caller.run(command)


async def test_the_time_between_events_needs_both_records(caller: Caller) -> None:
    start = (await caller.run(c.CreateEvent())).event
    end = (await caller.run(c.CreateEvent())).event
    elapsed = c.EventElapsedTime(start=start, end=end)
    assert (await caller.refused(elapsed)).status == Status.ACL_ERROR_RT_INTERNAL_ERROR
    await caller.run(c.RecordEvent(event=start))
    await caller.execute(await caller.plan())
    await caller.run(c.RecordEvent(event=end))
    assert (await caller.refused(elapsed)).status == Status.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID
    await asyncio.sleep(0.25)
    caller.device.finish(caller.device.held[0])
    await caller.run(c.SynchronizeEvent(event=end))
    assert (await caller.run(elapsed)).elapsed_ms == pytest.approx(250.0)


async def test_the_default_stream_cannot_be_destroyed(caller: Caller) -> None:
    assert isinstance(await caller.refused(c.DestroyStream()), InvalidArgument)


# Sessions, batches and retries


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
