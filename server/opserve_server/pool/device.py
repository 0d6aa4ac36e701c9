"""A virtual device: its memory, its worker process, and the keeper that replaces a dead worker.

Slabs outlive workers, and kernels only write outputs and workspace. So what was in flight when a
worker died is sent once more to the next one; a call under which two workers died is given up.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from opserve_kernels.registry import OPERATORS
from opserve_server.pool.channel import ChannelOverflowError
from opserve_server.pool.messages import (
    Attach,
    Detach,
    Done,
    Failed,
    KernelCall,
    Message,
    Run,
    encode,
)
from opserve_server.pool.process import WorkerProcess
from opserve_server.pool.slabs import Slab, SlabPool

CALLS_IN_FLIGHT_LIMIT = 256
DEATHS_LIMIT = 2
RESTART_DELAYS_S = (0.0, 0.1, 0.5, 2.0)
STOP_TIMEOUT_S = 4.0
KERNELS = {operator.name: operator.kernel for operator in OPERATORS.values()}

log = logging.getLogger(__name__)


class KernelFailed(Exception):
    """A kernel raised; the worker's log says what."""


class WorkerDied(Exception):
    """A call cannot be run: workers died under it, none can be started, or the device stopped."""


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """When a call ran, in nanoseconds of the monotonic clock."""

    start_ns: int
    end_ns: int


@dataclass(slots=True, eq=False)
class _Pending:
    frame: bytes
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
        call_time_limit_s: Seconds a call may run. Then it is given up and its worker killed, and
            what waits behind it goes to the next one.
        threads: On how many of its worker's threads a call runs at most.
        kernels: Module with `run` for each operator.
    """

    def __init__(  # noqa: PLR0913  what the settings say of a device
        self,
        *,
        name: str,
        profile: str,
        memory_bytes: int,
        slab_bytes: int,
        start_timeout_s: float,
        call_time_limit_s: float,
        threads: int,
        kernels: Mapping[str, str] = KERNELS,
    ) -> None:
        self.name = name
        self.profile = profile
        self.memory_bytes = memory_bytes
        self.threads = threads
        self.slabs = SlabPool(capacity_bytes=memory_bytes, slab_bytes=slab_bytes)
        self._kernels = kernels
        self._operators = sorted(kernels)
        self._start_timeout_s = start_timeout_s
        self._call_time_limit_s = call_time_limit_s
        self._time_limit: asyncio.TimerHandle | None = None
        self._killed_by_limit = False
        self._call_ids = count(1)
        self._room = asyncio.Semaphore(CALLS_IN_FLIGHT_LIMIT)
        self._pending: dict[int, _Pending] = {}
        self._attached: dict[int, Slab] = {}
        self._worker: WorkerProcess | None = None
        self._stopping: asyncio.Future[None]
        self._keeper: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether a worker answers."""
        return self._worker is not None

    @property
    def worker_pid(self) -> int | None:
        """Process id of the worker; None while there is none."""
        return None if self._worker is None else self._worker.pid

    async def start(self) -> None:
        """Starts the first worker.

        Raises:
            TimeoutError: It is not ready in time.
            WorkerDied: It ends before it is ready; its log says why.
        """
        loop = asyncio.get_running_loop()
        self._stopping = loop.create_future()
        started: asyncio.Future[None] = loop.create_future()
        self._keeper = loop.create_task(self._keep(started), name=f"keeper of {self.name}")
        await asyncio.wait([self._keeper, started], return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            await self._keeper

    async def stop(self) -> None:
        """Ends the worker and gives up what it runs."""
        if self._keeper is not None:
            if not self._stopping.done():
                self._stopping.set_result(None)
            await asyncio.wait([self._keeper])
        self._give_up_calls("the device is stopped")
        self.slabs.close()

    def attach(self, slab: Slab) -> None:
        """Lets the worker, and every later one, see a slab."""
        self._attached[slab.id] = slab
        if self._worker is not None:
            frame = encode(Attach(slab.id, slab.size_bytes), self._operators)
            self._tell(self._worker, frame, fd=slab.fd)

    def detach(self, slab: Slab) -> None:
        """Takes a slab from the worker's sight; no call may use it."""
        del self._attached[slab.id]
        if self._worker is not None:
            self._tell(self._worker, encode(Detach(slab.id), self._operators))

    async def run(self, call: KernelCall) -> KernelTiming:
        """Runs a call to its end.

        Cancelling it drops the result only: the kernel writes until the device is stopped or a
        later call is done.

        Raises:
            FrameError: The call does not fit a packet.
            KernelFailed: The kernel raised.
            WorkerDied: Two workers died under it, it ran too long, none can be started, or the
                device is stopped.
        """
        call_id = next(self._call_ids)
        frame = encode(Run(call_id, call), self._operators)
        async with self._room:
            if self._keeper is None or self._keeper.done() or self._stopping.done():
                raise WorkerDied("the device is not started, or stopped")
            pending = _Pending(frame, asyncio.get_running_loop().create_future())
            self._pending[call_id] = pending
            if self._worker is not None:
                self._tell(self._worker, frame)
            if len(self._pending) == 1:
                self._time_the_oldest()
            return await pending.done

    async def _keep(self, started: asyncio.Future[None]) -> None:
        """Starts a worker, and another one for each that dies, until the device is stopped."""
        current: WorkerProcess | None = await self._start_worker()
        started.set_result(None)
        while current is not None:
            self._put_to_work(current)
            await self._wait(current.dead)
            self._worker = None
            self._time_the_oldest()
            if self._stopping.done():
                await current.stop(grace_s=STOP_TIMEOUT_S)
                return
            log.warning("%s: worker %d died", self.name, current.pid)
            await current.stop(grace_s=0)
            self._count_death()
            current = await self._start_replacement()

    async def _start_replacement(self) -> WorkerProcess | None:
        """A new worker, at once or, while none starts, with growing delays; None when stopped."""
        for attempt in count():
            delay_s = RESTART_DELAYS_S[min(attempt, len(RESTART_DELAYS_S) - 1)]
            await asyncio.wait([self._stopping], timeout=delay_s)
            try:
                return None if self._stopping.done() else await self._start_worker()
            except (TimeoutError, WorkerDied):
                log.exception("%s: a new worker did not start", self.name)
            if attempt + 1 >= len(RESTART_DELAYS_S):
                self._give_up_calls("no worker can be started")
        return None

    async def _start_worker(self) -> WorkerProcess:
        try:
            started = await WorkerProcess.start(
                self.name, self._kernels, threads=self.threads, on_message=self._on_message
            )
        except (OSError, EOFError) as error:
            raise WorkerDied("no process can be started") from error
        await self._wait(started.ready, timeout_s=self._start_timeout_s)
        if started.ready.done() and started.ready.result():
            return started
        await started.stop(grace_s=0)
        if started.ready.done():
            raise WorkerDied("the worker ended before it was ready")
        if self._stopping.done():
            raise WorkerDied("the device is stopped")
        raise TimeoutError(f"the worker was not ready within {self._start_timeout_s:g} s")

    async def _wait(self, event: asyncio.Future[Any], *, timeout_s: float | None = None) -> None:
        """Waits for an event of a worker, or for the stop of the device."""
        await asyncio.wait(
            [event, self._stopping], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )

    def _put_to_work(self, current: WorkerProcess) -> None:
        self._worker = current
        for slab in self._attached.values():
            frame = encode(Attach(slab.id, slab.size_bytes), self._operators)
            self._tell(current, frame, fd=slab.fd)
        for pending in self._pending.values():
            self._tell(current, pending.frame)
        self._time_the_oldest()

    def _tell(self, current: WorkerProcess, frame: bytes, *, fd: int | None = None) -> None:
        """Says something to a worker; one that does not hear is killed, the next is told all."""
        try:
            current.channel.send(frame, fd=fd)
        except (ChannelOverflowError, OSError):
            log.exception("%s: worker %d cannot be told and is killed", self.name, current.pid)
            current.kill()

    def _time_the_oldest(self) -> None:
        """Starts the time of the oldest call, which is the one that runs."""
        if self._time_limit is not None:
            self._time_limit.cancel()
            self._time_limit = None
        if self._pending and self._worker is not None:
            loop = asyncio.get_running_loop()
            self._time_limit = loop.call_later(self._call_time_limit_s, self._give_up_the_oldest)

    def _give_up_the_oldest(self) -> None:
        limit = f"{self._call_time_limit_s:g} s"
        log.error("%s: a call ran longer than %s; its worker is killed", self.name, limit)
        call_id = next(iter(self._pending))
        _resolve(self._pending.pop(call_id), WorkerDied(f"it ran longer than {limit}"))
        if self._worker is not None:
            self._killed_by_limit = True
            self._worker.kill()

    def _count_death(self) -> None:
        """The oldest call was running when the worker died; the ones behind it were not."""
        killed_by_limit, self._killed_by_limit = self._killed_by_limit, False
        if not self._pending or killed_by_limit:
            return
        call_id, running = next(iter(self._pending.items()))
        running.deaths += 1
        if running.deaths >= DEATHS_LIMIT:
            del self._pending[call_id]
            _resolve(running, WorkerDied(f"{running.deaths} workers died under it"))

    def _give_up_calls(self, reason: str) -> None:
        for pending in self._pending.values():
            _resolve(pending, WorkerDied(reason))
        self._pending.clear()
        self._time_the_oldest()

    def _on_message(self, message: Message) -> None:
        match message:
            case Done(call_id, start_ns, end_ns):
                self._end(call_id, KernelTiming(start_ns, end_ns))
            case Failed(call_id):
                self._end(call_id, KernelFailed("its kernel failed"))
            case _:
                raise AssertionError(f"a worker sent {message}")

    def _end(self, call_id: int, outcome: KernelTiming | KernelFailed) -> None:
        pending = self._pending.pop(call_id, None)
        if pending is not None:  # one that was given up may still come to its end
            _resolve(pending, outcome)
            self._time_the_oldest()


def _resolve(pending: _Pending, outcome: KernelTiming | Exception) -> None:
    if pending.done.done():
        return
    if isinstance(outcome, Exception):
        pending.done.set_exception(outcome)
    else:
        pending.done.set_result(outcome)
