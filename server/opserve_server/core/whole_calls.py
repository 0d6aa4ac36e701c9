"""Whole calls: elements of inputs in, elements of outputs out, in one step of a session."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opserve_kernels.errors import invalid_argument, null_argument
from opserve_kernels.status import Status
from opserve_server.core.buffers import Buffer
from opserve_server.core.copies import CopyKind
from opserve_server.core.errors import CallTooLarge, OutOfMemory
from opserve_server.core.executors import Executor, UsedTensor
from opserve_server.core.memory import aligned
from opserve_server.core.memory_commands import idle_view
from opserve_server.core.operator_commands import (
    GetWorkspaceSize,
    check_accepts_calls,
    check_memory,
    checked_tensors,
    keep_until_done,
    named_buffers,
    warnings_of,
)
from opserve_server.core.results import RuleWarning
from opserve_server.core.session import Session
from opserve_server.core.work import KernelRun
from opserve_server.pool.messages import KernelCall, Region


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCall:
    """A whole call.

    Attributes:
        plan: Its phase one. A tensor without a buffer gets memory for this call alone.
        inputs: The bytes of inputs without a buffer, from the first element to the last, by the
            index of the tensor among those of the operator.
    """

    plan: GetWorkspaceSize
    inputs: Mapping[int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The answer to a whole call.

    Attributes:
        outputs: The bytes of each output, from the first element to the last, by its index.
        warnings: Broken rules of the vendor's page, where those are warnings.
    """

    outputs: Mapping[int, bytes]
    warnings: tuple[RuleWarning, ...]


async def compute(session: Session, call: WholeCall) -> Computed:
    """Plans a call, runs it on the default stream and waits; nothing of it stays in the session.

    A call that is cancelled is dropped, or stopped at the device.

    Raises:
        OpserveError: As GetWorkspaceSize and Execute do.
        ExecutionFailed: 507015, it failed; 107020, it did not end within the limit of a
            wait; 107023, its stream was aborted.
        InvalidArgument: 161001, an input has neither a buffer nor bytes; 161002, bytes are given
            that are not those of an input without a buffer.
        CallTooLarge: 207012, inputs or outputs have too many bytes in all.
    """
    executor = _planned(session, call.plan)
    outputs = [used for used in executor.planned.used if used.written]
    made = [used for used, tensor in executor.used_tensors if not tensor.buffer]
    _check_inputs(made, call.inputs)
    _check_bytes("tensors", sum(used.end for used in made), session)
    _check_bytes("outputs", sum(used.span for used in outputs), session)
    check_accepts_calls(session)
    memory, stream = session.memory, session.streams.get(0)
    # One region for all, as they return together; at least one byte, as a region must have.
    size_bytes = aligned(executor.plan.workspace_size) + sum(map(_extent, made))
    try:
        place = memory.allocate_hidden(max(size_bytes, 1))
    except OutOfMemory as error:
        raise _no_memory(size_bytes, error) from None
    queued: KernelRun | None = None
    try:
        buffers = _buffers(session, executor, place)
        _write(session, call.inputs, executor, buffers)
        work = _kernel_run(executor, buffers, place, timeout_s=session.limits.wait_limit_s)
        held = [buffer for buffer in buffers.values() if buffer.handle]
        stream.submit(work)
        queued = work
        keep_until_done(session, work, held + named_buffers(executor, session.buffers.get))
        # Not synchronize: it raises the first failure of any call.
        await asyncio.wait([work.done])
        session.check_open()
        if work.error is not None:
            raise work.error
        content = await _read(session, outputs, buffers)
    finally:
        if queued is None:
            memory.release(place)
        else:
            if not queued.done.done():
                stream.give_up(queued)  # it may be at the device for a while
            queued.done.add_done_callback(lambda _: memory.release(place))
    return Computed(outputs=content, warnings=warnings_of(executor))


def _no_memory(size_bytes: int, error: OutOfMemory) -> OutOfMemory:
    return OutOfMemory(
        error.status,
        f"The tensors and the workspace of the call need {size_bytes} bytes of device memory, "
        "which are not free: free a buffer, or retry later.",
        parameter="tensors",
        given=size_bytes,
        allowed=error.allowed,
    )


def _planned(session: Session, command: GetWorkspaceSize) -> Executor:
    operator, tensors = checked_tensors(session, command)
    planned = session.plans.plan(operator, command.arguments, session.plan_options)
    executor = Executor(0, operator, planned, tensors)
    check_memory(session, executor)
    return executor


def _check_inputs(made: Sequence[UsedTensor], inputs: Mapping[int, bytes]) -> None:
    """Rejects bytes that are not those of an input without a buffer, and an input without both."""
    needed = {used.index: used for used in made if not used.written}
    for index, used in needed.items():
        if used.span and index not in inputs:
            wanted = f"its bytes in inputs, with index {index}, or a buffer"
            raise null_argument(used.name, wanted=wanted)
    for index, data in inputs.items():
        if index not in needed:
            allowed = ", ".join(f"{known} ({used.name})" for known, used in needed.items())
            raise invalid_argument("inputs.index", given=index, allowed=allowed or "none")
        span = needed[index].span
        if len(data) != span:
            allowed = f"{span} bytes, the elements of {needed[index].name}"
            raise invalid_argument("inputs.data", given=f"{len(data)} bytes", allowed=allowed)


def _check_bytes(parameter: str, given: int, session: Session) -> None:
    limit = session.limits.submit_bytes_limit
    if given > limit:
        raise CallTooLarge(
            Status.ACL_ERROR_RT_OVER_LIMIT,
            f"The {parameter} of the call have {given} bytes in all, and {limit} are the limit: "
            "use buffers, GetWorkspaceSize and Execute.",
            parameter=parameter,
            given=given,
            allowed=limit,
        )


def _buffers(session: Session, executor: Executor, place: Region) -> Mapping[int, Buffer]:
    """The buffer of each tensor; those made for the call follow the workspace in its region."""
    buffers: dict[int, Buffer] = {}
    start = place.offset + aligned(executor.plan.workspace_size)
    for used, tensor in executor.used_tensors:
        if tensor.buffer:
            buffers[used.index] = session.buffers.get(tensor.buffer)
        else:
            region = Region(place.slab, start, used.end)
            buffers[used.index] = Buffer(0, region, session.memory)
            start += _extent(used)
    return buffers


def _extent(used: UsedTensor) -> int:
    """Bytes of the memory made for a tensor; not 0, since null pointers do not run."""
    return aligned(max(used.end, 1))


def _write(
    session: Session,
    inputs: Mapping[int, bytes],
    executor: Executor,
    buffers: Mapping[int, Buffer],
) -> None:
    started_s = session.time()
    for used in executor.planned.used:
        if used.index in inputs:
            buffers[used.index].view(used.start, used.span)[:] = inputs[used.index]
    written = sum(map(len, inputs.values()))
    session.copied(CopyKind.WRITE, buffer=0, size_bytes=written, started_s=started_s, inline=True)


def _kernel_run(
    executor: Executor, buffers: Mapping[int, Buffer], place: Region, *, timeout_s: float
) -> KernelRun:
    """The call for the device; its workspace is the start of a region."""
    plan = executor.plan
    regions: list[Region | None] = [None] * len(executor.tensors)
    for index, buffer in buffers.items():
        regions[index] = buffer.region
    call = KernelCall(
        operator=executor.operator.name,
        shares=plan.shares,
        parameters=plan.parameters,
        tensors=tuple(regions),
        workspace=place._replace(size_bytes=plan.workspace_size) if plan.workspace_size else None,
    )
    return KernelRun(0, call, timeout_s)


async def _read(
    session: Session, outputs: Sequence[UsedTensor], buffers: Mapping[int, Buffer]
) -> Mapping[int, bytes]:
    content: dict[int, bytes] = {}
    started_s = session.time()
    for used in outputs:
        buffer = buffers[used.index]
        if buffer.handle:  # other streams may use it
            view = await idle_view(session, buffer.handle, used.start, used.span)
        else:
            view = buffer.view(used.start, used.span)
        content[used.index] = bytes(view)
    read = sum(map(len, content.values()))
    session.copied(CopyKind.READ, buffer=0, size_bytes=read, started_s=started_s, inline=True)
    return content
