"""Bytes of buffers of any size, up and down in chunks: each is a call of its own to the lease."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable

from opserve_kernels.status import Status
from opserve_server.core.copies import CopyKind
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.memory_commands import idle_view, view_of
from opserve_server.core.results import Written
from opserve_server.core.session import Session
from opserve_server.core.time_slices import end_slice

_TURN_BYTES = 2**20
"""Others have their turn after each chunk that goes past a multiple of it, even where no wire is
waited for."""


async def write(
    session: Session,
    *,
    buffer: int,
    offset: int,
    size_bytes: int,
    chunks: AsyncIterator[bytes | memoryview],
) -> Written:
    """Copies host bytes into a buffer as they come; each chunk renews the lease.

    A stalled upload does not keep its session: a client that went silent is gone. What a client
    sends counts while it waits for queued work, and is no more than what counts.

    Raises:
        InvalidArgument: 107000, the range leaves the buffer (nothing is written), or the
            chunks are not size_bytes in all (those before stay written).
        QuotaExceeded: 207012, the tenant has too many bytes under way.
    """
    written = 0
    view_of(session, buffer, offset, size_bytes)
    with session.in_flight(size_bytes):
        started_s = session.time()
        async for chunk in chunks:
            if written + len(chunk) > size_bytes:
                raise _wrong_size(written + len(chunk), size_bytes)
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
    """Copies bytes of a buffer to the host in chunks; refusals come before the first.

    Args:
        session: Of the buffer.
        buffer: Its handle.
        offset: Of the first byte.
        size_bytes: How many.
        form: Makes what is sent of the buffer's own bytes; they may change when it has returned.
    """
    await idle_view(session, buffer, offset, size_bytes)
    chunk_bytes = session.limits.chunk_bytes
    started_s = session.time()
    with session.in_flight(size_bytes):
        for start in range(offset, offset + size_bytes, chunk_bytes):
            size = min(chunk_bytes, offset + size_bytes - start)
            yield form(await idle_view(session, buffer, start, size))
            if (start + size) % _TURN_BYTES < size:
                await end_slice()
    session.copied(
        CopyKind.READ, buffer=buffer, size_bytes=size_bytes, started_s=started_s, inline=False
    )


def _wrong_size(given: int, allowed: int) -> InvalidArgument:
    return InvalidArgument(
        Status.ACL_ERROR_RT_PARAM_INVALID,
        f"data: given {given} bytes, allowed the {allowed} that were announced",
        parameter="data",
        given=given,
        allowed=allowed,
    )
