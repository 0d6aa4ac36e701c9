"""The device as the core sees it; opserve_server.pool.device has the real one."""

from collections.abc import Callable
from typing import Protocol

from opserve_server.pool.device import KernelTiming
from opserve_server.pool.messages import Flow, KernelCall
from opserve_server.pool.slabs import Slab, SlabPool


class Device(Protocol):
    """A virtual device: memory, and one worker that divides its time between flows of calls."""

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
        """What the operator of the service says of it."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Memory in all."""
        ...

    @property
    def threads(self) -> int:
        """On how many threads a call runs at most."""
        ...

    @property
    def ready(self) -> bool:
        """Whether its worker answers."""
        ...

    @property
    def slabs(self) -> SlabPool:
        """Its memory."""
        ...

    def attach(self, slab: Slab) -> None:
        """Lets the worker see a slab.

        Raises:
            OSError: No descriptor is left for it, or the worker has not read for long.
        """
        ...

    def detach(self, slab: Slab) -> None:
        """Takes a slab from the worker's sight."""
        ...

    async def run(
        self, call: KernelCall, *, flow: Flow, used: Callable[[int], None]
    ) -> KernelTiming:
        """Runs a call to its end; calls of a flow run in the order of `run`.

        Each device time that it took is told to `used`, in nanoseconds, whatever it comes to.

        Cancelling it asks the worker to stop the call at its next slice, or never to begin it. The
        cancellation ends when the worker has done so or is dead: nothing of the call's is written
        any more.

        Raises:
            KernelFailed: The kernel raised.
            WorkerDied: The worker died twice under this call.
        """
        ...
