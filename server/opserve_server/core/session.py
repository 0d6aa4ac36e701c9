"""Session: a tenant's lease on one device, and all objects in it."""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from math import inf

from opserve_kernels.operator import PlanOptions
from opserve_server.core.accounts import Account
from opserve_server.core.buffers import Buffer
from opserve_server.core.copies import CopyEntry, CopyKind
from opserve_server.core.devices import Device
from opserve_server.core.dispatch import Dispatcher
from opserve_server.core.errors import session_not_found
from opserve_server.core.events import Event
from opserve_server.core.executors import Executor
from opserve_server.core.handles import HandleTable
from opserve_server.core.history import HistoryEntry
from opserve_server.core.info import SessionInfo
from opserve_server.core.limits import Limits
from opserve_server.core.memory import SessionMemory
from opserve_server.core.observations import LOGGED_CHARACTERS, CopyEnded, Observe, WorkEnded
from opserve_server.core.requests import AnsweredRequests
from opserve_server.core.results import Content, Result
from opserve_server.core.session_request import Requirements
from opserve_server.core.streams import Stream
from opserve_server.core.tenants import Resource

BEAT_S = 0.25
LATE_S = 0.05
"""Tolerated lateness of a beat in a busy loop, seconds."""


class LoopStalls:
    """Measures stalls of the event loop, which do not count as idle time of a client.

    A stalled loop reads no calls: a client that seems idle may have called. While an idle time is
    measured, the loop has a regular beat. A late beat shows that the loop stalled at some time
    since the beat before it; then none of the time between the two counts.

    Args:
        needed: Whether any idle time is measured; otherwise there are no beats.
    """

    def __init__(self, needed: Callable[[], bool]) -> None:
        self._needed = needed
        self._total_s = 0.0
        self._began_s = 0.0  # the beat's
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None

    def total_s(self) -> float:
        """Seconds that do not count, including those of a stall that has just ended."""
        if self._timer is None:
            self._begin()
        # The late beat has not run yet, and the timer of a client may come first.
        elif self._is_late():
            self._count_stall()
        return self._total_s

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _is_late(self) -> bool:
        return self._loop.time() > self._began_s + BEAT_S + LATE_S

    def _beat(self) -> None:
        if self._is_late():
            self._count_stall()
        elif self._needed():
            self._begin()
        else:
            self._timer = None

    def _count_stall(self) -> None:
        assert self._timer is not None
        # Called from total_s, the late beat is still pending and would count the same stall twice.
        self._timer.cancel()
        # The stall began at some unknown time after the last beat, so the whole interval is
        # excluded: a client is never blamed for it.
        self._total_s += self._loop.time() - self._began_s
        self._begin()


class IdleTimer:
    """Idle time of a client, which ends at a limit.

    Args:
        loop_stalls: Stalls of the loop that reads the client's calls.
        limit_s: Longest idle time, seconds.
    """

    __slots__ = ("_began_s", "_limit_s", "_loop_stalls", "_stalled_s")

    def __init__(self, loop_stalls: LoopStalls, limit_s: float) -> None:
        self._loop_stalls = loop_stalls
        self._limit_s = limit_s
        self.begin()

    def begin(self) -> None:
        """Restarts the idle time after a call of the client."""
        self._stalled_s = self._loop_stalls.total_s()
        self._began_s = asyncio.get_running_loop().time()

    @property
    def ends_at(self) -> float:
        """Time of the limit, seconds of the event loop's clock; later after a stall."""
        return self._began_s + self._limit_s + (self._loop_stalls.total_s() - self._stalled_s)


SHARED_MEMORY_TOKEN_BYTES = 16
_RESULT_BYTES = 64
"""Bytes of a result besides its data; a Submit has many results."""


class DeterministicLevel(StrEnum):
    """Required bitwise repeatability of results (ACL_OPT_DETERMINISTIC); kernels always repeat.

    At STRONG a call runs on one thread, so that its bytes are the same on a device with more
    threads. At BATCH, moreover, the bytes of a batch entry do not depend on the other entries.
    """

    OFF = "OFF"
    DETERMINISTIC = "DETERMINISTIC"
    STRONG = "STRONG"
    BATCH = "BATCH"


class Session:
    """State on which commands work; core.commands lists the commands.

    Attributes:
        name: 128 random bits in hexadecimal.
        account: Account of its owner, charged for everything in it.
        device: Its device.
        lease_s: Seconds that it lives after the last call.
        exclusive_s: Seconds that it has its device exclusively, and lives at most; None: it shares.
        plan_options: Options for calls that are planned from now on.
        calls: Calls in progress; a session with one does not expire.
        opened_at: Time of its opening, seconds of the event loop's clock.
        used_at: Time of its latest work or call, seconds of the event loop's clock.
        time: The event loop's clock, in seconds.
        finishes: Whether it belongs to one whole call, which charges the bytes of its arrays itself
            and may begin new work while the service drains.
        copies: The latest copies, in the order of endings.
        stopped_streams: Handles of streams whose failure stopped all submission (FailureMode.STOP),
            which a call finds here without a scan of all streams.
        closed: Whether it has ended; every later operation is rejected.
        end_reason: Reason of its end, for its tenant; empty where its tenant ended it.
    """

    # Types that are written once: HandleTable[Buffer](...) would take longer for each session.
    buffers: HandleTable[Buffer]
    executors: HandleTable[Executor]
    streams: HandleTable[Stream]
    events: HandleTable[Event]
    stopped_streams: set[int]
    copies: deque[CopyEntry]
    answered: AnsweredRequests[list[Result]]

    def __init__(  # noqa: PLR0913  # its collaborators, each by name
        self,
        name: str,
        *,
        account: Account,
        device: Device,
        dispatcher: Dispatcher,
        requirements: Requirements,
        limits: Limits,
        loop_stalls: LoopStalls,
        reclaim: Callable[[], None],
        observe: Observe,
    ) -> None:
        self.name, self.account, self.device = name, account, device
        self._dispatcher = dispatcher
        self._observe = observe
        self.lease_s, self.exclusive_s = requirements.lease_s, requirements.exclusive_s
        self.plan_options = _plan_options(requirements, device)
        self.limits = limits
        self.time = asyncio.get_running_loop().time
        self.opened_at, self.used_at = self.time(), 0.0
        self._idle = IdleTimer(loop_stalls, self.lease_s)
        self.calls = 0
        self.finishes = self.closed = False
        self.end_reason = ""
        self.memory = SessionMemory(device, account, reclaim)
        self.buffers = HandleTable("buffer", account, limit=limits.buffers_limit)
        self.executors = HandleTable("executor", account, limit=limits.executors_limit)
        self.streams = HandleTable("stream", account, limit=limits.streams_limit)
        self.events = HandleTable("event", account, limit=limits.events_limit)
        self.stopped_streams = set()
        self.streams.put_default(self.new_stream(0))
        self.copies = deque(maxlen=limits.copy_history_limit)
        self.plans = account.plans(device.profile, limit=limits.plans_limit)
        self.answered = AnsweredRequests(
            limit=limits.request_ids_limit,
            retained_bytes_limit=limits.retained_bytes_limit,
            size_bytes=_held_bytes,
        )
        self._reservation = account.reserve(Resource.SESSIONS, 1)

    @property
    def tenant(self) -> str:
        """Name of its owner."""
        return self.account.tenant.name

    @property
    def id(self) -> str:
        """The start of its name, which may be shown."""
        return self.name[:LOGGED_CHARACTERS]

    @property
    def ends_at(self) -> float:
        """Time of its end unless its client calls, seconds of the event loop's clock.

        A stall of the loop, which then reads no calls, moves it to later.
        """
        # Exclusive use has a fixed end: a client cannot extend it by calling.
        return min(self._idle.ends_at, self.exclusive_until)

    @property
    def exclusive_until(self) -> float:
        """End of exclusive use of the device, whatever the client does; infinite if it shares."""
        return inf if self.exclusive_s is None else self.opened_at + self.exclusive_s

    @property
    def exclusive_left_s(self) -> float:
        """Seconds that it still has its device exclusively; 0 for one that shares."""
        return 0.0 if self.exclusive_s is None else max(self.exclusive_until - self.time(), 0.0)

    @property
    def working(self) -> bool:
        """Whether a call is in progress, or work of a stream is not complete."""
        return bool(self.calls) or not self.complete

    @property
    def complete(self) -> bool:
        """Whether all work of its streams is over."""
        return all(stream.complete for stream in self.streams)

    def info(self) -> SessionInfo:
        """Public information on the session."""
        now = self.time()
        return SessionInfo(
            id=self.id,
            tenant=self.tenant,
            device=self.device.name,
            profile=self.device.profile,
            open_s=now - self.opened_at,
            expires_in_s=max(self.ends_at - now, 0.0),
            exclusive=self.exclusive_s is not None,
            calls=self.calls,
            queued_entries=sum(stream.waiting for stream in self.streams),
            working=self.working,
            memory_bytes=self.memory.size_bytes,
        )

    @cached_property
    def shared_memory_token(self) -> bytes:
        """A secret that a caller of the shared memory must send beside the name."""
        return secrets.token_bytes(SHARED_MEMORY_TOKEN_BYTES)

    def new_stream(self, handle: int) -> Stream:
        """A stream that runs on this session's device."""
        return Stream(
            handle,
            account=self.account,
            dispatcher=self._dispatcher,
            queue_limit=self.limits.stream_queue_limit,
            history_limit=self.limits.stream_history_limit,
            reservation=self.account.reserve(Resource.QUEUED),
            observe=self._report_work,
            stopped_streams=self.stopped_streams,
        )

    def copied(
        self, kind: CopyKind, *, buffer: int, size_bytes: int, started_s: float, inline: bool
    ) -> None:
        """Records a completed copy; one of no bytes is ignored."""
        if size_bytes == 0:
            return
        ended_s = self.time()
        entry = CopyEntry(
            kind=kind, buffer=buffer, size_bytes=size_bytes, started_s=started_s, ended_s=ended_s
        )
        self.copies.append(entry)
        self._observe(CopyEnded(self.device.name, self.device.profile, entry, inline=inline))

    def in_flight(self, size_bytes: int) -> AbstractContextManager[object]:
        """Charges the bytes of a copy in progress to the tenant, inside the block."""
        return nullcontext() if self.finishes else self.account.in_flight(size_bytes)

    def set_deterministic_level(self, level: DeterministicLevel) -> None:
        """Sets the required repeatability of results for calls that are planned from now on."""
        batch_consistent = level is DeterministicLevel.BATCH
        one_thread = batch_consistent or level is DeterministicLevel.STRONG
        self.plan_options = replace(
            self.plan_options,
            threads=1 if one_thread else self.device.threads,
            batch_consistent=batch_consistent,
        )

    def check_open(self) -> None:
        """Rejects an operation after the session's end, also one that waited (107017)."""
        if self.closed:
            raise session_not_found(self.name, ended=self.end_reason)

    def renew(self) -> None:
        """Restarts the lease."""
        self._idle.begin()

    def in_progress(self) -> "_InProgress":
        """A call, during which the session does not expire, and whose end renews the lease."""
        return _InProgress(self)

    def touch(self) -> None:
        """Records the end of a call; renews the lease."""
        self.used_at = self.time()
        self.renew()

    def is_quiet(self, for_s: float) -> bool:
        """Whether it had neither work nor a call for some seconds; must be polled often."""
        now = self.time()
        # Work keeps the session busy without a call, so the poll itself records the time.
        if self.working:
            self.used_at = now
        return now - self.used_at >= for_s

    async def stop(self) -> None:
        """Drops queued work, stops running work, then returns all memory and every reservation."""
        # Order of the end: drop queued work, wait until the device writes nothing more, and only
        # then return the memory, which another session may get at once.
        for stream in self.streams:
            stream.abort()
        await asyncio.wait([stream.over() for stream in self.streams])
        self.return_all()

    def return_all(self) -> None:
        """Returns all memory and every reservation of a session whose work is over."""
        for stream in self.streams:
            stream.history.end()
        self.memory.close()
        for table in (self.buffers, self.executors, self.streams):
            table.clear()
        # Last, so that the tenant's next session cannot begin before this one has returned
        # everything.
        self._reservation.update(0)

    def _report_work(self, entry: HistoryEntry) -> None:
        self._observe(WorkEnded(self.device.name, self.device.profile, entry))


class _InProgress:
    """A call of a session; @contextmanager would take three times as long for each call."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._session.calls += 1

    def __exit__(self, *_: object) -> None:
        self._session.calls -= 1
        self._session.touch()


def _plan_options(requirements: Requirements, device: Device) -> PlanOptions:
    return PlanOptions(
        accuracy=requirements.accuracy,
        documented_rules=requirements.documented_rules,
        workspace_limit=requirements.workspace_limit,
        threads=device.threads,
    )


def _held_bytes(results: list[Result]) -> int:
    data = sum(len(result.data) for result in results if isinstance(result, Content))
    return data + _RESULT_BYTES * len(results)
