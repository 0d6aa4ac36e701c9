"""The device interface of the core; opserve_server.pool.device implements it."""

from typing import Protocol

from opserve_server.pool.device import CallProgress
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
    def restarts(self) -> int:
        """Workers that replaced a dead one."""
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

    def begin(self, call: KernelCall, *, flow: Flow, progress: CallProgress) -> int:
        """Begins a call; calls of a flow run in the order of `begin`.

        Args:
            call: The call.
            flow: The flow in which it runs.
            progress: Receives its progress, after this method has returned.

        Returns:
            Its number, for `stop_call`.
        """
        ...

    def stop_call(self, call_id: int) -> None:
        """Ends a call with CallStopped at its next slice, or before it begins."""
        ...
