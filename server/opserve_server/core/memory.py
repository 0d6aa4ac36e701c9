"""Device memory of one session: regions of its slabs, first fit.

A client that maps a slab can write to it at any time. Kernels read only values from tensors, but
they keep indices in their workspace. So workspaces are in slabs that no client maps, and no slab is
mapped while a call computes in it.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable

from opserve_kernels.operator import WORKSPACE_ALIGNMENT
from opserve_kernels.status import Status
from opserve_server.core.accounts import Account
from opserve_server.core.devices import Device
from opserve_server.core.errors import OutOfMemory
from opserve_server.core.tenants import Resource
from opserve_server.pool.messages import Region
from opserve_server.pool.slabs import NoMemory, Slab, whole_pages

ALIGNMENT = WORKSPACE_ALIGNMENT


class SessionMemory:
    """Allocates regions; a slab belongs to one session at a time and is zero when it is allocated.

    Args:
        device: Source of slabs.
        account: Account that whole slabs are charged to.
        reclaim: Makes all sessions of the device, and all of the tenant, return their empty slabs.
    """

    def __init__(self, device: Device, account: Account, reclaim: Callable[[], None]) -> None:
        self._device = device
        self._reclaim = reclaim
        self._reservation = account.reserve(Resource.DEVICE_MEMORY)
        self._slabs: dict[int, _SlabSpace] = {}

    def allocate(self, size_bytes: int) -> Region:
        """A region of at least one byte, aligned to 512.

        Raises:
            OutOfMemory: 207001, the device or the host has no free memory.
            QuotaExceeded: 207001, another slab would exceed the tenant's quota.
        """
        return self._place(size_bytes, self._slabs.values())

    def allocate_hidden(self, size_bytes: int) -> Region:
        """A region in a slab that no client maps."""
        # A new slab is never mapped, so there is always a place if memory is left.
        hidden = [space for space in self._slabs.values() if not space.slab.mapped]
        return self._place(size_bytes, hidden)

    def is_mapped(self, region: Region) -> bool:
        """Whether a client maps the slab of a region and can write to it."""
        return self._slabs[region.slab].slab.mapped

    def map_slab(self, region: Region) -> Slab | None:
        """Marks the slab of a region as mapped and returns it; None while a call computes in it."""
        space = self._slabs[region.slab]
        # A kernel keeps indices in its workspace. A client that could write there might make the
        # kernel access memory outside of its tensors.
        if space.calls:
            return None
        # For good: the client may keep the mapping for as long as it lives.
        space.slab.mapped = True
        return space.slab

    @property
    def size_bytes(self) -> int:
        """Bytes of the session's slabs."""
        return sum(space.slab.size_bytes for space in self._slabs.values())

    def hide(self, region: Region, done: asyncio.Future[None]) -> None:
        """Keeps the slab of a workspace unmapped until the call that computes there is done."""
        calls = self._slabs[region.slab].calls
        # Until `done` the slab must not be mapped, see map_slab.
        calls.add(done)
        done.add_done_callback(calls.discard)

    def release(self, region: Region) -> None:
        """Returns a region; does nothing after close."""
        space = self._slabs.get(region.slab)
        if space is not None:
            space.give_back(region.offset, aligned(region.size_bytes))

    def view(self, region: Region) -> memoryview:
        """The bytes of a region, writable."""
        start = region.offset
        return self._slabs[region.slab].slab.memory[start : start + region.size_bytes]

    def give_back_empty_slabs(self) -> None:
        """Returns slabs without a region to the device."""
        for space in [space for space in self._slabs.values() if space.is_empty]:
            self._return(space)

    def close(self) -> None:
        """Returns every slab; no region may be in use."""
        for space in list(self._slabs.values()):
            self._return(space)

    def _place(self, size_bytes: int, spaces: "Iterable[_SlabSpace]") -> Region:
        extent = aligned(size_bytes)
        for space in spaces:
            offset = space.take(extent)
            if offset is not None:
                return Region(space.slab.id, offset, size_bytes)
        space = _SlabSpace(self._take_slab(size_bytes))
        self._slabs[space.slab.id] = space
        self._count()
        offset = space.take(extent)
        assert offset == 0, "a new slab is free from its start"
        return Region(space.slab.id, offset, size_bytes)

    def _return(self, space: "_SlabSpace") -> None:
        del self._slabs[space.slab.id]
        self._device.slabs.give_back(space.slab)
        self._count()

    def _count(self) -> None:
        self._reservation.update(self.size_bytes)

    def _take_slab(self, size_bytes: int) -> Slab:
        try:
            slab = self._device.slabs.take(
                aligned(size_bytes), maximum_bytes=self._reservation.available
            )
        except NoMemory:
            # Sessions keep empty slabs for their next allocations, and return them when memory is
            # short.
            self._reclaim()
            slab = self._take_last_slab(size_bytes)
        try:
            self._device.attach(slab)
        except OSError:
            # The worker cannot map it, so no call could use it.
            self._device.slabs.give_back(slab)
            raise _out_of_memory(size_bytes, free=None) from None
        return slab

    def _take_last_slab(self, size_bytes: int) -> Slab:
        # The quota first: its error names the limit of the tenant, not that of the device.
        self._reservation.check(whole_pages(aligned(size_bytes)))
        try:
            return self._device.slabs.take(
                aligned(size_bytes), maximum_bytes=self._reservation.available
            )
        except NoMemory as error:
            free = None if error.__cause__ else self._device.slabs.free_bytes
            raise _out_of_memory(size_bytes, free=free) from None


def _out_of_memory(size_bytes: int, *, free: int | None) -> OutOfMemory:
    """The error of an allocation; free is None where the host has no more memory."""
    left = f"{free} are free on the device"
    if free is None:
        left = "the service's host has no more memory or descriptors"
    return OutOfMemory(
        Status.ACL_ERROR_RT_MEMORY_ALLOCATION,
        f"size_bytes is {size_bytes}, and {left} now: request less, or free a buffer first.",
        parameter="size_bytes",
        given=size_bytes,
        allowed="less" if free is None else free,
    )


def aligned(size_bytes: int) -> int:
    """The bytes of device memory that a region takes."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


class _SlabSpace:
    """Free space of a slab: sorted, disjoint, coalesced (offset, size) pairs.

    Attributes:
        slab: The slab.
        calls: Queued or running calls that compute in it, by completion.
    """

    def __init__(self, slab: Slab) -> None:
        self.slab = slab
        self.calls: set[asyncio.Future[None]] = set()
        self._free = [(0, slab.size_bytes)]

    @property
    def is_empty(self) -> bool:
        return self._free == [(0, self.slab.size_bytes)]

    def take(self, extent: int) -> int | None:
        for index, (offset, size) in enumerate(self._free):
            if size >= extent:
                rest = [(offset + extent, size - extent)] if size > extent else []
                self._free[index : index + 1] = rest
                self.slab.used_bytes = max(self.slab.used_bytes, offset + extent)
                return offset
        return None

    def give_back(self, offset: int, extent: int) -> None:
        index = bisect_left(self._free, (offset, 0))
        start, end, low, high = offset, offset + extent, index, index
        beside = self._free[max(index - 1, 0) : index + 1]
        assert all(sum(f) <= start or f[0] >= end for f in beside), "a region returns once"
        if index > 0 and sum(self._free[index - 1]) == start:
            # Coalesce with the free ranges before and after, so that no range is ever split for
            # good.
            low = index - 1
            start = self._free[low][0]
        if index < len(self._free) and self._free[index][0] == end:
            high = index + 1
            end = sum(self._free[index])
        self._free[low:high] = [(start, end - start)]
