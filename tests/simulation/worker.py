"""A worker process of the simulation: takes the real frames, maps the real slabs, runs nothing.

Its kernel takes a random time, spoils its output when it begins, and at its end fills it with a
byte that follows from the source: so lost, doubled and disordered runs show in what clients read.
Its flows take turns as those of a real worker do, slice by slice.
"""

import asyncio
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf
from random import Random
from zlib import crc32

from opserve_server.pool.messages import (
    Attach,
    Cancel,
    Cancelled,
    Detach,
    Done,
    Ending,
    Failed,
    KernelCall,
    Message,
    Ping,
    Pong,
    Region,
    Run,
    TimedOut,
    decode,
)
from opserve_server.pool.run_queue import RunQueue, Task

SPOILED = 0xEE
NANOSECONDS = 1_000_000_000
SLICE_S = 0.005
OUTCOMES: dict[type[Ending], str] = {
    Done: "done",
    Failed: "failed",
    TimedOut: "timed out",
    Cancelled: "cancelled",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a call on a worker.

    Attributes:
        worker: The worker's pid.
        call_id: The front's number of the call.
        parameters: What the call computes; unique for each call that a client plans.
        start_s: When it began.
        end_s: When it ended, in virtual seconds.
        outcome: "done", "failed", "cancelled", "timed out"; "died" where the worker did while it
            ran, and "lost" where the worker did while it paused.
        flow: Number of its tenant's flow.
        used_s: Seconds that it ran, without pauses.
    """

    worker: int
    call_id: int
    parameters: tuple[int, ...]
    start_s: float
    end_s: float
    outcome: str
    flow: int
    used_s: float


@dataclass(frozen=True, slots=True)
class Turn:
    """A time without a pause in which a worker ran a call, or waited before its hang."""

    call_id: int
    flow: int
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class _Begun:
    """The course of a call: its begin, its duration, and whether it fails."""

    start_s: float
    seconds: float
    fails: bool


@dataclass(slots=True)
class WrittenPage:
    """Stands in for the crash page of a worker (opserve_server.pool.crash_page)."""

    call_id: int = 0
    since_ns: int = 0


def some_time(_: KernelCall, random: Random) -> float:
    """Up to half a second."""
    return random.uniform(0, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFaults:
    """Faults of workers, as chances of a call or a start.

    Attributes:
        fails: A kernel raises.
        hangs: A kernel never ends, nor does its slice.
        endless: A kernel never ends, slice by slice.
        seconds: How long a call takes otherwise.
        start_fails: A process cannot be started.
        start_s: Longest that a start takes.
    """

    fails: float = 0.05
    hangs: float = 0.01
    endless: float = 0.01
    seconds: Callable[[KernelCall, Random], float] = some_time
    start_fails: float = 0.1
    start_s: float = 0.2


class SimulatedWorker:
    """Stands in for opserve_server.pool.process.WorkerProcess.

    Args:
        pid: Its process id.
        random: Decides how it behaves.
        manners: How often it misbehaves.
        operators: Names of the operators, in the order of the frames.
        call_time_limit_s: Seconds that a call may run, without pauses.
        on_message: Receives its messages.
        log: Where its runs are written down.
        computes: Receives a call at the begin and the end of each of its turns.

    Attributes:
        turns: What it did, from turn to turn.
    """

    def __init__(  # noqa: PLR0913  # what a world says of it, each by name
        self,
        *,
        pid: int,
        random: Random,
        worker_faults: WorkerFaults,
        operators: Sequence[str],
        call_time_limit_s: float,
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
        self._worker_faults = worker_faults
        self._operators = operators
        self._on_message = on_message
        self._log = log
        self._computes = computes
        self._slabs: dict[int, mmap.mmap] = {}
        self.crash_page = WrittenPage()
        self.turns: list[Turn] = []
        self._call_time_limit_s = call_time_limit_s
        self._run_queue = RunQueue()
        self._begun: dict[Task, _Begun] = {}
        self._running: Task | None = None
        self._turned_s = self._charged_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._hangs = False
        self._alive = True
        self.loop.call_later(random.uniform(0, worker_faults.start_s), self._become_ready)

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
                    if self._running is not None:
                        self._charge(self._running)
                    self._run_queue.add(message)
                    self._look_around()
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
        elif (task := self._run_queue.find(message.call_id)) is not None:
            self._end_task(task, Cancelled)

    def _look_around(self) -> None:
        """Starts the next call, or schedules the next pause or end of the running one."""
        if self._running is None and self._run_queue:
            self._switch_to(self._run_queue.next())
        elif self._running is not None:
            self._set_timer(self._running)

    def _switch_to(self, task: Task) -> None:
        self._running, self._turned_s = task, self.loop.time()
        self._charged_s = self._turned_s
        self._computes(task.run.call)
        self.crash_page.call_id = task.run.call_id
        self.crash_page.since_ns = round(self._turned_s * NANOSECONDS) - task.used_ns
        if task not in self._begun:
            self._begun[task] = self._begin(task.run.call)
        self._set_timer(task)

    def _begin(self, call: KernelCall) -> _Begun:
        _, target = self._regions(call)
        self._fill(target, SPOILED)
        chance, fails = self._random.random(), self._random.random() < self._worker_faults.fails
        self._hangs = chance < self._worker_faults.hangs
        endless = chance < self._worker_faults.hangs + self._worker_faults.endless
        seconds = inf if endless else self._worker_faults.seconds(call, self._random)
        return _Begun(self.loop.time(), seconds, fails)

    def _set_timer(self, task: Task) -> None:
        """To the end of a call; where others wait, to the end of its slice."""
        if self._timer is not None:
            self._timer.cancel()
        if self._hangs:
            return
        lasts_s = min(self._begun[task].seconds, self._call_time_limit_s)
        at_s = self._charged_s + lasts_s - task.used_ns / NANOSECONDS
        if len(self._run_queue._flows) > 1:
            slices = floor((self.loop.time() - self._turned_s) / SLICE_S + 1e-6) + 1
            at_s = min(at_s, self._turned_s + slices * SLICE_S)
        self._timer = self.loop.call_at(at_s, self._end_slice, task)

    def _end_slice(self, task: Task) -> None:
        self._charge(task)
        begun, used_s = self._begun[task], (task.used_ns + 1) / NANOSECONDS
        if used_s >= begun.seconds:
            self._end_task(task, Failed if begun.fails else Done)
        elif used_s >= self._call_time_limit_s:
            self._end_task(task, TimedOut)
        elif self._run_queue.gives_way(task):
            self._stop_turn(task)
            self._look_around()
        else:
            self._set_timer(task)

    def _charge(self, task: Task) -> None:
        now_s = self.loop.time()
        self._run_queue.charge(task, round((now_s - self._charged_s) * NANOSECONDS))
        self._charged_s = now_s

    def _stop_turn(self, task: Task) -> None:
        assert self._timer is not None, "a worker that hangs does not hear"
        self._timer.cancel()
        self._charge(task)
        self._computes(task.run.call)
        self._note_turn(task)
        self._running = None

    def _note_turn(self, task: Task) -> None:
        turn = Turn(task.run.call_id, task.run.flow.number, self._turned_s, self.loop.time())
        self.turns.append(turn)

    def _end_task(self, task: Task, ending: type[Ending]) -> None:
        if task is self._running:
            self._stop_turn(task)
        self._run_queue.remove(task)
        begun = self._begun.pop(task, None)
        arguments: tuple[int, ...] = (task.run.call_id, task.used_ns)
        if begun is not None:
            self._write_down(task, begun, OUTCOMES[ending])
        if ending is Done:
            assert begun is not None
            source, target = self._regions(task.run.call)
            self._fill(target, filled_by(self._bytes(source), task.run.call.parameters))
            start_ns, end_ns = (int(at * NANOSECONDS) for at in (begun.start_s, self.loop.time()))
            arguments += (start_ns, end_ns, task.used_ns)
        self._on_message(ending(*arguments))
        if self._alive:
            self._look_around()

    def _end(self, reason: str) -> None:
        if not self._alive:
            return
        self._alive = False
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._charge(self._running)
            self._note_turn(self._running)
        for task, begun in self._begun.items():
            self._write_down(task, begun, "died" if task is self._running else "lost")
        self._slabs.clear()
        noticed_s = 0.0 if reason == "closed" else self._random.uniform(0, 0.02)
        self.loop.call_later(noticed_s, self._be_noticed)

    def _be_noticed(self) -> None:
        if not self.ready.done():
            self.ready.set_result(False)
        self.dead.set_result(None)

    def _write_down(self, task: Task, begun: _Begun, outcome: str) -> None:
        ran = Ran(
            self.pid,
            task.run.call_id,
            task.run.call.parameters,
            begun.start_s,
            self.loop.time(),
            outcome,
            task.run.flow.number,
            task.used_ns / NANOSECONDS,
        )
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
