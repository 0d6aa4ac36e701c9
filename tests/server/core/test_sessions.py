"""Sessions, batches of commands, retries and limits."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from opserve_kernels.description import describe
from opserve_kernels.errors import VALUE_CHARACTERS
from opserve_kernels.operator import Operator
from opserve_kernels.operators.deconv_grad_filter.schema import DeconvGradFilter
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core import results
from opserve_server.core.errors import (
    ExecutionFailed,
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    OutOfMemory,
    Unavailable,
)
from opserve_server.core.operator_commands import check_supported
from opserve_server.core.principal import LOCAL, Principal
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.tenants import Tenant
from opserve_server.pool.device import KernelFailed
from server.core import every_command as c
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
        await caller.service.open_session(LOCAL, SessionRequest(profile="ascend9000"))


@pytest.mark.parametrize("spelling", ["ascend910b", "Ascend910B1", "ATLAS A2", "ascend910_93", ""])
async def test_a_session_takes_the_vendors_spellings_of_a_profile(
    caller: Caller, spelling: str
) -> None:
    opened = await caller.service.open_session(LOCAL, SessionRequest(profile=spelling))
    assert opened.device.profile == "ascend910b"


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        (
            "Ascend310P3",
            r"does not accept Ascend310P3 \(known, but not served here\); it accepts ascend910b",
        ),
        ("tpu", r"does not accept tpu \(not known\); it accepts ascend910b"),
        (
            "x" * 1000,
            f"does not accept {'x' * min(LIMITS.name_length_limit, VALUE_CHARACTERS - 1)}",
        ),
        ("Ascend950DT", r"does not accept Ascend950DT \(whose rules are known only in part\)"),
    ],
)
async def test_a_profile_that_is_not_here_is_refused_by_name(
    caller: Caller, spelling: str, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message) as refusal:
        await caller.service.open_session(LOCAL, SessionRequest(profile=spelling))
    assert refusal.value.status is Status.ACL_ERROR_RT_INVALID_DEVICEID
    assert refusal.value.allowed == "ascend910b"
    assert refusal.value.given == spelling[: LIMITS.name_length_limit]


async def test_an_operator_that_a_profile_lacks_is_refused_with_those_that_have_it(
    caller: Caller,
) -> None:
    command = c.GetWorkspaceSize(operator="deconv_grad_filter", arguments=DeconvGradFilter())
    refusal = await caller.refused(command)
    assert isinstance(refusal, NotSupported)
    assert refusal.status is Status.ACL_ERROR_API_NOT_SUPPORT
    assert refusal.allowed == ", ".join(OPERATORS["deconv_grad_filter"].support)
    assert refusal.given == "ascend910b"
    assert "does not run on ascend910b (the default): use one of ft78ne" in refusal.message


def test_an_operator_of_aclnn_that_a_product_lacks_is_an_invalid_parameter() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        check_supported(OPERATORS["im2col_backward"], "ascend310p")
    assert refusal.value.status is Status.ACLNN_ERR_PARAM_INVALID
    assert refusal.value.parameter == "profile"
    assert refusal.value.allowed == "ascend910b, ascend910, reference"


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_an_operator_is_described_by_its_name_and_by_its_call(
    caller: Caller, operator: Operator[Any]
) -> None:
    for name in (operator.name, operator.call):
        assert caller.service.list_operators(LOCAL, name) == [describe(operator)]
    assert len(caller.service.list_operators(LOCAL)) == len(OPERATORS)


@pytest.mark.parametrize("name", ["aclnnFlashAttentionScore", "x" * 1000, "IM2COL_BACKWARD"])
def test_an_unknown_operator_is_refused_with_the_existing_ones(caller: Caller, name: str) -> None:
    with pytest.raises(HandleNotFound) as refusal:
        caller.service.list_operators(LOCAL, name)
    error = refusal.value
    assert (error.status, error.parameter) == (Status.ACL_ERROR_RT_INVALID_HANDLE, "operator")
    assert error.given == name[:64]
    calls, _, likely = error.allowed.partition("; did you mean ")
    assert calls == ", ".join(operator.call for operator in OPERATORS.values())
    assert likely == ("aclnnIm2colBackward?" if name == "IM2COL_BACKWARD" else "")


async def test_a_batch_stops_at_the_first_failure_and_keeps_earlier_results(caller: Caller) -> None:
    commands: list[c.Command] = [
        c.Allocate(size_bytes=8, buffer=5),
        c.Free(buffer=9),
        c.Free(buffer=5),
    ]
    done, failed = await caller.service.submit(LOCAL, caller.name, commands)
    assert done == results.Allocated(buffer=5, size_bytes=8)
    assert isinstance(failed, results.Failed)
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
    assert first == second == results.Allocated(buffer=1, size_bytes=8)
    other = c.Allocate(size_bytes=9)
    with pytest.raises(InvalidArgument, match="request_id"):
        await caller.service.run(LOCAL, caller.name, other, request_id="one")
    opened = [await caller.service.open_session(LOCAL, request_id="two") for _ in range(2)]
    assert opened[0] == opened[1]


async def test_a_cancelled_call_with_an_id_continues_for_its_retry(caller: Caller) -> None:
    await caller.execute(await caller.plan())
    batch: list[c.Command] = [c.SynchronizeStream(), c.Allocate(size_bytes=8, buffer=50)]
    first = asyncio.create_task(
        caller.service.submit(LOCAL, caller.name, batch, request_id="batch")
    )
    await asyncio.sleep(1)
    first.cancel()
    await asyncio.sleep(1)
    caller.device.finish(caller.device.held[0])
    made = await caller.service.submit(LOCAL, caller.name, batch, request_id="batch")
    assert made[-1] == results.Allocated(buffer=50, size_bytes=8)


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


# What must not happen while a session ends, or while a call waits


async def test_nothing_runs_in_a_session_that_is_ending(caller: Caller) -> None:
    stream = (await caller.run(c.CreateStream())).stream
    event = (await caller.run(c.CreateEvent())).event
    await caller.execute(await caller.plan())
    await caller.run(c.RecordEvent(event=event))
    planned = await caller.plan()
    workspace = await caller.buffer(planned.workspace_size)
    batch: list[c.Command] = [
        c.SynchronizeEvent(event=event),
        c.Execute(executor=planned.executor, workspace=workspace, stream=stream),
        c.Allocate(size_bytes=8),
    ]
    submitted = asyncio.create_task(caller.service.submit(LOCAL, caller.name, batch))
    await asyncio.sleep(1)
    closing = asyncio.create_task(caller.service.close_session(LOCAL, caller.name))
    await asyncio.sleep(1)
    assert caller.device.held[0].stopping
    caller.device.finish(caller.device.held[0])
    *_, failed = await submitted
    assert isinstance(failed, results.Failed)
    assert isinstance(failed.error, HandleNotFound)
    await closing
    assert len(caller.device.calls) == 1
    assert caller.device.slabs.free_bytes == caller.device.memory_bytes


async def test_a_stream_that_gets_work_while_it_is_destroyed_finishes_it(caller: Caller) -> None:
    stream = (await caller.run(c.CreateStream())).stream
    await caller.execute(await caller.plan(), stream=stream)
    destroying = asyncio.create_task(caller.run(c.DestroyStream(stream=stream)))
    await asyncio.sleep(1)
    await caller.execute(await caller.plan(), stream=stream)
    caller.device.finish(caller.device.held[0])
    await asyncio.sleep(1)
    assert not destroying.done()
    caller.device.finish(caller.device.held[0])
    await destroying


async def test_a_closed_session_is_forgotten_at_once(caller: Caller) -> None:
    opened = (await caller.service.open_session(LOCAL, SessionRequest(lease_s=3600))).session
    ended = weakref.ref(caller.service._sessions.get(LOCAL, opened))
    await caller.service.close_session(LOCAL, opened)
    await asyncio.sleep(0)  # the closing task is forgotten a turn later
    gc.collect()
    assert ended() is None


async def test_a_slow_upload_keeps_its_lease_and_a_stalled_one_does_not(caller: Caller) -> None:
    buffer = await caller.buffer()

    async def write(*gaps_s: float) -> None:
        async def parts() -> AsyncIterator[bytes]:
            for gap_s in gaps_s:
                yield b"ab"
                await asyncio.sleep(gap_s)

        size_bytes = 2 * len(gaps_s)
        await caller.service.write(
            LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=size_bytes, chunks=parts()
        )

    await write(*[LIMITS.lease_default_s - 1] * 3)
    assert (await caller.run(c.Read(buffer=buffer, size_bytes=6))).data == b"ababab"
    with pytest.raises(HandleNotFound):
        await write(LIMITS.lease_default_s + 1, 0)


async def test_a_slow_download_keeps_its_lease_and_a_stalled_one_does_not(caller: Caller) -> None:
    buffer = await caller.buffer(4 * LIMITS.chunk_bytes)

    async def read(gap_s: float) -> int:
        size_bytes = 4 * LIMITS.chunk_bytes
        received = 0
        async for chunk in caller.service.read(
            LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=size_bytes
        ):
            received += len(chunk)
            await asyncio.sleep(gap_s)
        return received

    assert await read(LIMITS.lease_default_s - 1) == 4 * LIMITS.chunk_bytes
    with pytest.raises(HandleNotFound):
        await read(LIMITS.lease_default_s + 1)


async def test_a_read_that_waits_for_a_call_keeps_its_lease(caller: Caller) -> None:
    buffer = await caller.buffer()
    columns = Tensor(shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9), buffer=buffer)
    await caller.execute(await caller.plan(grad_output=columns))

    async def read() -> bytes:
        chunks = caller.service.read(LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=8)
        return b"".join([chunk async for chunk in chunks])

    reading = asyncio.create_task(read())
    await asyncio.sleep(2 * LIMITS.lease_default_s)
    caller.device.finish(caller.device.held[0])
    assert await reading == bytes(8)


async def test_no_chunk_is_written_under_a_call_that_reads_it(caller: Caller) -> None:
    buffer = await caller.buffer()
    columns = Tensor(shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9), buffer=buffer)
    planned = await caller.plan(grad_output=columns)

    async def parts() -> AsyncIterator[bytes]:
        yield b"ab"
        await caller.execute(planned)
        yield b"cd"

    uploading = asyncio.create_task(
        caller.service.write(
            LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=4, chunks=parts()
        )
    )
    await asyncio.sleep(1)
    assert not uploading.done()
    caller.device.finish(caller.device.held[0])  # which finds its memory as it was
    await uploading


async def test_a_negative_read_does_not_make_room_for_others(caller: Caller) -> None:
    sizes = [-(2**40), *[LIMITS.inline_bytes_limit] * 5]
    commands = [c.Read(buffer=1, size_bytes=size) for size in sizes]
    with pytest.raises(LimitExceeded):
        await caller.service.submit(LOCAL, caller.name, commands)


async def test_an_id_belongs_to_one_kind_of_command(caller: Caller) -> None:
    buffer = await caller.buffer()
    planned = await caller.plan()
    assert planned.executor == buffer
    destroy, free = c.DestroyExecutor(executor=buffer), c.Free(buffer=buffer)
    await caller.service.run(LOCAL, caller.name, destroy, request_id="one")
    with pytest.raises(InvalidArgument, match="request_id"):
        await caller.service.run(LOCAL, caller.name, free, request_id="one")


async def test_a_retry_gets_the_first_failure_of_queued_work(caller: Caller) -> None:
    await caller.execute(await caller.plan())
    caller.device.finish(caller.device.held[0], KernelFailed("planted"))
    for _ in range(2):
        with pytest.raises(ExecutionFailed):
            await caller.service.run(LOCAL, caller.name, c.SynchronizeStream(), request_id="s")


async def test_requests_under_way_are_bounded_and_end_with_the_session(caller: Caller) -> None:
    await caller.execute(await caller.plan())
    waiting = [
        asyncio.create_task(
            caller.service.run(LOCAL, caller.name, c.SynchronizeStream(), request_id=f"wait {i}")
        )
        for i in range(LIMITS.request_ids_limit)
    ]
    await asyncio.sleep(1)
    with pytest.raises(LimitExceeded, match="requests with an id are in progress"):
        await caller.service.run(LOCAL, caller.name, c.QueryStream(), request_id="one more")
    closing = asyncio.create_task(caller.service.close_session(LOCAL, caller.name))
    await asyncio.sleep(1)
    caller.device.finish(caller.device.held[0])
    await closing
    await asyncio.sleep(0)
    for task in waiting:
        assert isinstance(task.exception(), HandleNotFound), "nobody is left without an answer"


async def test_two_tenants_may_use_the_same_request_id(caller: Caller) -> None:
    caller.service.renew_tenants([Tenant(name="a"), Tenant(name="a b")])
    one, other = (Principal(tenant=tenant, name="", scopes=frozenset()) for tenant in ("a", "a b"))
    first = await caller.service.open_session(one, request_id="b x")
    second = await caller.service.open_session(other, request_id="x")
    assert first.session != second.session


async def test_tensors_of_many_dimensions_are_refused_before_any_arithmetic(
    caller: Caller,
) -> None:
    endless = Tensor(shape=(2**62,) * 100_000, dtype=DataType.FLOAT)
    with pytest.raises(InvalidArgument, match="at most 8"):
        await caller.plan(grad_output=endless)
