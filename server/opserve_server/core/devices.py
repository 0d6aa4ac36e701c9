"""The device interface of the core; opserve_server.pool.device implements it."""

from collections.abc import Callable
from typing import Protocol

from opserve_server.pool.device import KernelTiming
from opserve_server.pool.messages import Flow, KernelCall
from opserve_server.pool.slabs import Slab, SlabPool


class Device(Protocol):
    """A virtual device: memory, and one worker that shares its time between flows of calls."""

    @property
    def name(self) -> str:
        """Name within the service: "ascend910b-0"."""
        ...

    @property
    def profile(self) -> str:
        """Name of its profile."""
        ...

    @property
    def tags(self) -> frozenset[str]:
        """Tags that the administrator of the service gave it."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Total memory, bytes."""
        ...

    @property
    def threads(self) -> int:
        """Threads that one call uses at most."""
        ...

    @property
    def ready(self) -> bool:
        """Whether its worker responds."""
        ...

    @property
    def slabs(self) -> SlabPool:
        """Its memory."""
        ...

    def attach(self, slab: Slab) -> None:
        """Maps a slab in the worker.

        Raises:
            OSError: No descriptor is left, or the worker does not read.
        """
        ...

    def detach(self, slab: Slab) -> None:
        """Unmaps a slab in the worker."""
        ...

    async def run(
        self, call: KernelCall, *, flow: Flow, used: Callable[[int], None]
    ) -> KernelTiming:
        """Runs a call to its end; calls of a flow run in the order of `run`.

        Device time of the call is reported to `used` in nanoseconds, whatever the outcome.

        Cancellation makes the worker stop the call at its next slice, or never begin it. The
        cancellation completes when the worker has stopped or is dead: no byte of the call is
        written afterwards.

        Raises:
            KernelFailed: The kernel raised.
            WorkerDied: Two workers died during this call.
        """
        ...
