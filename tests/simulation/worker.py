"""A worker process of the simulation: takes the real frames, maps the real slabs, runs nothing.

Its kernel takes a random time, spoils its output when it begins, and at its end fills it with a
byte that follows from the source: so lost, doubled and disordered runs show in what clients read.
"""

import asyncio
import mmap
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from zlib import crc32

from opserve_server.pool.messages import (
    Attach,
    Cancel,
    Cancelled,
    Detach,
    Done,
    Failed,
    KernelCall,
    Message,
    Ping,
    Pong,
    Region,
    Run,
    decode,
)

SPOILED = 0xEE
NANOSECONDS = 1_000_000_000
SLICE_S = 0.005


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a call on a worker.

    Attributes:
        worker: The worker's pid.
        call_id: The front's number of the call.
        parameters: What the call computes; unique for each call that a client plans.
        start_s: When it began.
        end_s: When it ended, in virtual seconds.
        outcome: "done", "failed", "cancelled", or "died" where the worker did.
    """

    worker: int
    call_id: int
    parameters: tuple[int, ...]
    start_s: float
    end_s: float
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How workers behave, as chances of a call or a start.

    Attributes:
        fails: A kernel raises.
        hangs: A kernel never ends, nor does its slice.
        endless: A kernel never ends, slice by slice.
        slow_s: Longest that another one takes.
        start_fails: A process cannot be started.
        start_s: Longest that a start takes.
    """

    fails: float = 0.05
    hangs: float = 0.01
    endless: float = 0.01
    slow_s: float = 0.5
    start_fails: float = 0.1
    start_s: float = 0.2


class SimulatedWorker:
    """What opserve_server.pool.process.WorkerProcess is to a device.

    Args:
        pid: Its process id.
        random: Decides how it behaves.
        manners: How often it misbehaves.
        operators: Names of the operators, in the order of the frames.
        on_message: Told what it says.
        log: Where its runs are written down.
        computes: Told of a call at its begin and its end.
    """

    def __init__(  # noqa: PLR0913  # what it is told at its start, each by name
        self,
        *,
        pid: int,
        random: Random,
        manners: Manners,
        operators: Sequence[str],
        on_message: Callable[[Message], None],
        log: list[Ran],
        computes: Callable[[KernelCall], None],
    ) -> None:
        self.pid = pid
        self.channel = self
        self.loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[bool] = self.loop.create_future()
        self.dead: asyncio.Future[None] = self.loop.create_future()
        self._random = random
        self._manners = manners
        self._operators = operators
        self._on_message = on_message
        self._log = log
        self._computes = computes
        self._slabs: dict[int, mmap.mmap] = {}
        self._queue: deque[Run] = deque()
        self._running: tuple[Run, float] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._hangs = False
        self._alive = True
        self.loop.call_later(random.uniform(0, manners.start_s), self._become_ready)

    def send(self, frame: bytes, *, fd: int | None = None) -> None:
        """Takes in frames; a dead worker hears nothing."""
        if not self._alive:
            return
        for message in decode(frame, self._operators):
            match message:
                case Attach(slab, size_bytes):
                    assert fd is not None, "a slab comes with its descriptor"
                    copy = os.dup(fd)
                    self._slabs[slab] = mmap.mmap(copy, size_bytes)
                    os.close(copy)
                case Detach(slab):
                    del self._slabs[slab]
                case Run():
                    self._queue.append(message)
                    self._begin_next()
                case Cancel() | Ping():
                    delay_s = self._random.uniform(0, SLICE_S)
                    self.loop.call_later(delay_s, self._look_up, message)
                case _:
                    raise AssertionError(f"the front sent {message}")

    def close(self) -> None:
        """The front closes its end: the worker ends."""
        self._end("closed")

    def kill(self) -> None:
        """Ends it at once; the front notices a moment later."""
        self._end("killed")

    async def stop(self, *, grace_s: float) -> None:
        """Ends it; afterwards it writes nothing."""
        del grace_s
        self._end("stopped")
        await self.dead

    def _become_ready(self) -> None:
        if self._alive:
            self.ready.set_result(True)

    def _look_up(self, message: Cancel | Ping) -> None:
        if not self._alive or self._hangs:
            return
        if isinstance(message, Ping):
            self._on_message(Pong())
        elif self._running is not None and self._running[0].call_id == message.call_id:
            if self._timer is not None:
                self._timer.cancel()
            self._write_down("cancelled")
            self._running = None
            self._on_message(Cancelled(message.call_id))
            self._begin_next()
        elif waiting := [run for run in self._queue if run.call_id == message.call_id]:
            self._queue.remove(waiting[0])
            self._on_message(Cancelled(message.call_id))

    def _begin_next(self) -> None:
        if self._running is not None or not self._queue:
            return
        run = self._queue.popleft()
        self._running = run, self.loop.time()
        self._computes(run.call)
        _, target = self._regions(run.call)
        self._fill(target, SPOILED)
        chance = self._random.random()
        self._hangs = chance < self._manners.hangs
        if chance >= self._manners.hangs + self._manners.endless:
            seconds = self._random.uniform(0, self._manners.slow_s)
            self._timer = self.loop.call_later(seconds, self._end_run)

    def _end_run(self) -> None:
        assert self._running is not None
        run, start_s = self._running
        self._computes(run.call)
        fails = self._random.random() < self._manners.fails
        if not fails:
            source, target = self._regions(run.call)
            self._fill(target, filled_by(self._bytes(source), run.call.parameters))
        self._write_down("failed" if fails else "done")
        self._running = None
        if fails:
            self._on_message(Failed(run.call_id))
        else:
            start_ns, end_ns = (int(at * NANOSECONDS) for at in (start_s, self.loop.time()))
            self._on_message(Done(run.call_id, start_ns, end_ns))
        if self._alive:
            self._begin_next()

    def _end(self, reason: str) -> None:
        if not self._alive:
            return
        self._alive = False
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._write_down("died")
        self._slabs.clear()
        noticed_s = 0.0 if reason == "closed" else self._random.uniform(0, 0.02)
        self.loop.call_later(noticed_s, self._be_noticed)

    def _be_noticed(self) -> None:
        if not self.ready.done():
            self.ready.set_result(False)
        self.dead.set_result(None)

    def _write_down(self, outcome: str) -> None:
        assert self._running is not None
        run, start_s = self._running
        now_s = self.loop.time()
        ran = Ran(self.pid, run.call_id, run.call.parameters, start_s, now_s, outcome)
        self._log.append(ran)

    def _regions(self, call: KernelCall) -> tuple[Region, Region]:
        source, target = call.tensors
        assert source is not None
        assert target is not None
        return source, target

    def _bytes(self, region: Region) -> bytes:
        return self._slabs[region.slab][region.offset : region.offset + region.size_bytes]

    def _fill(self, region: Region, value: int) -> None:
        end = region.offset + region.size_bytes
        self._slabs[region.slab][region.offset : end] = bytes([value]) * region.size_bytes


def filled_by(source: bytes, parameters: tuple[int, ...]) -> int:
    """The byte that a call fills its output with."""
    return crc32(repr(parameters).encode(), crc32(source)) % SPOILED
