"""A device whose calls the test finishes, and a service on it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from opserve_server.core.limits import Limits
from opserve_server.core.service import Service
from opserve_server.pool.device import KernelTiming
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
    uploads_bytes_limit=256 * KIB,
    request_ids_limit=8,
    retained_bytes_limit=256 * KIB,
    name_length_limit=128,
)


@dataclass
class HeldCall:
    """A call that the device holds.

    Attributes:
        stream: Handle of the stream that runs it.
        call: What runs.
        done: Set by the test.
        before: Bytes of its regions when it started.
        stopping: Whether the device was ordered to stop it, which it does when `done` is set.
    """

    stream: int
    call: KernelCall
    done: "asyncio.Future[None]"
    before: list[bytes]
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

    async def run(
        self, call: KernelCall, *, flow: Flow, used: Callable[[int], None]
    ) -> KernelTiming:
        del flow
        self.calls.append(call)
        self._check_workspace(call)
        start_ns = self._now_ns()
        if not self.auto:
            task = asyncio.current_task()
            assert task is not None
            stream = int(task.get_name().removeprefix("stream "))
            done = asyncio.get_running_loop().create_future()
            held = HeldCall(stream, call, done, self._bytes(call))
            self.held.append(held)
            try:
                await self._end_of(held)
            finally:
                used(self.takes_ns)
        end_ns = self._now_ns()
        return KernelTiming(start_ns, end_ns, end_ns - start_ns)

    async def _end_of(self, held: HeldCall) -> None:
        try:
            await asyncio.wait([held.done])
        except asyncio.CancelledError:
            if not held.done.done():
                held.stopping = True
                await asyncio.wait([held.done])
                held.done.result()
                raise
        held.done.result()

    def _now_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * 1e9)

    def finish(self, held: HeldCall, failure: Exception | None = None) -> None:
        """Ends a held call with success or a failure; no other call may have touched its memory."""
        self._check_workspace(held.call)
        assert self._bytes(held.call) == held.before, "memory of a running call was handed out"
        self.held.remove(held)
        if failure is None:
            held.done.set_result(None)
        else:
            held.done.set_exception(failure)

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
