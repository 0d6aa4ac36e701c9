"""Buffers: allocations that a session knows by handle, and the queued work that uses them."""

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
        region: Where it lies.
        memory: The session's memory.
        users: Queued or running work that uses it, by completion.
        copies: Those of them that are copies in slices, between which calls begin.
        freed: Whether its handle is dead.
        scratch: Where calls compute that have it as their workspace, if that is elsewhere.
    """

    handle: int
    region: Region
    memory: SessionMemory
    users: set[asyncio.Future[None]] = field(default_factory=set[asyncio.Future[None]])
    copies: set[asyncio.Future[None]] = field(default_factory=set[asyncio.Future[None]])
    freed: bool = False
    scratch: Region | None = None

    @property
    def size_bytes(self) -> int:
        """The size that was asked for."""
        return self.region.size_bytes

    def view(self, offset: int, size_bytes: int) -> memoryview:
        """The bytes of a range, writable.

        Raises:
            InvalidArgument: 107000, the range leaves the buffer.
        """
        if not 0 <= offset <= offset + size_bytes <= self.size_bytes:
            raise InvalidArgument(
                Status.ACL_ERROR_RT_PARAM_INVALID,
                f"offset and size_bytes: given {offset} and {size_bytes}, allowed ranges inside "
                f"the {self.size_bytes} bytes of buffer {self.handle}",
                parameter="size_bytes",
                given=f"{offset} + {size_bytes}",
                allowed=f"0 to {self.size_bytes}",
            )
        return self.memory.view(self.region)[offset : offset + size_bytes]

    def workspace(self) -> Region:
        """Where a call may compute: its own bytes, or as many others if a client writes to those.

        It does where it maps them, and while a copy is under way.

        What it wrote to the buffer is not there then: a workspace's content is undefined.

        Raises:
            OutOfMemory: 207001, there are no others.
        """
        if not self.copies and not self.memory.is_mapped(self.region):
            return self.region
        if self.scratch is None or self.memory.is_mapped(self.scratch):
            outgrown, self.scratch = self.scratch, self.memory.allocate_hidden(self.size_bytes)
            if outgrown is not None:
                self.memory.release(outgrown)
        return self.scratch

    def used_by(self, done: asyncio.Future[None]) -> None:
        """Keeps the memory until the work that `done` stands for is over, however it uses it."""
        if done not in self.users:
            self.users.add(done)
            done.add_done_callback(self._unused_by)

    def copied_by(self, done: asyncio.Future[None]) -> None:
        """The same for a copy in slices."""
        self.used_by(done)
        self.copies.add(done)
        done.add_done_callback(self.copies.discard)

    def free(self) -> None:
        """Returns the memory, at once or when the last user is done."""
        self.freed = True
        self._release_when_idle()

    def _unused_by(self, done: asyncio.Future[None]) -> None:
        self.users.discard(done)
        self._release_when_idle()

    def _release_when_idle(self) -> None:
        if self.freed and not self.users:
            for region in filter(None, (self.region, self.scratch)):
                self.memory.release(region)
