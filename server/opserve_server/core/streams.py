"""Streams: ordered queues of work on the session's device."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import assert_never

from opserve_kernels.status import AnyStatus, Status
from opserve_server.core.accounts import Account, Reservation
from opserve_server.core.dispatch import Dispatcher
from opserve_server.core.errors import (
    DeadlineMissed,
    ExecutionAborted,
    ExecutionFailed,
    InvalidArgument,
    LimitExceeded,
)
from opserve_server.core.history import History, HistoryEntry, Outcome
from opserve_server.core.work import Entry, KernelRun, Mark, Wait, Work
from opserve_server.pool.device import (
    CallOutcome,
    CallStopped,
    KernelFailed,
    KernelTiming,
    WorkerDied,
)

_NS_PER_S = 1e9

log = logging.getLogger(__name__)


class FailureMode(StrEnum):
    """Handling of the work behind a failed call (aclrtSetStreamFailureMode)."""

    CONTINUE = "CONTINUE"
    STOP = "STOP"


class Stream:
    """Executes work in order; several of its calls may be at the device, in order.

    A record or a wait blocks the work behind it until all work before it is over; so does every
    call in STOP mode.

    Args:
        handle: Its handle.
        account: Account that its calls are charged to.
        dispatcher: Sends its calls to the device.
        queue_limit: Entries that may wait at once.
        history_limit: Completed entries that are kept.
        reservation: The tenant's reservation of queued entries for this stream.
        observe: Observer of completed work, in the context of the call that submitted it.
        stopped_streams: Handles of the session's streams that a failure in STOP mode has stopped;
            this one adds its own.

    Attributes:
        error: The first failure that no synchronise has raised yet.
        newest: The call that was submitted last.
        history: Outcomes of its work.
    """

    def __init__(  # noqa: PLR0913  # its collaborators, each by name
        self,
        handle: int,
        *,
        account: Account,
        dispatcher: Dispatcher,
        queue_limit: int,
        history_limit: int,
        reservation: Reservation,
        observe: Callable[[HistoryEntry], None],
        stopped_streams: set[int],
    ) -> None:
        self.handle = handle
        self.account = account
        self.error: ExecutionFailed | None = None
        self.newest: KernelRun | None = None
        self.history = History(limit=history_limit)
        self._mode: FailureMode | None = None
        self._dispatcher = dispatcher
        self._queue_limit = queue_limit
        self._reservation = reservation
        self._observe = observe
        self._stopped_streams = stopped_streams
        self._queue: deque[Entry] = deque()
        self._reported = 0
        self._at_device: dict[Entry, KernelRun] = {}
        self._last = 0
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._time = asyncio.get_running_loop().time

    @property
    def complete(self) -> bool:
        """Whether all submitted work is over."""
        return not self._queue and not self._at_device

    @property
    def waiting(self) -> int:
        """Entries that have not gone to the device."""
        return len(self._queue)

    @property
    def has_call(self) -> bool:
        """Whether its next work is a call that can go to the device now."""
        # In STOP mode a failure must keep later calls from running, so none is sent ahead.
        alone = self._mode is FailureMode.STOP and self._at_device
        return bool(self._queue) and isinstance(self._queue[0].work, KernelRun) and not alone

    def over(self) -> asyncio.Future[None]:
        """A future that is done when everything submitted so far is over."""
        # One future per position: all waiters for the same work share it.
        waiter = self._waiters.get(self._last)
        if waiter is None:
            waiter = self._waiters[self._last] = asyncio.get_running_loop().create_future()
            self._wake()
        return waiter

    def set_failure_mode(self, mode: FailureMode) -> None:
        """Sets the failure mode, once; calls already at the device are not held back.

        Raises:
            InvalidArgument: 107000, it was set before.
        """
        if self._mode is not None:
            raise InvalidArgument(
                Status.ACL_ERROR_RT_PARAM_INVALID,
                f"Stream {self.handle} has a failure mode, which is set once: create another "
                f"stream for {mode}.",
                parameter="mode",
                given=mode,
                allowed="once for each stream",
            )
        self._mode = mode

    def check_capacity(self) -> None:
        """Rejects work beyond the queue limit or the tenant's quota (207014)."""
        if len(self._queue) >= self._queue_limit:
            raise LimitExceeded(
                Status.ACL_ERROR_RT_QUEUE_FULL,
                f"Stream {self.handle} has {self._queue_limit} waiting entries, its limit: "
                "synchronize it first.",
                parameter="stream",
                given=self._queue_limit + 1,
                allowed=self._queue_limit,
            )
        self._reservation.check()

    def submit(self, work: Work) -> None:
        """Queues work behind all earlier work."""
        self.check_capacity()
        self._last += 1
        entry = Entry(work, self._last, self._time())
        if isinstance(work, KernelRun) and work.timeout_s is not None:
            loop = asyncio.get_running_loop()
            # The deadline counts from the submission, so it includes the time in the queue.
            entry.deadline = loop.call_later(work.timeout_s, self._miss_deadline, entry, work)
        # Even on an idle stream: all work takes the same path, and _advance sends it.
        self._queue.append(entry)
        if isinstance(work, KernelRun):
            self.newest = work
        self._advance()

    def take_error(self) -> ExecutionFailed | None:
        """The first failure since the previous call; a stopped stream keeps it."""
        error = self.error
        # A stopped stream keeps its error: every later synchronise raises it.
        if self.handle not in self._stopped_streams:
            self.error = None
        return error

    def abort(self) -> None:
        """Drops queued calls and waits at once, and stops the calls at the device.

        Records stay, and are reached when the calls at the device are over.
        """
        reason = f"stream {self.handle} was aborted"
        # Records stay in the queue: events and waiters of other streams depend on them.
        dropped = self._drop((KernelRun, Wait), behind=0, reason=reason)
        if dropped:
            message = _described(dropped[0], f"was dropped, {len(dropped)} calls in all", reason)
            self.error = self.error or ExecutionAborted(message, executor=dropped[0].executor)
        for entry, run in self._at_device.items():
            message = _described(run, "was stopped", reason)
            # The call stays at the device until its worker confirms that it writes no more.
            self._stop(entry, ExecutionAborted(message, executor=run.executor))
        self._advance()

    def take_call(self) -> tuple[Entry, KernelRun]:
        """Removes and returns its next call, which goes to the device."""
        entry = self._queue.popleft()
        self._report_waiting()
        run = entry.work
        assert isinstance(run, KernelRun), "has_call comes first"
        # Until the device reports the start of the kernel.
        entry.started_s = self._time()
        self._at_device[entry] = run
        return entry, run

    def end_call(self, entry: Entry, outcome: CallOutcome) -> None:
        """Handles the end of a call at the device."""
        run = self._at_device.pop(entry)
        match outcome:
            case KernelTiming(start_ns, end_ns, kernel_ns):
                # The worker's clock is the same monotonic clock, so its times fit the others.
                entry.started_s, entry.kernel_s = start_ns / _NS_PER_S, kernel_ns / _NS_PER_S
                self._end(entry, Outcome.DONE, ended_s=end_ns / _NS_PER_S)
            case CallStopped():
                assert entry.stopped_by is not None, "only _stop stops a call"
                self._fail(entry, Outcome.ABORTED, entry.stopped_by)
            case _:
                self._fail(entry, Outcome.FAILED, self._failure(run, outcome))
        self._advance()

    def _advance(self, _: asyncio.Future[None] | None = None) -> None:
        """Completes entries that need no device, offers the next call and wakes waiters.

        A record on which its first wait depends calls it too.
        """
        # A record or a wait passes only when no call is at the device: it orders everything before
        # it against everything after it.
        while self._queue and not self._at_device and self._passes(self._queue[0]):
            self._end(self._queue.popleft(), Outcome.DONE)
        self._report_waiting()
        if self.has_call:
            self._dispatcher.offer(self)
        else:
            self._dispatcher.withdraw(self)
        self._wake()

    def _report_waiting(self) -> None:
        """Reports the number of waiting entries to the tenant's account and to the dispatcher."""
        self._reservation.update(len(self._queue))
        # Summed at each change: a list of devices must not cost a scan of all streams.
        self._dispatcher.waiting += len(self._queue) - self._reported
        self._reported = len(self._queue)

    def _passes(self, entry: Entry) -> bool:
        """Whether the entry at the head is over; nothing is at the device."""
        match entry.work:
            case KernelRun():
                return False
            case Mark(_, record):
                entry.started_s = self._time()
                record.reach()
                return True
            case Wait(_, record):
                if entry.started_s is None:
                    entry.started_s = self._time()
                    # Once, when the wait reaches the head: its stream continues when the record is
                    # reached.
                    record.done.add_done_callback(self._advance)
                return record.done.done()
            case _:
                assert_never(entry.work)

    def _wake(self) -> None:
        # Both are in order of submission, and calls at the device precede the queue. So the first
        # entry is the oldest unfinished one, and all waiters before it are done.
        first = next(iter(self._at_device or self._queue), None)
        for number in [n for n in self._waiters if first is None or n < first.number]:
            self._waiters.pop(number).set_result(None)

    def give_up(self, run: KernelRun) -> None:
        """Drops a call, or stops it at the device."""
        for entry in (*self._at_device, *self._queue):
            if entry.work is run:
                self._end_early(entry, run, "its caller gave it up", ExecutionAborted)

    def _miss_deadline(self, entry: Entry, run: KernelRun) -> None:
        assert run.timeout_s is not None
        reason = f"its deadline of {run.timeout_s * 1000:.0f} ms on stream {self.handle} had passed"
        self._end_early(entry, run, reason, DeadlineMissed)

    def _end_early(
        self, entry: Entry, run: KernelRun, reason: str, error: type[ExecutionFailed]
    ) -> None:
        # It may be running: the stream continues when the worker has stopped it.
        if entry in self._at_device:
            message = _described(run, "was stopped", reason)
            self._stop(entry, error(message, executor=run.executor))
            return
        # Not sent yet, so there is nothing to stop.
        self._queue.remove(entry)
        message = _described(run, "was dropped", reason)
        self._fail(entry, Outcome.DROPPED, error(message, executor=run.executor))
        self._advance()

    def _stop(self, entry: Entry, error: ExecutionFailed) -> None:
        """Requests the stop once; the first reason counts."""
        if entry.stopped_by is None:
            entry.stopped_by = error
            self._dispatcher.stop(entry)

    def _drop(self, kinds: tuple[type[Work], ...], *, behind: int, reason: str) -> list[KernelRun]:
        """Ends queued work of some kinds behind a number; returns dropped calls of executors."""
        dropped = [e for e in self._queue if e.number > behind and isinstance(e.work, kinds)]
        for entry in dropped:
            if isinstance(entry.work, KernelRun):
                message = _described(entry.work, "was dropped", reason)
                entry.work.error = ExecutionAborted(message, executor=entry.work.executor)
            self._end(entry, Outcome.DROPPED, status=Status.ACL_ERROR_RT_STREAM_ABORT)
        removed = set(dropped)
        self._queue = deque(entry for entry in self._queue if entry not in removed)
        runs = [entry.work for entry in dropped if isinstance(entry.work, KernelRun)]
        return [run for run in runs if run.executor]

    def _failure(self, run: KernelRun, outcome: Exception) -> ExecutionFailed:
        expected = isinstance(outcome, KernelFailed | WorkerDied)
        if not expected:
            log.error("stream %d lost a call: %s", self.handle, _name(run), exc_info=outcome)
        reason = str(outcome) if expected else "the service failed to run it"
        message = _described(run, f"failed on stream {self.handle}", reason)
        return ExecutionFailed(message, executor=run.executor)

    def _fail(self, entry: Entry, outcome: Outcome, error: ExecutionFailed) -> None:
        """Ends a failed call; in STOP mode no later call runs, unless the stream was aborted."""
        assert isinstance(entry.work, KernelRun), "nothing else fails"
        entry.work.error = error
        self._end(entry, outcome, status=error.status)
        stops = self._mode is FailureMode.STOP and not isinstance(error, ExecutionAborted)
        # A whole call raises its error itself, but for a stream that stays stopped.
        if entry.work.executor or stops:
            self.error = self.error or error
        if stops:
            self._stopped_streams.add(self.handle)
            # Only work behind the failed call: one that was dropped by its deadline may have
            # unfinished calls before it.
            reason = f"a call failed on stream {self.handle} in STOP mode"
            self._drop((KernelRun,), behind=entry.number, reason=reason)

    def _end(
        self,
        entry: Entry,
        outcome: Outcome,
        *,
        ended_s: float | None = None,
        status: AnyStatus | None = None,
    ) -> None:
        """Completes an entry: releases its waiters and its buffers."""
        if entry.deadline is not None:
            entry.deadline.cancel()
        if isinstance(entry.work, KernelRun):
            # Releases the buffers of the call: from here on no worker writes to them.
            entry.work.done.set_result(None)
        elif isinstance(entry.work, Wait):
            # The record may live longer than this stream.
            entry.work.record.done.remove_done_callback(self._advance)
        added = self.history.add(
            entry,
            ended_s=self._time() if ended_s is None else ended_s,
            outcome=outcome,
            status=status,
        )
        # In the context of the submitting call, to which logs and traces assign the work.
        entry.context.run(self._observe, added)


def _described(run: KernelRun, what: str, reason: str) -> str:
    again = "Plan and execute it again." if run.executor else "Run it again."
    return f"{_name(run)} {what}: {reason}. {again}"


def _name(run: KernelRun) -> str:
    if run.executor:
        return f"Executor {run.executor} ({run.call.operator})"
    return f"The call of {run.call.operator}"
