"""Transfers: bytes of buffers of any size, in chunks; each chunk renews the lease."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable

from opserve_kernels.status import Status
from opserve_server.core.copies import CopyKind
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.memory_commands import idle_view, view_of
from opserve_server.core.results import Written
from opserve_server.core.session import Session
from opserve_server.core.time_slices import end_slice

_TURN_BYTES = 2**20
"""A transfer yields to other calls at each multiple of this size, even where the network never
waits."""


async def write(
    session: Session,
    *,
    buffer: int,
    offset: int,
    size_bytes: int,
    chunks: AsyncIterator[bytes | memoryview],
) -> Written:
    """Copies host bytes into a buffer as they arrive; each chunk renews the lease.

    A stalled upload does not keep its session alive: its client may be dead. Received bytes are
    charged while they wait for queued work, and no more is received than is charged.

    Raises:
        InvalidArgument: 107000, the range leaves the buffer (nothing is written), or the chunks do
            not add up to size_bytes (earlier chunks stay written).
        QuotaExceeded: 207012, the tenant has too many bytes in flight.
    """
    written = 0
    # The whole range is checked before the first chunk: a rejected transfer writes nothing.
    view_of(session, buffer, offset, size_bytes)
    with session.in_flight(size_bytes):
        started_s = session.time()
        async for chunk in chunks:
            if written + len(chunk) > size_bytes:
                raise _wrong_size(written + len(chunk), size_bytes)
            # For each chunk anew: the buffer may have been freed, or used by a new call, while the
            # client was sending.
            session.touch()
            view = await idle_view(session, buffer, offset + written, len(chunk))
            if not written:
                started_s = session.time()  # the wait for queued work is over
            view[:] = chunk
            written += len(chunk)
            if written % _TURN_BYTES < len(chunk):
                await end_slice()
    if written != size_bytes:
        raise _wrong_size(written, size_bytes)
    session.copied(
        CopyKind.WRITE, buffer=buffer, size_bytes=size_bytes, started_s=started_s, inline=False
    )
    return Written(size_bytes=written)


async def read(
    session: Session,
    *,
    buffer: int,
    offset: int,
    size_bytes: int,
    form: Callable[[memoryview], bytes] = bytes,
) -> AsyncGenerator[bytes]:
    """Copies bytes of a buffer to the host in chunks, each of which renews the lease.

    Errors come before the first chunk.

    Args:
        session: Session of the buffer.
        buffer: Its handle.
        offset: Offset of the first byte.
        size_bytes: Number of bytes.
        form: Converts the buffer's own bytes to a message; they may change after it returns.
    """
    # Before the first chunk, so that an error can still become the status of the answer.
    await idle_view(session, buffer, offset, size_bytes)
    chunk_bytes = session.limits.chunk_bytes
    started_s = session.time()
    with session.in_flight(size_bytes):
        for start in range(offset, offset + size_bytes, chunk_bytes):
            size = min(chunk_bytes, offset + size_bytes - start)
            session.touch()
            yield form(await idle_view(session, buffer, start, size))
            if (start + size) % _TURN_BYTES < size:
                await end_slice()
    session.copied(
        CopyKind.READ, buffer=buffer, size_bytes=size_bytes, started_s=started_s, inline=False
    )


def _wrong_size(given: int, allowed: int) -> InvalidArgument:
    return InvalidArgument(
        Status.ACL_ERROR_RT_PARAM_INVALID,
        f"data has {given} bytes, and {allowed} were announced: send exactly these.",
        parameter="data",
        given=given,
        allowed=allowed,
    )
