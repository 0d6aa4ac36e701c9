"""Virtual device: its memory, its worker process, and the supervisor that replaces a dead worker.

Slabs outlive workers, and kernels write only outputs and workspace. So calls in flight at the death
of a worker are sent again to the next one and start anew. The death is attributed to the call that
the worker ran; a call with two deaths fails. A stopped call ends when its worker confirms it or is
dead: from then on no process writes its bytes.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from opserve_server.pool.crash_page import CrashPage
from opserve_server.pool.messages import (
    Attach,
    Cancel,
    Cancelled,
    Detach,
    Done,
    Failed,
    Flow,
    FrameError,
    KernelCall,
    Message,
    OutOfMemory,
    Ping,
    Pong,
    Run,
    TimedOut,
    encode,
)
from opserve_server.pool.process import WorkerProcess
from opserve_server.pool.slabs import Slab, SlabPool

DEATHS_LIMIT = 2
RESTART_DELAYS_S = (0.0, 0.1, 0.5, 2.0)
STOP_TIMEOUT_S = 4.0
BEATS_OF_A_LIMIT = 10
BEATS_MISSED_WHILE_READY = 3
_NS_PER_S = 1_000_000_000
NO_WORKER = "no worker can be started"

log = logging.getLogger(__name__)


class KernelFailed(Exception):
    """A call failed by itself: its kernel raised, lacked memory or ran too long."""


class WorkerDied(Exception):
    """A call cannot run: workers died during it, none can be started, or the device stopped."""


class CallStopped(Exception):
    """A call was stopped on request, or never began."""


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """Times of a kernel.

    Attributes:
        start_ns: Start, nanoseconds of the monotonic clock.
        end_ns: End, nanoseconds of the monotonic clock.
        kernel_ns: Nanoseconds between them without pauses for other calls.
    """

    start_ns: int
    end_ns: int
    kernel_ns: int


_Failure = KernelFailed | WorkerDied | CallStopped | FrameError
CallOutcome = KernelTiming | _Failure


class CallProgress(Protocol):
    """Receives the progress of a call."""

    def used(self, used_ns: int) -> None:
        """Device time of the call in nanoseconds, whatever its outcome; also of a dead worker."""
        ...

    def ended(self, outcome: CallOutcome) -> None:
        """The end of the call: no process writes its bytes any more."""
        ...


@dataclass(slots=True, eq=False)
class _Pending:
    """A call that has not ended.

    Attributes:
        frame: Its frame for a worker.
        progress: Receives its progress.
        sent: Whether a worker that may still write has received it.
        stop_error: Error with which it ends once it is stopped; None while it is to run.
        deaths: Workers that died during it.
    """

    frame: bytes
    progress: CallProgress
    sent: bool = False
    stop_error: _Failure | None = None
    deaths: int = 0


class Device:
    """Runs the calls of each flow in the order of their arrival, also after the death of a worker.

    Args:
        name: Name within the service: "ascend910b-0".
        profile: Name of its profile.
        memory_bytes: Total memory.
        slab_bytes: Length of an ordinary slab.
        start_timeout_s: Seconds until a worker must be ready; it loads kernels.
        call_time_limit_s: Seconds of device time after which a call is stopped.
        silence_limit_s: Seconds without a message after which a worker is killed, longer than a
            work unit of any kernel takes: between units a worker answers pings and stops calls.
        threads: Threads of its worker that a call uses at most.
        kernels: Module with `run` for each operator.
        tags: Tags that the administrator gave it.
    """

    def __init__(  # noqa: PLR0913  the settings of a device
        self,
        *,
        name: str,
        profile: str,
        memory_bytes: int,
        slab_bytes: int,
        start_timeout_s: float,
        call_time_limit_s: float,
        silence_limit_s: float,
        threads: int,
        kernels: Mapping[str, str],
        tags: Collection[str] = (),
    ) -> None:
        self.name, self.profile = name, profile
        self.memory_bytes = memory_bytes
        self.threads, self.tags = threads, frozenset(tags)
        self.restarts = 0
        self.slabs = SlabPool(capacity_bytes=memory_bytes, slab_bytes=slab_bytes, unmap=self.detach)
        self._kernels = kernels
        self._operators = sorted(kernels)
        self._start_timeout_s = start_timeout_s
        self._call_time_limit_s = call_time_limit_s
        self._time_limit_message = f"it ran longer than {call_time_limit_s:g} s"
        self._silence_limit_s = silence_limit_s
        self._call_ids = count(1)
        self._pending: dict[int, _Pending] = {}
        self._attached: dict[int, Slab] = {}
        self._worker: WorkerProcess | None = None
        self._quarantined = False
        self._heartbeat: Heartbeat
        self._stopping: asyncio.Future[None]
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether a worker responds."""
        return self._worker is not None and self._heartbeat.steady

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
        self._supervisor = loop.create_task(
            self._supervise(started), name=f"supervisor of {self.name}"
        )
        await asyncio.wait([self._supervisor, started], return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            await self._supervisor

    async def stop(self) -> None:
        """Stops the worker and fails its calls."""
        if self._supervisor is not None:
            if not self._stopping.done():
                self._stopping.set_result(None)
            await asyncio.wait([self._supervisor])
            self._supervisor.exception()  # not raised by a start that was cancelled
        self.slabs.close()

    def attach(self, slab: Slab) -> None:
        """Maps a slab in the worker and every later one; OSError where it cannot be sent.

        Does nothing for a slab that is mapped.
        """
        if slab.id in self._attached:
            return
        if self._worker is not None:
            frame = encode(Attach(slab.id, slab.size_bytes), self._operators)
            self._worker.channel.send(frame, fd=slab.fd)
        self._attached[slab.id] = slab

    def detach(self, slab: Slab) -> None:
        """Unmaps a slab in the worker, if it is mapped there; no call may use it."""
        if self._attached.pop(slab.id, None) is not None and self._worker is not None:
            self._send(self._worker, encode(Detach(slab.id), self._operators))

    def begin(self, call: KernelCall, *, flow: Flow, progress: CallProgress) -> int:
        """Begins a call; calls of a flow reach the worker in the order of `begin`.

        Args:
            call: The call.
            flow: The flow in which it runs, with its weight.
            progress: Receives its progress, after this method has returned. A call may end with a
                FrameError, as it does not fit a packet; with KernelFailed, as its kernel raised,
                lacked memory or ran too long; or with WorkerDied, as two workers died during it,
                none can be started, or the device is stopped.

        Returns:
            Its number, for `stop_call`.
        """
        call_id = next(self._call_ids)
        try:
            self._check_runs()
            frame = encode(Run(call_id, flow, call), self._operators)
        except (FrameError, WorkerDied) as error:
            asyncio.get_running_loop().call_soon(progress.ended, error)
            return call_id
        pending = self._pending[call_id] = _Pending(frame, progress)
        if self._worker is not None:
            self._send_call(self._worker, pending)
        return call_id

    def stop_call(self, call_id: int) -> None:
        """Ends a call with CallStopped once its worker has stopped or dropped it, or is dead."""
        pending = self._pending.get(call_id)
        if pending is None:
            return
        pending.stop_error = CallStopped()
        # No worker has it, so it ends now. Otherwise its end must wait for the worker, which may be
        # writing.
        if not pending.sent:
            del self._pending[call_id]
            asyncio.get_running_loop().call_soon(pending.progress.ended, pending.stop_error)
        elif self._worker is not None:
            self._send(self._worker, encode(Cancel(call_id), self._operators))

    def _check_runs(self) -> None:
        if self._supervisor is None or self._supervisor.done() or self._stopping.done():
            raise WorkerDied("the device is not started, or stopped")
        if self._quarantined:
            raise WorkerDied(NO_WORKER)

    async def _supervise(self, started: asyncio.Future[None]) -> None:
        """Runs one worker after the other until the device is stopped; then no call waits."""
        try:
            current = await self._start_worker()
            started.set_result(None)
            await self._replace_dead_workers(current)
        except Exception:
            if started.done():  # otherwise `start` raises it
                log.exception("%s: the device ended with an internal error", self.name)
            raise
        finally:
            self._worker = None
            self._quarantined = True  # a call that ends may make its dispatcher begin the next
            self._fail_calls("the device is stopped")

    async def _replace_dead_workers(self, first: WorkerProcess) -> None:
        current: WorkerProcess | None = first
        while current is not None:
            self._activate(current)
            await self._wait(current.dead)
            # Before the calls are settled: the dead worker must neither get frames nor be killed
            # again.
            self._heartbeat.stop()
            self._worker = None
            if self._stopping.done():
                await current.stop(grace_s=STOP_TIMEOUT_S)
                return
            log.warning("%s: worker %d died", self.name, current.pid)
            # The process must be gone before its calls run again: two workers may never write the
            # same bytes.
            await current.stop(grace_s=0)
            # After the end of the process the crash page does not change any more.
            self._settle_calls(current.crash_page)
            current = await self._start_replacement()
            self.restarts += current is not None

    async def _start_replacement(self) -> WorkerProcess | None:
        """A new worker, after growing delays while none starts; None when the device is stopped.

        With the longest delay reached, calls are rejected until a worker starts.
        """
        for attempt in count():
            delay_s = RESTART_DELAYS_S[min(attempt, len(RESTART_DELAYS_S) - 1)]
            await asyncio.wait([self._stopping], timeout=delay_s)
            try:
                return None if self._stopping.done() else await self._start_worker()
            except (TimeoutError, WorkerDied):
                log.exception("%s: a new worker did not start", self.name)
            if attempt + 2 >= len(RESTART_DELAYS_S):
                # Calls fail at once instead of waiting for a worker that may never start.
                self._quarantined = True
                self._fail_calls(NO_WORKER)
        return None

    async def _start_worker(self) -> WorkerProcess:
        try:
            started = await WorkerProcess.start(
                self.name,
                self._kernels,
                threads=self.threads,
                call_time_limit_s=self._call_time_limit_s,
                on_message=self._on_message,
            )
        except (OSError, EOFError, RuntimeError) as error:  # RuntimeError: no thread for it
            raise WorkerDied("no process can be started") from error
        await self._wait(started.ready, timeout_s=self._start_timeout_s)
        stopped, ended = self._stopping.done(), started.ready.done()
        if ended and started.ready.result() and not stopped:
            return started
        await started.stop(grace_s=0)
        if stopped:
            raise WorkerDied("the device is stopped")
        if ended:
            raise WorkerDied("the worker ended before it was ready")
        raise TimeoutError(f"the worker was not ready within {self._start_timeout_s:g} s")

    async def _wait(self, event: asyncio.Future[Any], *, timeout_s: float | None = None) -> None:
        """Waits for an event of a worker, or for the stop of the device."""
        await asyncio.wait(
            [event, self._stopping], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )

    def _activate(self, current: WorkerProcess) -> None:
        def ping() -> None:
            self._send(current, encode(Ping(), self._operators))

        def on_silence() -> None:
            log.error("%s: worker %d is silent and is killed", self.name, current.pid)
            current.kill()

        self._worker = current
        self._quarantined = False
        self._heartbeat = Heartbeat(
            silence_limit_s=self._silence_limit_s, ping=ping, on_silence=on_silence
        )
        # Slabs first: the calls refer to them.
        for slab in self._attached.values():
            frame = encode(Attach(slab.id, slab.size_bytes), self._operators)
            self._send(current, frame, fd=slab.fd)
        # In order of submission, as the dict keeps it: calls of a flow keep their order on the new
        # worker.
        for pending in self._pending.values():
            self._send_call(current, pending)

    def _send_call(self, current: WorkerProcess, pending: _Pending) -> None:
        self._send(current, pending.frame)
        pending.sent = True

    def _send(self, current: WorkerProcess, frame: bytes, *, fd: int | None = None) -> None:
        """Sends a frame; kills a worker that cannot receive it, and the next one gets all anew."""
        try:
            current.channel.send(frame, fd=fd)
        except OSError:
            log.exception("%s: worker %d cannot be reached and is killed", self.name, current.pid)
            current.kill()

    def _settle_calls(self, crash_page: CrashPage) -> None:
        """Attributes a worker's death to the call that it ran, and ends calls that were stopped."""
        sent = {call_id: pending for call_id, pending in self._pending.items() if pending.sent}
        # The page names the last running call, possibly one that has ended since: only a pending
        # one can be at fault.
        if crash_page.call_id in sent:
            at_ns = round(asyncio.get_running_loop().time() * _NS_PER_S)
            self._note_death(sent[crash_page.call_id], max(at_ns - crash_page.since_ns, 0))
        elif sent:  # it had begun none of them, or died between two
            self._note_death(next(iter(sent.values())), 0)
        for call_id, pending in sent.items():
            pending.sent = False
            if pending.stop_error is not None:
                self._end(call_id, pending.stop_error)

    def _note_death(self, pending: _Pending, used_ns: int) -> None:
        pending.progress.used(used_ns)
        pending.deaths += 1
        if used_ns > self._call_time_limit_s * _NS_PER_S:
            pending.stop_error = pending.stop_error or KernelFailed(self._time_limit_message)
        # A call may run by chance when its worker dies, so one death is not enough.
        elif pending.deaths >= DEATHS_LIMIT:
            reason = f"{pending.deaths} workers died under it"
            pending.stop_error = pending.stop_error or WorkerDied(reason)

    def _fail_calls(self, reason: str) -> None:
        for call_id in list(self._pending):
            self._end(call_id, WorkerDied(reason))

    def _on_message(self, message: Message) -> None:
        # Any message shows that the worker's loop runs, not only a Pong.
        self._heartbeat.note_reply()
        match message:
            case Done(call_id, used_ns, start_ns, end_ns, kernel_ns):
                self._end(call_id, KernelTiming(start_ns, end_ns, kernel_ns), used_ns)
            case Failed(call_id, used_ns):
                self._end(call_id, KernelFailed("its kernel failed"), used_ns)
            case OutOfMemory(call_id, used_ns):
                self._end(call_id, KernelFailed("its worker is out of memory"), used_ns)
            case TimedOut(call_id, used_ns):
                self._end(call_id, KernelFailed(self._time_limit_message), used_ns)
            case Cancelled(call_id, used_ns):
                self._end(call_id, CallStopped(), used_ns)
            case Pong():
                pass
            case _:
                raise AssertionError(f"a worker sent {message}")

    def _end(self, call_id: int, outcome: CallOutcome, used_ns: int = 0) -> None:
        pending = self._pending.pop(call_id)
        if used_ns:
            pending.progress.used(used_ns)
        # Whatever its worker reported just before: its caller has given it up.
        if isinstance(pending.stop_error, CallStopped):
            outcome = pending.stop_error
        pending.progress.ended(outcome)


class Heartbeat:
    """Pings one worker until it is stopped or the worker has been silent for too long.

    Missed beats are counted instead of seconds: a front that stalled itself does not mistake a
    worker for silent.

    Args:
        silence_limit_s: Seconds of silence that are too long.
        ping: Sends a ping.
        on_silence: Called once when the limit is reached.
    """

    def __init__(
        self, *, silence_limit_s: float, ping: Callable[[], None], on_silence: Callable[[], None]
    ) -> None:
        self._interval_s = silence_limit_s / BEATS_OF_A_LIMIT
        self._ping = ping
        self._on_silence = on_silence
        self._unanswered = 0
        self._beat()

    @property
    def steady(self) -> bool:
        """Whether the worker responded lately."""
        return self._unanswered <= BEATS_MISSED_WHILE_READY

    def note_reply(self) -> None:
        """Records any message of the worker as a sign of life."""
        self._unanswered = 0

    def stop(self) -> None:
        """Stops pinging."""
        self._timer.cancel()

    def _beat(self) -> None:
        # Compared before the increment, so the worker had a full interval for the last ping.
        if self._unanswered == BEATS_OF_A_LIMIT:
            self._on_silence()
            return
        self._unanswered += 1
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._beat)
        self._ping()
