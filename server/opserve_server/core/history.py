"""The history of a stream: what its work came to, the latest entries only."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from opserve_kernels.status import AnyStatus
from opserve_server.core.work import Entry, KernelRun, Mark, Wait


class WorkKind(StrEnum):
    """What work was: a call, a record of an event, or a wait for one."""

    EXECUTE = "EXECUTE"
    RECORD = "RECORD"
    WAIT = "WAIT"


class Outcome(StrEnum):
    """What it came to.

    ABORTED was at the device and told to stop; DROPPED never went there. A dropped record counts
    as reached, so that nobody waits for it in vain.
    """

    DONE = "DONE"
    FAILED = "FAILED"
    ABORTED = "ABORTED"
    DROPPED = "DROPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """Work of a stream that is over. Times are seconds of the monotonic clock.

    Attributes:
        sequence: From 1 in the order of endings.
        number: From 1 in the order of submission.
        kind: What it was.
        handle: Of the executor, or the event.
        operator: The operator's name; empty for events.
        queued_s: When it was submitted.
        started_s: When its kernel began, as far as the device told, else when it went there; when
            a wait came to the head of its stream; None where it was dropped.
        ended_s: When it was over.
        kernel_s: Seconds that its kernel ran, without pauses in which the device ran calls of other
            tenants; None where the device told none.
        outcome: What it came to.
        status: Why it is not DONE; None where it is.
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
    """Entries that a watcher came too late for, by the first and last sequence number."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NoNews:
    """Nothing ended for a while: a sign of life for whoever watches over a wire."""


News = HistoryEntry | LostEntries | NoNews


class History:
    """The latest entries; watchers read them here, so that a slow one holds no memory.

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
        """Keeps what an entry came to."""
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
        """All that is remembered, in the order of endings."""
        return list(self._entries)

    def end(self) -> None:
        """Nothing will be added any more: watchers end when they have read what is there."""
        self._ended = True
        self._wake()

    async def watch(
        self, after: int, *, limit_s: float, quiet_limit_s: float
    ) -> AsyncGenerator[News]:
        """Entries behind a sequence number, and those that follow, until the stream ends.

        Args:
            after: The last sequence number that the watcher knows.
            limit_s: Seconds after which it ends in any case.
            quiet_limit_s: Seconds without an entry after which NoNews comes instead.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + limit_s
        while True:
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
