"""Refusals of commands, which change nothing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core import memory_commands, transfers
from opserve_server.core.errors import (
    ExecutionFailed,
    HandleNotFound,
    InvalidArgument,
    OutOfMemory,
    WaitTimedOut,
    WrongState,
)
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Resource
from opserve_server.pool.device import KernelFailed
from opserve_server.pool.slabs import Slab
from server.core import every_command as c
from server.core.caller import SIZE, Caller
from server.core.fakes import KIB, FakeDevice

# Memory


async def test_allocating_nothing_is_refused_as_the_vendor_does(caller: Caller) -> None:
    assert (await caller.refused(c.Allocate())).status == Status.ACL_ERROR_INVALID_PARAM


async def test_exhausted_memory_has_the_vendors_code_and_is_available_after_a_free(
    caller: Caller,
) -> None:
    whole = await caller.buffer(caller.device.memory_bytes)
    refusal = await caller.refused(c.Allocate(size_bytes=1))
    assert isinstance(refusal, OutOfMemory)
    assert refusal.status == Status.ACL_ERROR_RT_MEMORY_ALLOCATION
    await caller.run(c.Free(buffer=whole))
    assert await caller.buffer() == whole + 1, "the refused allocation used no handle"


async def test_a_chosen_handle_is_greater_than_every_one_before_it(caller: Caller) -> None:
    last = await caller.buffer()
    await caller.run(c.Free(buffer=last))
    assert isinstance(
        await caller.refused(c.Allocate(size_bytes=SIZE, buffer=last)), InvalidArgument
    )
    made = await caller.run(c.Allocate(size_bytes=SIZE, buffer=last + 1))
    assert made.buffer == last + 1


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


async def test_long_memory_work_lets_other_calls_through(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in ("_SLICE_BYTES", "_AT_ONCE_BYTES"):
        monkeypatch.setattr(memory_commands, size, KIB)
    buffer = await caller.buffer(64 * KIB)
    command = c.Fill(buffer=buffer, size_bytes=64 * KIB, value=1)
    filling = asyncio.create_task(caller.run(command))
    await asyncio.sleep(0)
    await caller.run(c.Free(buffer=buffer))
    assert not filling.done(), "the loop stood still"
    await filling


async def test_no_call_computes_where_a_copy_writes(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in ("_SLICE_BYTES", "_AT_ONCE_BYTES"):
        monkeypatch.setattr(memory_commands, size, KIB)
    planned = await caller.plan()
    await caller.run(c.SetRepeatable(executor=planned.executor))
    workspace, source = await caller.buffer(2 * SIZE), await caller.buffer(2 * SIZE)
    execute = c.Execute(executor=planned.executor, workspace=workspace)
    caller.device.auto = True
    for copying in (
        c.Fill(buffer=workspace, size_bytes=2 * SIZE, value=1),
        c.Copy(destination=workspace, source=source, size_bytes=2 * SIZE),
    ):
        copied = asyncio.create_task(caller.run(copying))
        await asyncio.sleep(0)
        await caller.run(execute)
        assert not copied.done()
        await copied
        await caller.run(c.SynchronizeStream())
        await caller.run(execute)
        await caller.run(c.SynchronizeStream())
        meanwhile, behind = (call.workspace for call in caller.device.calls[-2:])
        assert meanwhile is not None
        assert behind is not None
        assert abs(meanwhile.offset - behind.offset) >= 2 * SIZE


async def test_transfers_that_wait_for_nothing_let_other_calls_through(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "_TURN_BYTES", 8 * KIB)
    buffer, size = await caller.buffer(64 * KIB), 64 * KIB

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(size // KIB):
            yield bytes(KIB)

    async def read() -> list[bytes]:
        reading = caller.service.read(LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=size)
        return [chunk async for chunk in reading]

    write = caller.service.write(
        LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=size, chunks=chunks()
    )
    for work in (write, read()):
        transfer = asyncio.create_task(work)
        await asyncio.sleep(0)
        await caller.run(c.QueryStream())
        assert not transfer.done(), "the loop stood still"
        await transfer


async def test_a_slab_that_the_device_does_not_take_is_not_lost(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attach(_: FakeDevice, slab: Slab) -> None:
        raise OSError(f"planted for slab {slab.id}")

    with monkeypatch.context() as patch:
        patch.setattr(FakeDevice, "attach", attach)
        with pytest.raises(OutOfMemory, match="no more memory or descriptors now") as refusal:
            await caller.buffer()
    assert refusal.value.status is Status.ACL_ERROR_RT_MEMORY_ALLOCATION
    await caller.buffer(caller.device.memory_bytes)


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


@pytest.mark.parametrize("strides", [(0, 0, 0), (16, 0, 1), (1, 1, 1), (16, 2, 2), (16, 2, 1)])
async def test_an_output_that_overlaps_itself_is_refused(
    caller: Caller, strides: tuple[int, ...]
) -> None:
    out = Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, strides=strides)
    with pytest.raises(InvalidArgument) as refusal:
        await caller.plan(out=replace(out, buffer=await caller.buffer()))
    assert refusal.value.parameter == "out.strides"
    apart = replace(out, strides=(0, 1, 4), buffer=await caller.buffer())
    await caller.plan(out=apart)


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
async def test_an_absent_tensor_gets_no_buffer(caller: Caller, index: int) -> None:
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


async def test_synchronise_times_out_with_the_vendors_codes(caller: Caller) -> None:
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


async def test_an_upload_counts_while_it_waits_for_work_and_is_no_larger_than_what_counts(
    caller: Caller,
) -> None:
    buffer = await caller.buffer()
    columns = Tensor(shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9), buffer=buffer)
    await caller.execute(await caller.plan(grad_output=columns))

    async def parts(data: bytes) -> AsyncIterator[bytes]:
        yield data

    async def write(data: bytes) -> None:
        await caller.service.write(
            LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=4, chunks=parts(data)
        )

    uploading = asyncio.create_task(write(b"abcd"))
    await asyncio.sleep(1)
    account = caller.service.accounts.of(LOCAL.tenant)
    assert account.use(Resource.BYTES_IN_FLIGHT) == 4
    with pytest.raises(InvalidArgument, match="announced"):
        await asyncio.wait_for(write(bytes(5)), 1)
    caller.device.finish(caller.device.held[0])
    await uploading
    assert account.use(Resource.BYTES_IN_FLIGHT) == 0
