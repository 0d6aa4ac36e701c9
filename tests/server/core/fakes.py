"""A device whose calls the test finishes, and a service on it."""

import asyncio
from dataclasses import dataclass, field, replace

from opserve_server.core.dispatch import Progress
from opserve_server.core.limits import Limits
from opserve_server.core.service import Service
from opserve_server.pool.device import (
    CallProgress,
    CallStopped,
    KernelFailed,
    KernelTiming,
    WorkerDied,
)
from opserve_server.pool.messages import Flow, KernelCall
from opserve_server.pool.slabs import Slab, SlabPool

KIB = 1024
LIMITS = Limits(
    sessions_limit=4,
    device_sessions_limit=4,
    waiting_limit=6,
    tenant_waiting_limit=4,
    device_wait_limit_s=3600.0,
    waiting_return_s=5.0,
    priority_step_s=60.0,
    exclusive_limit_s=600.0,
    buffers_limit=64,
    executors_limit=64,
    plans_limit=2,
    streams_limit=8,
    events_limit=8,
    stream_queue_limit=32,
    stream_history_limit=16,
    copy_history_limit=8,
    commands_per_submit_limit=256,
    inline_bytes_limit=64 * KIB,
    submit_bytes_limit=256 * KIB,
    chunk_bytes=16 * KIB,
    lease_default_s=30.0,
    lease_maximum_s=3600.0,
    wait_limit_s=300.0,
    drain_quiet_s=1.0,
    watch_limit_s=600.0,
    watch_quiet_limit_s=15.0,
    tenant_watches_limit=3,
    uploads_bytes_limit=256 * KIB,
    request_ids_limit=8,
    retained_bytes_limit=256 * KIB,
    name_length_limit=128,
)

ONE_EVENT = replace(LIMITS, watch_limit_s=0.0)
"""Limits with which a watch ends after its first event."""


@dataclass
class HeldCall:
    """A call that the device holds.

    Attributes:
        stream: Handle of the stream that runs it.
        call: What runs.
        call_id: Its number.
        progress: Receives its end.
        before: Bytes of its regions when it started.
        loop: The event loop of its service.
        start_ns: When it began, nanoseconds of the loop's clock.
        stopping: Whether the device was ordered to stop it, which it does when it is finished.
    """

    stream: int
    call: KernelCall
    call_id: int
    progress: CallProgress
    before: list[bytes]
    loop: asyncio.AbstractEventLoop
    start_ns: int
    stopping: bool = False


@dataclass
class FakeDevice:
    """Takes calls and holds them until `finish` or `fail`; with `auto` they finish at once."""

    slabs: SlabPool = field(init=False)
    name: str = "ascend910b-0"
    profile: str = "ascend910b"
    threads: int = 1
    tags: frozenset[str] = frozenset()
    ready: bool = True
    restarts: int = 0
    auto: bool = True
    takes_ns: int = 10_000_000
    attached: dict[int, Slab] = field(default_factory=dict[int, Slab])
    held: list[HeldCall] = field(default_factory=list[HeldCall])
    calls: list[KernelCall] = field(default_factory=list[KernelCall])

    def __post_init__(self) -> None:
        self.slabs = SlabPool(
            capacity_bytes=self.memory_bytes, slab_bytes=128 * KIB, unmap=self.detach
        )

    @property
    def memory_bytes(self) -> int:
        return 1024 * KIB

    def attach(self, slab: Slab) -> None:
        self.attached[slab.id] = slab

    def detach(self, slab: Slab) -> None:
        self.attached.pop(slab.id, None)

    def begin(self, call: KernelCall, *, flow: Flow, progress: CallProgress) -> int:
        del flow
        self.calls.append(call)
        call_id, loop = len(self.calls), asyncio.get_running_loop()
        self._check_workspace(call)
        if self.auto:
            now_ns = round(loop.time() * 1e9)
            loop.call_soon(progress.ended, KernelTiming(now_ns, now_ns, 0))
        else:
            assert isinstance(progress, Progress)
            stream = progress.source.handle
            before, start_ns = self._bytes(call), round(loop.time() * 1e9)
            held = HeldCall(stream, call, call_id, progress, before, loop, start_ns)
            self.held.append(held)
        return call_id

    def stop_call(self, call_id: int) -> None:
        for held in self.held:
            held.stopping |= held.call_id == call_id

    def finish(self, held: HeldCall, failure: KernelFailed | WorkerDied | None = None) -> None:
        """Ends a held call with success or a failure; no other call may have touched its memory."""
        self._check_workspace(held.call)
        assert self._bytes(held.call) == held.before, "memory of a running call was handed out"
        self.end(held, failure)

    def end(self, held: HeldCall, failure: KernelFailed | WorkerDied | None = None) -> None:
        """Ends a held call as `finish` does, and checks nothing."""
        self.held.remove(held)
        now_ns = round(held.loop.time() * 1e9)
        timing = KernelTiming(held.start_ns, now_ns, now_ns - held.start_ns)
        outcome = failure or (CallStopped() if held.stopping else timing)
        held.progress.used(self.takes_ns)
        held.loop.call_soon(held.progress.ended, outcome)

    def _check_workspace(self, call: KernelCall) -> None:
        hidden = call.workspace is None or not self.attached[call.workspace.slab].mapped
        assert hidden, "a client can change the indices that a call works with"

    def _bytes(self, call: KernelCall) -> list[bytes]:
        regions = [region for region in (*call.tensors, call.workspace) if region is not None]
        return [
            bytes(self.attached[r.slab].memory[r.offset : r.offset + r.size_bytes]) for r in regions
        ]


def make_service(device: FakeDevice, limits: Limits = LIMITS) -> Service:
    return Service([device], limits=limits, shared_memory="0123456789abcdef" * 2)
