"""Commands on device memory: aclrtMalloc, aclrtFree, aclrtMemset and aclrtMemcpy.

Copies wait for the queued work that uses their buffers, so that a client reads what its calls
wrote. Buffers are looked up again after the wait, since they may have been freed meanwhile.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from opserve_kernels.status import Status
from opserve_server.core.buffers import Buffer
from opserve_server.core.copies import CopyKind
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.handler import Handler, Handlers
from opserve_server.core.results import Allocated, Content, Done, Written
from opserve_server.core.session import Session
from opserve_server.core.time_slices import end_slice
from opserve_server.core.waiting import wait_for_all
from opserve_server.pool.slabs import Slab

_BYTE_MAXIMUM = 255
_SLICE_BYTES = 4 * 1024 * 1024
_AT_ONCE_BYTES = 64 * 1024
"""Memory work of some 10 microseconds, which needs no yield to other calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Makes a buffer of size_bytes, or the workspace of an executor.

    Attributes:
        size_bytes: Bytes of the buffer; 0 where it is a workspace.
        workspace_of: Executor whose workspace is allocated, of the size that its plan needs; 0: of
            none.
        buffer: Handle of the new buffer, chosen by the client; 0: the service chooses it.
    """

    size_bytes: int = 0
    workspace_of: int = 0
    buffer: int = 0


async def _allocate(session: Session, command: Allocate) -> Allocated:
    size = command.size_bytes
    if command.workspace_of:
        size = session.executors.get(command.workspace_of).plan.workspace_size
        if size == 0:
            return Allocated(buffer=0, size_bytes=0)
    if size <= 0:
        raise InvalidArgument(
            Status.ACL_ERROR_INVALID_PARAM,
            parameter="size_bytes",
            given=size,
            allowed="at least 1",
        )
    handle = session.buffers.next_handle(command.buffer)
    memory = session.memory
    region = memory.allocate_hidden(size) if command.workspace_of else memory.allocate(size)
    session.buffers.put(handle, Buffer(handle, region, session.memory))
    if not memory.is_mapped(region):
        return Allocated(buffer=handle, size_bytes=size)
    # Its client knows the slab already: it need not ask where this buffer is.
    return Allocated(buffer=handle, size_bytes=size, slab=region.slab, offset=region.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Ends a buffer.

    Attributes:
        buffer: Handle of the buffer.
    """

    buffer: int = 0


async def _free(session: Session, command: Free) -> Done:
    session.buffers.remove(command.buffer).free()
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Sets size_bytes bytes from offset to a value of 0 to 255.

    Attributes:
        buffer: Handle of the buffer.
        offset: First byte that is set.
        size_bytes: Number of bytes that are set.
        value: Value of each byte, 0 to 255.
    """

    buffer: int = 0
    offset: int = 0
    size_bytes: int = 0
    value: int = 0


async def _fill(session: Session, command: Fill) -> Done:
    if not 0 <= command.value <= _BYTE_MAXIMUM:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            parameter="value",
            given=command.value,
            allowed="0 to 255",
        )
    size = command.size_bytes
    view = await idle_view(session, command.buffer, command.offset, size)
    pattern = command.value.to_bytes() * min(size, _SLICE_BYTES)

    def fill(start: int, end: int) -> None:
        view[start:end] = pattern[: end - start]

    started_s = session.time()
    await _in_slices(session, {command.buffer}, size, fill)
    session.copied(
        CopyKind.FILL, buffer=command.buffer, size_bytes=size, started_s=started_s, inline=True
    )
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Copies host bytes into a buffer.

    Attributes:
        buffer: Handle of the buffer.
        offset: First byte that is written.
        data: The bytes.
    """

    buffer: int = 0
    offset: int = 0
    data: bytes = b""


async def _write(session: Session, command: Write) -> Written:
    size = len(command.data)
    view = await idle_view(session, command.buffer, command.offset, size)
    started_s = session.time()
    view[:] = command.data
    session.copied(
        CopyKind.WRITE, buffer=command.buffer, size_bytes=size, started_s=started_s, inline=True
    )
    return Written(size_bytes=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Copies size_bytes bytes of a buffer to the host.

    Attributes:
        buffer: Handle of the buffer.
        offset: First byte that is read.
        size_bytes: Number of bytes that are read.
    """

    buffer: int = 0
    offset: int = 0
    size_bytes: int = 0


async def _read(session: Session, command: Read) -> Content:
    size = command.size_bytes
    view = await idle_view(session, command.buffer, command.offset, size)
    started_s = session.time()
    data = bytes(view)
    session.copied(
        CopyKind.READ, buffer=command.buffer, size_bytes=size, started_s=started_s, inline=True
    )
    return Content(data=data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copies bytes between buffers of the session.

    Attributes:
        destination: Handle of the buffer that is written.
        destination_offset: First byte that is written.
        source: Handle of the buffer that is read.
        source_offset: First byte that is read.
        size_bytes: Number of bytes that are copied.
    """

    destination: int = 0
    destination_offset: int = 0
    source: int = 0
    source_offset: int = 0
    size_bytes: int = 0


async def _copy(session: Session, command: Copy) -> Done:
    size = command.size_bytes
    distance = abs(command.destination_offset - command.source_offset)
    if command.source == command.destination and distance < size:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            f"The ranges of {size} bytes at {command.source_offset} and "
            f"{command.destination_offset} of one buffer overlap: copy between two that do not.",
            parameter="source_offset",
            given=command.source_offset,
            allowed="ranges that do not overlap",
        )
    destination = session.buffers.get(command.destination).view(command.destination_offset, size)
    source = session.buffers.get(command.source).view(command.source_offset, size)
    await _wait_until_idle(session, command.destination, command.source)

    def copy(start: int, end: int) -> None:
        destination[start:end] = source[start:end]

    handles = {command.source, command.destination}
    started_s = session.time()
    await _in_slices(session, handles, size, copy)
    session.copied(
        CopyKind.COPY, buffer=command.destination, size_bytes=size, started_s=started_s, inline=True
    )
    return Done()


MemoryCommand = Allocate | Free | Fill | Write | Read | Copy
MEMORY_COMMANDS: Handlers = {
    Allocate: Handler(_allocate, new_work=True, long=True),
    Free: Handler(_free),
    Fill: Handler(_fill, waits=True),
    Write: Handler(_write, waits=True),
    Read: Handler(_read, waits=True),
    Copy: Handler(_copy, waits=True),
}


def view_of(session: Session, handle: int, offset: int, size_bytes: int) -> memoryview:
    """The bytes of a range, even while work uses its buffer; raises as `idle_view` does at once."""
    session.check_open()
    return session.buffers.get(handle).view(offset, size_bytes)


async def idle_view(session: Session, handle: int, offset: int, size_bytes: int) -> memoryview:
    """The bytes of a range after all queued work on their buffer; for use at once.

    Raises:
        HandleNotFound: 107017, the buffer does not exist, or it or its session ended during the
            wait.
        InvalidArgument: 107000, the range leaves the buffer.
        WaitTimedOut: 507046, the work is not done within the server's limit.
    """
    # Errors come before the wait.
    view = view_of(session, handle, offset, size_bytes)
    if session.buffers.get(handle).users:
        with session.in_progress():
            await _wait_in_turn(session, handle)
    return view


async def _wait_in_turn(session: Session, handle: int) -> None:
    """Returns when a buffer is idle; of several such waits its work wakes the first alone."""
    # If the end of a call woke all of them, the first one could queue another call, and all others
    # would wait again: calls on one buffer would cost more the more of them wait.
    buffer, mine = session.buffers.get(handle), asyncio.get_running_loop().create_future()
    previous, buffer.last_wait = buffer.last_wait, mine
    try:
        await _wait_until_idle(session, handle, previous=previous)
    finally:
        # The next wait continues in a later iteration of the loop, when this one's caller has used
        # the buffer.
        mine.set_result(None)
        if buffer.last_wait is mine:
            buffer.last_wait = None


async def _wait_until_idle(
    session: Session, *handles: int, previous: asyncio.Future[None] | None = None
) -> None:
    """Returns when all of these buffers exist and no queued work uses any of them.

    Args:
        session: The session.
        handles: Handles of the buffers.
        previous: A wait that must end first; None where there is none.
    """
    deadline_s = session.time() + session.limits.wait_limit_s
    ahead = set[asyncio.Future[None]]() if previous is None else {previous}
    # The buffers are looked up in every round: one may be freed during the wait, and its handle
    # then raises.
    while awaited := ahead or {
        user for handle in handles for user in session.buffers.get(handle).users
    }:
        await wait_for_all(  # more work may be queued during the wait
            awaited,
            timeout_s=max(deadline_s - session.time(), 0.0),
            status=Status.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
            what=f"the queued work on {' and '.join(f'buffer {handle}' for handle in handles)}",
        )
        session.check_open()
        ahead.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedBuffer:
    """Data that a client needs to map a buffer.

    Attributes:
        slab: Its slab.
        offset: Its first byte in the slab.
        size_bytes: Its size.
        idle: Whether no queued work uses it.
    """

    slab: Slab
    offset: int
    size_bytes: int
    idle: bool


def map_buffer(session: Session, handle: int) -> MappedBuffer | None:
    """Marks a buffer's slab as mapped by its client; None while a call computes in that slab.

    Raises:
        HandleNotFound: 107017, the buffer does not exist, or its session ended.
    """
    session.check_open()
    buffer = session.buffers.get(handle)
    slab = session.memory.map_slab(buffer.region)
    if slab is None:
        return None
    return MappedBuffer(
        slab=slab,
        offset=buffer.region.offset,
        size_bytes=buffer.size_bytes,
        idle=not buffer.users,
    )


async def _in_slices(
    session: Session, handles: set[int], size_bytes: int, do: Callable[[int, int], None]
) -> None:
    """Runs a long memory operation in slices, yielding to other calls between them.

    Its buffers are in use meanwhile, as for queued work, and no call computes in them.
    """
    # A slice costs more than such a copy takes.
    if size_bytes <= _AT_ONCE_BYTES:
        do(0, size_bytes)
        return
    # Between slices other calls run: the future marks the buffers as used, like queued work does.
    done = asyncio.get_running_loop().create_future()
    for handle in handles:
        session.buffers.get(handle).copied_by(done)
    try:
        for start in range(0, size_bytes, _SLICE_BYTES):
            do(start, min(start + _SLICE_BYTES, size_bytes))
            await end_slice()
            session.check_open()
    finally:
        done.set_result(None)
