"""Run: a whole call in one step, of which nothing stays in its session."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from opserve_kernels.operators.im2col_backward.schema import Im2colBackward
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core.errors import ExecutionFailed, OpserveError
from opserve_server.core.history import Outcome
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Quota, Tenant
from opserve_server.core.whole_calls import Computed, WholeCall
from opserve_server.pool.device import KernelFailed
from server.core import every_command as c
from server.core.caller import Caller
from server.core.fakes import LIMITS

COLUMNS = Tensor(shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9))
IMAGE = Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT)
ELEMENTS = bytes(range(72))
OUTPUT_BYTES = 64


def whole(inputs: Mapping[int, bytes] | None = None, **changes: Any) -> WholeCall:
    """Columns (9, 4) of float16, which need a workspace, summed into an image (1, 4, 4)."""
    arguments = Im2colBackward(
        grad_output=COLUMNS,
        input_size=(4, 4),
        kernel_size=(3, 3),
        dilation=(1, 1),
        padding=(0, 0),
        stride=(1, 1),
        out=IMAGE,
    )
    plan = c.GetWorkspaceSize(operator="im2col_backward", arguments=replace(arguments, **changes))
    return WholeCall(plan=plan, inputs={0: ELEMENTS} if inputs is None else inputs)


async def compute(caller: Caller, call: WholeCall) -> Computed:
    return await caller.service.compute(LOCAL, caller.name, call)


async def begun(caller: Caller, call: WholeCall) -> "asyncio.Task[Computed]":
    """The call, once the device has it."""
    task = asyncio.create_task(compute(caller, call))
    await asyncio.sleep(1)
    assert caller.device.held
    return task


async def refused(caller: Caller, call: WholeCall) -> OpserveError:
    with pytest.raises(OpserveError) as refusal:
        await compute(caller, call)
    await asyncio.sleep(1)
    assert whole_device_is_free(caller)
    return refusal.value


def whole_device_is_free(caller: Caller) -> bool:
    """Whether the session has no memory in use, and no handle."""
    session = caller.service._sessions.get(LOCAL, caller.name)
    session.memory.give_back_empty_slabs()
    tables = (session.buffers, session.executors)
    return session.memory.size_bytes == 0 and all(table.last == 0 for table in tables)


async def test_inputs_go_to_the_device_and_outputs_come_back(caller: Caller) -> None:
    task = await begun(caller, whole())
    (held,) = caller.device.held
    columns, image = held.call.tensors
    assert columns is not None
    assert image is not None
    assert caller.device._bytes(held.call)[0] == ELEMENTS
    memory = caller.device.attached[image.slab].memory
    memory[image.offset : image.offset + OUTPUT_BYTES] = result = bytes(range(100, 164))
    await asyncio.sleep(0)
    held.before = caller.device._bytes(held.call)
    await caller.finish()
    assert (await task).outputs == {1: result}
    assert whole_device_is_free(caller)


async def test_each_tensor_and_the_workspace_have_memory_of_their_own(caller: Caller) -> None:
    task = await begun(caller, whole())
    call = caller.device.held[0].call
    regions = [region for region in (*call.tensors, call.workspace) if region is not None]
    assert len(regions) == 3
    ranges = sorted((region.offset, region.offset + region.size_bytes) for region in regions)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
    assert all(start % 512 == 0 for start, _ in ranges)
    await caller.finish()
    await task


async def test_tensors_may_be_on_the_device(caller: Caller) -> None:
    columns, image = await caller.buffer(1024), await caller.buffer(1024)
    await caller.run(c.Write(buffer=columns, offset=2, data=ELEMENTS))
    there = replace(COLUMNS, buffer=columns, offset=1)
    call = whole({}, grad_output=there, out=replace(IMAGE, buffer=image, offset=3))
    task = await begun(caller, call)
    first, second = caller.device.held[0].call.tensors
    assert first is not None
    assert second is not None
    assert caller.device._bytes(caller.device.held[0].call)[0][2:74] == ELEMENTS
    await caller.run(c.Free(buffer=columns))  # takes effect after the call
    await caller.finish()
    await caller.run(c.Write(buffer=image, offset=12, data=b"\7" * OUTPUT_BYTES))
    assert len((await task).outputs[1]) == OUTPUT_BYTES
    assert (await caller.run(c.Read(buffer=image, size_bytes=1024))).data[12:13] == b"\7"


@pytest.mark.parametrize(
    ("call", "status", "parameter"),
    [
        (whole({}), Status.ACLNN_ERR_PARAM_NULLPTR, "grad_output"),
        (whole({0: ELEMENTS[1:]}), Status.ACLNN_ERR_PARAM_INVALID, "inputs.data"),
        (whole({0: ELEMENTS, 1: b""}), Status.ACLNN_ERR_PARAM_INVALID, "inputs.index"),
        (whole({0: ELEMENTS, 2: b""}), Status.ACLNN_ERR_PARAM_INVALID, "inputs.index"),
        (whole(stride=(0, 1)), Status.ACLNN_ERR_PARAM_INVALID, "stride"),
        (whole(out=None), Status.ACLNN_ERR_PARAM_NULLPTR, "out"),
        (
            whole(grad_output=replace(COLUMNS, buffer=9)),
            Status.ACL_ERROR_RT_INVALID_HANDLE,
            "buffer",
        ),
    ],
    ids=["no bytes", "too few", "an output", "no tensor", "a rule", "a null", "a dead buffer"],
)
async def test_a_call_that_is_refused_leaves_nothing(
    caller: Caller, call: WholeCall, status: Status, parameter: str
) -> None:
    error = await refused(caller, call)
    assert error.status is status
    assert error.parameter.startswith(parameter)


async def test_tensors_of_more_bytes_than_a_batch_are_refused(caller: Caller) -> None:
    fits = LIMITS.submit_bytes_limit // 4 - IMAGE.element_count - 18  # beside the columns
    caller.device.auto = True
    assert (await compute(caller, whole(out=replace(IMAGE, offset=fits)))).outputs
    error = await refused(caller, whole(out=replace(IMAGE, offset=fits + 1)))
    assert (error.status, error.parameter) == (Status.ACL_ERROR_RT_OVER_LIMIT, "tensors")
    assert error.given == str(LIMITS.submit_bytes_limit + 4)


async def test_outputs_on_the_device_of_more_bytes_than_a_batch_are_refused(
    caller: Caller,
) -> None:
    there = replace(IMAGE, buffer=await caller.buffer(2 * LIMITS.submit_bytes_limit))
    gaps = LIMITS.submit_bytes_limit // 4 // 3 - 1  # of rows, whose last one begins after three
    caller.device.auto = True
    assert (await compute(caller, whole(out=replace(there, strides=(0, gaps, 1))))).outputs
    with pytest.raises(OpserveError) as refusal:
        await compute(caller, whole(out=replace(there, strides=(0, gaps + 1, 1))))
    assert refusal.value.status is Status.ACL_ERROR_RT_OVER_LIMIT
    assert refusal.value.parameter == "outputs"


async def test_memory_that_the_quota_does_not_allow_is_refused(caller: Caller) -> None:
    account = caller.service.accounts.of(LOCAL.tenant)
    account.renew(Tenant(name=LOCAL.tenant, quota=Quota(device_memory_bytes=1)))
    assert (await refused(caller, whole())).status is Status.ACL_ERROR_RT_MEMORY_ALLOCATION


async def test_memory_that_the_device_does_not_have_is_refused(caller: Caller) -> None:
    await caller.buffer(caller.device.memory_bytes)
    with pytest.raises(OpserveError, match="free a buffer") as refusal:
        await compute(caller, whole())
    assert refusal.value.status is Status.ACL_ERROR_RT_MEMORY_ALLOCATION
    assert refusal.value.parameter == "tensors"


async def test_a_call_that_fails_reports_so_and_leaves_nothing(caller: Caller) -> None:
    task = await begun(caller, whole())
    await caller.finish(KernelFailed("planted"))
    with pytest.raises(ExecutionFailed, match="planted"):
        await task
    assert whole_device_is_free(caller)
    assert await caller.run(c.SynchronizeStream())  # the error was raised


async def test_a_call_that_was_given_up_is_stopped_and_keeps_its_memory_until_then(
    caller: Caller,
) -> None:
    task = await begun(caller, whole())
    queued = [asyncio.create_task(compute(caller, whole())) for _ in range(4)]
    await asyncio.sleep(1)
    for each in (task, *queued):
        each.cancel()
    await asyncio.sleep(1)
    assert all(each.cancelled() for each in (task, *queued))
    assert len(caller.device.held) == 2, "calls that had not begun are dropped"
    assert all(held.stopping for held in caller.device.held)
    with pytest.raises(OpserveError, match="are free"):
        await caller.buffer(caller.device.memory_bytes)
    await caller.finish()  # which finds its memory as it was
    await caller.finish(KernelFailed("planted"))
    assert whole_device_is_free(caller)
    task = await begun(caller, whole())  # which gets no error of another call
    await caller.finish()
    assert (await task).outputs


@pytest.mark.parametrize("failing", [(0,), (1,), (0, 1)])
async def test_each_of_two_calls_has_its_own_outcome(
    caller: Caller, failing: tuple[int, ...]
) -> None:
    tasks = [await begun(caller, whole()), await begun(caller, whole())]
    first, second = caller.device.held
    for place, held in enumerate((first, second)):  # in one turn of the event loop
        caller.device.end(held, KernelFailed(f"planted {place}") if place in failing else None)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for place, outcome in enumerate(outcomes):
        if place in failing:
            assert isinstance(outcome, ExecutionFailed)
            assert f"planted {place}" in outcome.message
            assert "Executor" not in outcome.message
        else:
            assert isinstance(outcome, Computed)
    assert await caller.run(c.SynchronizeStream())  # which has no error of a whole call


async def test_an_error_of_an_executor_is_left_to_synchronize(caller: Caller) -> None:
    await caller.execute(await caller.plan())
    await caller.finish(KernelFailed("planted"))
    task = await begun(caller, whole())
    await caller.finish()
    assert (await task).outputs
    assert "planted" in (await caller.refused(c.SynchronizeStream())).message


async def test_an_abort_of_the_stream_fails_every_whole_call(caller: Caller) -> None:
    tasks = [asyncio.create_task(compute(caller, whole())) for _ in range(4)]
    await asyncio.sleep(1)
    aborting = asyncio.create_task(caller.run(c.AbortStream()))
    await asyncio.sleep(1)
    while caller.device.held:
        await caller.finish()
    await aborting
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, ExecutionFailed)
        assert outcome.status is Status.ACL_ERROR_RT_STREAM_ABORT
    assert whole_device_is_free(caller)


async def test_whole_calls_behind_a_failure_in_stop_mode_fail(caller: Caller) -> None:
    await caller.run(c.SetFailureMode(mode=c.FailureMode.STOP))
    tasks = [asyncio.create_task(compute(caller, whole())) for _ in range(3)]
    await asyncio.sleep(1)
    await caller.finish(KernelFailed("planted"))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, ExecutionFailed) for outcome in outcomes)
    error = await refused(caller, whole())
    assert error.status is Status.ACL_ERROR_RT_STREAM_ABORT


async def test_a_whole_call_ends_within_the_limit_of_a_wait(caller: Caller) -> None:
    task = await begun(caller, whole())
    await asyncio.sleep(LIMITS.wait_limit_s)
    assert caller.device.held[0].stopping
    await caller.finish()
    with pytest.raises(ExecutionFailed, match="deadline") as raised:
        await task
    assert raised.value.status is Status.ACL_ERROR_RT_TASK_TIMEOUT


async def test_a_session_that_ends_ends_its_whole_calls(caller: Caller) -> None:
    task = await begun(caller, whole())
    closing = asyncio.create_task(caller.service.close_session(LOCAL, caller.name))
    await asyncio.sleep(1)
    assert caller.device.held[0].stopping
    caller.device.finish(caller.device.held[0])
    await closing
    with pytest.raises(OpserveError) as raised:
        await task
    assert raised.value.status is Status.ACL_ERROR_RT_INVALID_HANDLE


async def test_a_whole_call_runs_behind_the_work_of_the_default_stream(caller: Caller) -> None:
    await caller.execute(await caller.plan())
    task = await begun(caller, whole())
    await caller.finish()
    assert not task.done()
    await caller.finish()
    assert (await task).outputs


async def test_a_whole_call_is_in_the_timeline(caller: Caller) -> None:
    task = await begun(caller, whole())
    await caller.finish()
    await task
    timeline = caller.service.timeline(LOCAL, caller.name)
    assert [(copy.kind.value, copy.size_bytes) for copy in timeline.copies] == [
        ("WRITE", len(ELEMENTS)),
        ("READ", OUTPUT_BYTES),
    ]
    (stream,) = timeline.streams
    assert [(entry.operator, entry.outcome) for entry in stream.entries] == [
        ("im2col_backward", Outcome.DONE)
    ]


async def test_a_draining_service_takes_no_whole_call(caller: Caller) -> None:
    caller.device.auto = True
    draining = asyncio.create_task(caller.service.drain())
    await asyncio.sleep(0)
    with pytest.raises(OpserveError) as refusal:
        await compute(caller, whole())
    assert refusal.value.status is Status.ACL_ERROR_RT_SOCKET_CLOSE
    await draining
