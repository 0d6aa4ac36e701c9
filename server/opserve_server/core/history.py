"""History of a stream: the outcome of its latest work."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from opserve_kernels.status import AnyStatus
from opserve_server.core.work import Entry, KernelRun, Mark, Wait


class WorkKind(StrEnum):
    """Kind of work: a call, a record of an event, or a wait for one."""

    EXECUTE = "EXECUTE"
    RECORD = "RECORD"
    WAIT = "WAIT"


class Outcome(StrEnum):
    """Outcome of work.

    ABORTED work was stopped at the device; DROPPED work never went there. A dropped record counts
    as reached, so that no wait for it lasts forever.
    """

    DONE = "DONE"
    FAILED = "FAILED"
    ABORTED = "ABORTED"
    DROPPED = "DROPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """Completed work of a stream. Times are seconds of the monotonic clock.

    Attributes:
        sequence: Position in the order of endings, from 1.
        number: Position in the order of submission, from 1.
        kind: Kind of work.
        handle: Handle of the executor or event.
        operator: The operator's name; empty for events.
        queued_s: Time of submission.
        started_s: Start of the kernel where the device reported it, else time at which it went to
            the device; for a wait, the time at which it reached the head of its stream; None where
            it was dropped.
        ended_s: Time of its end.
        kernel_s: Seconds that its kernel ran, without pauses for calls of other tenants; None where
            the device reported none.
        outcome: Outcome.
        status: Reason where the outcome is not DONE; else None.
    """

    sequence: int
    number: int
    kind: WorkKind
    handle: int
    operator: str
    queued_s: float
    started_s: float | None
    ended_s: float
    kernel_s: float | None
    outcome: Outcome
    status: AnyStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEntries:
    """Entries dropped before a watcher read them, by first and last sequence number."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NoNews:
    """Nothing ended for a while; keeps the connection of a watcher alive."""


News = HistoryEntry | LostEntries | NoNews


class History:
    """The latest entries. Watchers read from this list, so that a slow watcher holds no memory.

    Args:
        limit: Entries kept at most.
    """

    def __init__(self, *, limit: int) -> None:
        self._entries: deque[HistoryEntry] = deque(maxlen=limit)
        self._last = 0
        self._ended = False
        self._news: asyncio.Future[None] | None = None

    def add(
        self, entry: Entry, *, ended_s: float, outcome: Outcome, status: AnyStatus | None = None
    ) -> HistoryEntry:
        """Adds an entry with its outcome."""
        kind, handle, operator = _subject(entry)
        self._last += 1
        added = HistoryEntry(
            sequence=self._last,
            number=entry.number,
            kind=kind,
            handle=handle,
            operator=operator,
            queued_s=entry.queued_s,
            started_s=entry.started_s,
            ended_s=ended_s,
            kernel_s=entry.kernel_s,
            outcome=outcome,
            status=status,
        )
        self._entries.append(added)
        self._wake()
        return added

    def entries(self) -> list[HistoryEntry]:
        """All kept entries, in the order of endings."""
        return list(self._entries)

    def end(self) -> None:
        """Marks the history as complete; watchers end after the last entry."""
        self._ended = True
        self._wake()

    async def watch(
        self, after: int, *, limit_s: float, quiet_limit_s: float
    ) -> AsyncGenerator[News]:
        """Entries after a sequence number, including future ones, until the stream ends.

        Args:
            after: The last sequence number that the watcher has.
            limit_s: Seconds after which the watch ends.
            quiet_limit_s: Seconds without an entry after which NoNews is sent.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + limit_s
        while True:
            # Sequence numbers are consecutive, so the position of an entry follows from its number.
            # Entries may have been dropped since the last yield.
            first = self._last - len(self._entries) + 1
            if after + 1 < first:
                lost = LostEntries(first=after + 1, last=first - 1)
                after = lost.last
                yield lost
            elif after < self._last:
                after += 1
                yield self._entries[after - first]
            elif self._ended or loop.time() >= end_s:
                return
            elif not await self._has_news(min(quiet_limit_s, end_s - loop.time())):
                yield NoNews()

    async def _has_news(self, timeout_s: float) -> bool:
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait([self._news], timeout=timeout_s)
        return bool(done)

    def _wake(self) -> None:
        if self._news is not None:
            # One future serves all watchers; the next one to wait makes a new one.
            self._news.set_result(None)
            self._news = None


def _subject(entry: Entry) -> tuple[WorkKind, int, str]:
    match entry.work:
        case KernelRun(executor, call):
            return WorkKind.EXECUTE, executor, call.operator
        case Mark(event):
            return WorkKind.RECORD, event, ""
        case Wait(event):
            return WorkKind.WAIT, event, ""
        case _:
            assert_never(entry.work)
