"""Slabs: memfd blocks of device memory, made, zeroed, pooled and shared by the front.

A slab has no name and no path: it cannot be guessed, and nothing is left behind when a process
dies. It is sealed against shrinking and growing before any other process sees it, so that no holder
of its descriptor can crash another by truncating it. A slab mapped by a client is never allocated
again, since the client may keep the mapping for as long as it lives.
"""

import fcntl
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from math import inf

import numpy as np

PAGE_BYTES = mmap.PAGESIZE
_BLOCK_BYTES = 512  # the unit of st_blocks
_SMALL_SLABS_OF_ONE = 16
_PREFAULTED_SLABS = 4


class NoMemory(Exception):
    """The device's memory is used up; or the host's, where an OSError is the cause."""


class Slab:
    """A block of shared memory, mapped in this process.

    Args:
        slab_id: Number within its pool.
        size_bytes: Length, whole pages.
        prefault: Whether its pages are allocated at once, in about 0.2 ms per MiB: a quarter of
            the time that page faults take.

    Attributes:
        id: Number within its pool, never reused.
        fd: Descriptor that workers map.
        size_bytes: Length, whole pages.
        memory: Its bytes, writable.
        mapped: Whether a client received its descriptor.
        used_bytes: Length from the start that was allocated since it was last zero.
    """

    def __init__(self, slab_id: int, size_bytes: int, *, prefault: bool = True) -> None:
        self.id = slab_id
        self.size_bytes = size_bytes
        self.fd = os.memfd_create("opserve-slab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size_bytes)
            if prefault:
                os.posix_fallocate(self.fd, 0, size_bytes)
            # A process that truncates a mapped file kills every other one that touches the lost
            # pages (SIGBUS).
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
            self._map = map_slab(self.fd, size_bytes)
        except BaseException:
            os.close(self.fd)
            raise
        self.memory = memoryview(self._map)
        self.mapped = False
        self.used_bytes = 0

    def zero(self) -> None:
        """Clears what was used; the rest is zero."""
        np.frombuffer(self.memory, np.uint8, self.used_bytes).fill(0)
        self.used_bytes = 0

    def empty(self) -> None:
        """Returns its pages to the system at once, even if mapped; all bytes read as zero then."""
        self._map.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Unmaps the block here; it is freed when no other process maps it."""
        os.close(self.fd)
        with suppress(BufferError):  # a traceback may keep a view, whose end unmaps it
            self.memory.release()
            self._map.close()


class SlabPool:
    """The memory of one device, allocated as whole slabs.

    Args:
        capacity_bytes: Total memory.
        slab_bytes: Length of an ordinary slab. A larger request gets a slab of its own length,
            which is not pooled. Beyond the length of four ordinary ones, its pages are allocated on
            first use, as the event loop would stop for too long.
        unmap: Unmaps a slab in the worker, before it is closed.
    """

    def __init__(
        self, *, capacity_bytes: int, slab_bytes: int, unmap: Callable[[Slab], object]
    ) -> None:
        self._capacity_bytes = capacity_bytes
        self._unmap = unmap
        self._slab_bytes = whole_pages(min(slab_bytes, capacity_bytes))
        self._ids = count(1)
        self._used_bytes = 0
        self._idle: list[Slab] = []

    @property
    def free_bytes(self) -> int:
        """Bytes that are not allocated."""
        return self._capacity_bytes - self._used_bytes

    def take(self, minimum_bytes: int, *, maximum_bytes: float = inf) -> Slab:
        """A slab of at least this length, all zero.

        Raises:
            NoMemory: The device does not have enough left, or its length would exceed the maximum.
        """
        # Lengths count, not touched pages: so a tenant's use does not depend on what its kernels
        # write.
        left_bytes = min(self.free_bytes, maximum_bytes)
        size_bytes = self._fitting(whole_pages(minimum_bytes), left_bytes)
        slab = self._reuse(size_bytes) or self._make(size_bytes)
        self._used_bytes += size_bytes
        return slab

    def give_back(self, slab: Slab) -> None:
        """Returns a slab to the pool, unless a client mapped it."""
        self._used_bytes -= slab.size_bytes
        if slab.mapped:
            # Its client may keep the mapping: the pages are returned, and the length is free for a
            # new slab.
            slab.empty()
            self._close(slab)
        elif slab.size_bytes == self._slab_bytes:
            # It stays mapped in the worker, so that its next session costs no message.
            self._idle.append(slab)
        else:
            self._close(slab)

    def close(self) -> None:
        """Unmaps the pooled slabs."""
        while self._idle:
            self._close(self._idle.pop())

    def _close(self, slab: Slab) -> None:
        self._unmap(slab)
        slab.close()

    def _fitting(self, least_bytes: int, left_bytes: float) -> int:
        """The ordinary length or more; near the end of memory less, for several allocations."""
        small_bytes = whole_pages(self._slab_bytes // _SMALL_SLABS_OF_ONE)
        for size_bytes in (self._slab_bytes, small_bytes, least_bytes):
            if max(size_bytes, least_bytes) <= left_bytes:
                return max(size_bytes, least_bytes)
        raise NoMemory

    def _reuse(self, size_bytes: int) -> Slab | None:
        if size_bytes != self._slab_bytes or not self._idle:
            return None
        slab = self._idle.pop()
        # On reuse, not on return: a slab that is never used again costs no time, and no tenant sees
        # the data of another.
        slab.zero()
        return slab

    def _make(self, size_bytes: int) -> Slab:
        # Pooled slabs occupy memory of the host too: with the new slab they must fit the capacity.
        while self._idle and len(self._idle) * self._slab_bytes > self.free_bytes - size_bytes:
            self._close(self._idle.pop())
        try:
            prefault = size_bytes <= _PREFAULTED_SLABS * self._slab_bytes
            return Slab(next(self._ids), size_bytes, prefault=prefault)
        except OSError as error:
            raise NoMemory from error


def map_slab(fd: int, size_bytes: int) -> mmap.mmap:
    """Maps a slab; all pages at once where they are allocated: faults take five times as long."""
    allocated = os.fstat(fd).st_blocks * _BLOCK_BYTES >= size_bytes
    flags = mmap.MAP_SHARED | (mmap.MAP_POPULATE if allocated else 0)
    return mmap.mmap(fd, size_bytes, flags=flags)


def whole_pages(size_bytes: int) -> int:
    """The length of the smallest slab for a number of bytes."""
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
