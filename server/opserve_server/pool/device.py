"""A virtual device: its memory, its worker process, and the keeper that replaces a dead worker.

Slabs outlive workers, and kernels only write outputs and workspace. So what was in flight when a
worker died is sent once more to the next one; a call under which two workers died is given up.
"""

import asyncio
import logging
import multiprocessing
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from multiprocessing.context import ForkServerProcess

from opserve_kernels.registry import OPERATORS
from opserve_server.pool import worker
from opserve_server.pool.channel import Channel
from opserve_server.pool.messages import (
    Attach,
    Detach,
    Done,
    Failed,
    KernelCall,
    Message,
    Ready,
    Run,
)
from opserve_server.pool.slabs import Slab, SlabPool

DEATHS_LIMIT = 2
RESTART_DELAYS_S = (0.0, 0.1, 0.5, 2.0)
STOP_TIMEOUT_S = 4.0
KERNELS = {operator.name: operator.kernel for operator in OPERATORS.values()}

log = logging.getLogger(__name__)


class KernelFailed(Exception):
    """A kernel raised; the worker's log says what."""


class WorkerDied(Exception):
    """A call cannot be run: workers died under it, or the device is stopped."""


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """When a call ran, in nanoseconds of the monotonic clock."""

    start_ns: int
    end_ns: int


@dataclass(slots=True, eq=False)
class _Pending:
    call: KernelCall
    done: asyncio.Future[KernelTiming]
    deaths: int = 0


class Device:
    """Runs calls in the order they come, whatever happens to its workers.

    Args:
        name: Name within the service: "ascend910b-0".
        profile: Name of its profile.
        memory_bytes: Memory in all.
        slab_bytes: Length of an ordinary slab.
        start_timeout_s: Seconds a worker may take to be ready; the first one compiles kernels.
        kernels: Module with `run` for each operator.
    """

    def __init__(
        self,
        *,
        name: str,
        profile: str,
        memory_bytes: int,
        slab_bytes: int,
        start_timeout_s: float,
        kernels: Mapping[str, str] = KERNELS,
    ) -> None:
        self.name = name
        self.profile = profile
        self.memory_bytes = memory_bytes
        self.slabs = SlabPool(capacity_bytes=memory_bytes, slab_bytes=slab_bytes)
        self._kernels = kernels
        self._start_timeout_s = start_timeout_s
        self._call_ids = count(1)
        self._pending: dict[int, _Pending] = {}
        self._attached: dict[int, Slab] = {}
        self._worker: _Worker | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether a worker answers."""
        return self._worker is not None

    @property
    def worker_pid(self) -> int | None:
        """Process id of the worker; None while there is none."""
        return None if self._worker is None else self._worker.process.pid

    async def start(self) -> None:
        """Starts the first worker.

        Raises:
            TimeoutError: It is not ready in time.
            WorkerDied: It ends before it is ready; its log says why.
        """
        started = await self._start_worker()
        self._put_to_work(started)
        self._keeper = asyncio.create_task(self._keep(started), name=f"keeper of {self.name}")

    async def stop(self) -> None:
        """Ends the worker and gives up what it runs."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if self._worker is not None:
            await self._worker.stop()
            self._worker = None
        for pending in self._pending.values():
            if not pending.done.done():
                pending.done.set_exception(WorkerDied("the device is stopped"))
        self._pending.clear()
        self.slabs.close()

    def attach(self, slab: Slab) -> None:
        """Lets the worker, and every later one, see a slab."""
        self._attached[slab.id] = slab
        if self._worker is not None:
            self._worker.channel.send(Attach(slab.id, slab.size_bytes), fd=slab.fd)

    def detach(self, slab: Slab) -> None:
        """Takes a slab from the worker's sight; no call may use it."""
        del self._attached[slab.id]
        if self._worker is not None:
            self._worker.channel.send(Detach(slab.id))

    async def run(self, call: KernelCall) -> KernelTiming:
        """Runs a call to its end.

        Raises:
            KernelFailed: The kernel raised.
            WorkerDied: Two workers died under it.
        """
        call_id = next(self._call_ids)
        pending = _Pending(call, asyncio.get_running_loop().create_future())
        if self._worker is not None:
            self._worker.channel.send(Run(call_id, call))
        self._pending[call_id] = pending
        return await pending.done

    async def _keep(self, current: "_Worker") -> None:
        """Replaces each worker that dies, at once the first time, later with a growing delay."""
        while True:
            await asyncio.wait([current.dead])
            self._worker = None
            log.warning("%s: worker %d died", self.name, current.process.pid)
            await current.stop()
            self._count_death()
            current = await self._start_replacement()
            self._put_to_work(current)

    async def _start_replacement(self) -> "_Worker":
        attempt = 0
        while True:
            await asyncio.sleep(RESTART_DELAYS_S[min(attempt, len(RESTART_DELAYS_S) - 1)])
            try:
                return await self._start_worker()
            except (TimeoutError, WorkerDied):
                log.exception("%s: a new worker did not start", self.name)
            attempt += 1

    async def _start_worker(self) -> "_Worker":
        started = await _Worker.start(self.name, self._kernels, on_message=self._on_message)
        try:
            await asyncio.wait_for(started.ready, self._start_timeout_s)
        except BaseException:
            await started.stop()
            raise
        return started

    def _put_to_work(self, current: "_Worker") -> None:
        self._worker = current
        for slab in self._attached.values():
            current.channel.send(Attach(slab.id, slab.size_bytes), fd=slab.fd)
        for call_id, pending in self._pending.items():
            current.channel.send(Run(call_id, pending.call))

    def _count_death(self) -> None:
        """The oldest call was running when the worker died; the ones behind it were not."""
        if not self._pending:
            return
        call_id, running = next(iter(self._pending.items()))
        running.deaths += 1
        if running.deaths >= DEATHS_LIMIT:
            del self._pending[call_id]
            _resolve(running, WorkerDied(f"{running.deaths} workers died under it"))

    def _on_message(self, message: Message) -> None:
        match message:
            case Done(call_id, start_ns, end_ns):
                _resolve(self._pending.pop(call_id), KernelTiming(start_ns, end_ns))
            case Failed(call_id):
                _resolve(self._pending.pop(call_id), KernelFailed("its kernel failed"))
            case _:
                raise AssertionError(f"a worker sent {message}")


class _Worker:
    """One worker process, from its start to its end."""

    def __init__(self, process: ForkServerProcess) -> None:
        loop = asyncio.get_running_loop()
        self.process = process
        self.channel: Channel
        self.ready: asyncio.Future[None] = loop.create_future()
        self.dead: asyncio.Future[None] = loop.create_future()
        loop.add_reader(process.sentinel, self._on_end)

    @classmethod
    async def start(
        cls, name: str, kernels: Mapping[str, str], *, on_message: Callable[[Message], None]
    ) -> "_Worker":
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["opserve_server.pool.preload"])
            process = context.Process(
                target=worker.main, args=(theirs, dict(kernels)), name=name, daemon=True
            )
            await asyncio.to_thread(process.start)
        self = cls(process)

        def receive(message: Message) -> None:
            if isinstance(message, Ready):
                self.ready.set_result(None)
            else:
                on_message(message)

        self.channel = Channel(
            ours, operators=sorted(kernels), on_message=receive, on_close=self._on_end
        )
        return self

    async def stop(self) -> None:
        """Closes the socket, which ends a live worker; kills one that does not listen."""
        asyncio.get_running_loop().remove_reader(self.process.sentinel)
        self.channel.close()
        await asyncio.to_thread(self.process.join, STOP_TIMEOUT_S)
        if self.process.is_alive():
            self.process.kill()
            await asyncio.to_thread(self.process.join)
        self.process.close()

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self.process.sentinel)
        if not self.dead.done():
            self.dead.set_result(None)
        if not self.ready.done():
            self.ready.set_exception(WorkerDied("the worker ended before it was ready"))


def _resolve(pending: _Pending, outcome: KernelTiming | Exception) -> None:
    if pending.done.done():
        return
    if isinstance(outcome, Exception):
        pending.done.set_exception(outcome)
    else:
        pending.done.set_result(outcome)
