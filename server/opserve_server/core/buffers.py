"""Buffers: allocations behind the handles of a session, and the queued work that uses them."""

import asyncio
from dataclasses import dataclass, field

from opserve_kernels.status import Status
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.memory import SessionMemory
from opserve_server.pool.messages import Region


@dataclass(slots=True, eq=False)
class Buffer:
    """Device memory behind a handle.

    Attributes:
        handle: Its handle.
        region: Location in the session's slabs.
        memory: The session's memory.
        users: Queued or running work that uses it, by completion.
        copies: Those of them that are copies in slices, between which calls begin.
        last_wait: The latest of the calls that wait until it is idle, by completion; each waits for
            the one before it.
        freed: Whether its handle is dead.
        scratch: Where calls compute that have it as their workspace, if that is elsewhere.
    """

    handle: int
    region: Region
    memory: SessionMemory
    users: set[asyncio.Future[None]] = field(default_factory=set[asyncio.Future[None]])
    copies: set[asyncio.Future[None]] = field(default_factory=set[asyncio.Future[None]])
    last_wait: asyncio.Future[None] | None = None
    freed: bool = False
    scratch: Region | None = None

    @property
    def size_bytes(self) -> int:
        """Requested size, bytes."""
        return self.region.size_bytes

    def view(self, offset: int, size_bytes: int) -> memoryview:
        """The bytes of a range, writable.

        Raises:
            InvalidArgument: 107000, the range leaves the buffer.
        """
        if not 0 <= offset <= offset + size_bytes <= self.size_bytes:
            raise InvalidArgument(
                Status.ACL_ERROR_RT_PARAM_INVALID,
                f"Buffer {self.handle} has {self.size_bytes} bytes, and {size_bytes} at offset "
                f"{offset} are not inside it: use a range that is.",
                parameter="size_bytes",
                given=f"{offset} + {size_bytes}",
                allowed=f"0 to {self.size_bytes}",
            )
        return self.memory.view(self.region)[offset : offset + size_bytes]

    def workspace(self) -> Region:
        """Region in which a call computes: the buffer, or a substitute if a client can write to it.

        A client can write to the buffer while it maps it and while a copy is in progress. The
        substitute's content does not return to the buffer: the content of a workspace is undefined
        after a call.

        Raises:
            OutOfMemory: 207001, no memory is left for a substitute.
        """
        if not self.copies and not self.memory.is_mapped(self.region):
            return self.region
        # The slab of an earlier substitute may have been mapped since.
        if self.scratch is None or self.memory.is_mapped(self.scratch):
            outgrown, self.scratch = self.scratch, self.memory.allocate_hidden(self.size_bytes)
            if outgrown is not None:
                self.memory.release(outgrown)
        return self.scratch

    def used_by(self, done: asyncio.Future[None]) -> None:
        """Keeps the memory until the work behind `done` is over."""
        if done not in self.users:
            self.users.add(done)
            done.add_done_callback(self._unused_by)

    def copied_by(self, done: asyncio.Future[None]) -> None:
        """Keeps the memory until a copy in slices is over."""
        self.used_by(done)
        self.copies.add(done)
        done.add_done_callback(self.copies.discard)

    def free(self) -> None:
        """Returns the memory, at once or when its last user is done."""
        self.freed = True
        self._release_when_idle()

    def _unused_by(self, done: asyncio.Future[None]) -> None:
        self.users.discard(done)
        self._release_when_idle()

    def _release_when_idle(self) -> None:
        # A call at the device may still read or write the region, so it is returned after the last
        # user.
        if self.freed and not self.users:
            for region in filter(None, (self.region, self.scratch)):
                self.memory.release(region)
