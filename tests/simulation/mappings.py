"""The memory that simulated clients map: the calls that compute there, and its remains."""

import mmap

from opserve_server.core.memory_commands import MappedBuffer
from opserve_server.pool.messages import KernelCall


class Mappings:
    """Everything that clients were given; they keep it for as long as they live.

    Attributes:
        trespasses: Calls that computed where a client could write.
    """

    def __init__(self) -> None:
        self.trespasses: list[KernelCall] = []
        self._slabs: dict[int, mmap.mmap] = {}

    @property
    def count(self) -> int:
        """Slabs that clients were given."""
        return len(self._slabs)

    def map(self, exposed: MappedBuffer) -> memoryview:
        """The bytes of a buffer."""
        slab = exposed.slab
        if slab.id not in self._slabs:
            self._slabs[slab.id] = mmap.mmap(slab.fd, slab.size_bytes)
        return memoryview(self._slabs[slab.id])[exposed.offset :][: exposed.size_bytes]

    def computes(self, call: KernelCall) -> None:
        """A worker begins or ends a call."""
        if call.workspace is not None and call.workspace.slab in self._slabs:
            self.trespasses.append(call)

    def check_and_close(self) -> None:
        """Nobody computed there, and no session has that memory or anything in it any more."""
        assert not self.trespasses, "a call computed in memory that a client maps"
        for slab, content in self._slabs.items():
            assert not any(content[:]), f"slab {slab}, which a client maps, was not emptied"
            content.close()
