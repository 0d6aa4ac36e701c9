"""Slabs: memfd blocks of device memory that the front makes, zeroes, pools and shares.

A slab has no name and no path: nobody can guess it, and nothing is left behind when a process dies.
It is sealed against shrinking and growing before anybody else sees it, so that no holder of its
descriptor can take another down by truncating it.
"""

import fcntl
import mmap
import os
from contextlib import suppress
from itertools import count

PAGE_BYTES = mmap.PAGESIZE


class NoMemory(Exception):
    """The device's memory is used up."""


class Slab:
    """A block of shared memory, mapped here.

    Attributes:
        id: Number within its pool, never reused.
        fd: Descriptor that workers map.
        size_bytes: Length, whole pages.
        memory: Its bytes, writable.
    """

    def __init__(self, slab_id: int, size_bytes: int) -> None:
        self.id = slab_id
        self.size_bytes = size_bytes
        self.fd = os.memfd_create("opserve-slab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(self.fd, 0, size_bytes)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            self._map = mmap.mmap(self.fd, size_bytes, flags=flags)
        except BaseException:
            os.close(self.fd)
            raise
        self.memory = memoryview(self._map)

    def zero(self) -> None:
        """Clears every byte."""
        self.memory[:] = bytes(self.size_bytes)

    def close(self) -> None:
        """Unmaps the block here; it is gone when no worker maps it either."""
        os.close(self.fd)
        with suppress(BufferError):  # a traceback may hold a view; the last one unmaps it
            self.memory.release()
            self._map.close()


class SlabPool:
    """The memory of one device, as slabs that are handed out whole.

    Args:
        capacity_bytes: Memory in all.
        slab_bytes: Length of an ordinary slab; a request for more gets a slab of its own length.
    """

    def __init__(self, *, capacity_bytes: int, slab_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._slab_bytes = _whole_pages(min(slab_bytes, capacity_bytes))
        self._ids = count(1)
        self._used_bytes = 0
        self._idle: dict[int, list[Slab]] = {}

    @property
    def free_bytes(self) -> int:
        """Bytes that are not handed out."""
        return self._capacity_bytes - self._used_bytes

    def take(self, minimum_bytes: int) -> Slab:
        """A slab of at least this length, all zero.

        Raises:
            NoMemory: The device has not so much left.
        """
        size_bytes = max(self._slab_bytes, _whole_pages(minimum_bytes))
        if size_bytes > self.free_bytes:
            size_bytes = _whole_pages(minimum_bytes)
        if size_bytes > self.free_bytes:
            raise NoMemory
        slab = self._reuse(size_bytes) or self._make(size_bytes)
        self._used_bytes += size_bytes
        return slab

    def give_back(self, slab: Slab) -> None:
        """Takes a slab back, for whoever comes next."""
        self._used_bytes -= slab.size_bytes
        self._idle.setdefault(slab.size_bytes, []).append(slab)

    def close(self) -> None:
        """Unmaps the slabs that are not handed out."""
        for slabs in self._idle.values():
            for slab in slabs:
                slab.close()
        self._idle.clear()

    def _reuse(self, size_bytes: int) -> Slab | None:
        slabs = self._idle.get(size_bytes)
        if not slabs:
            return None
        slab = slabs.pop()
        slab.zero()
        return slab

    def _make(self, size_bytes: int) -> Slab:
        self._drop_idle_beyond(self.free_bytes - size_bytes)
        try:
            return Slab(next(self._ids), size_bytes)
        except OSError as error:
            raise NoMemory from error

    def _drop_idle_beyond(self, kept_bytes: int) -> None:
        """Unmaps idle slabs until they, too, fit in the capacity."""
        idle_bytes = sum(size * len(slabs) for size, slabs in self._idle.items())
        for size, slabs in self._idle.items():
            while slabs and idle_bytes > kept_bytes:
                slabs.pop().close()
                idle_bytes -= size


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
