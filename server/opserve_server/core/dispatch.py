"""Dispatch: whose call a device gets next, and how many of each tenant it has at once."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

from opserve_server.core.accounts import Account
from opserve_server.core.devices import Device
from opserve_server.core.work import Entry, KernelRun
from opserve_server.pool.device import KernelTiming
from opserve_server.pool.fair_queue import FairQueue
from opserve_server.pool.messages import Flow

CALLS_OF_A_TENANT = 2
"""Calls of one tenant at a device: one may run, and one follows it without a gap; the order of all
its others is still open."""
SHORT_CALLS_OF_A_TENANT = 16
"""The same where they are so short that together they last no longer than FRONT_TAKES_NS."""
FRONT_LATENCY_NS = 10_000_000
"""Nanoseconds in which a front that has other work hears of an end and sends the next call."""
_NEWEST_WEIGHT = 1 / 8
"""Of the mean time of calls."""
TENANTS_AT_DEVICE = 64
"""Tenants between whose calls a worker divides its time; others wait until one has none there."""
_NS_PER_S = 1e9


class CallStopped(Exception):
    """The device stopped a call before its end, as it was told to, or never began it."""


class Source(Protocol):
    """A stream as the dispatcher sees it."""

    @property
    def handle(self) -> int:
        """Its handle."""
        ...

    @property
    def account(self) -> Account:
        """Who pays for its calls."""
        ...

    @property
    def has_call(self) -> bool:
        """Whether its next work is a call that may go to the device now."""
        ...

    def take_call(self) -> tuple[Entry, KernelRun]:
        """Its next call, which goes to the device."""
        ...

    def end_call(self, entry: Entry, outcome: KernelTiming | Exception) -> None:
        """A call that went to the device is over."""
        ...


class RoundRobin:
    """Whose turn is next: of those that have a call, the one that has waited longest."""

    def __init__(self) -> None:
        self._waiting: dict[Source, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, source: Source) -> None:
        """A source has a call; it waits behind all others, or where it waits already."""
        self._waiting.setdefault(source)

    def discard(self, source: Source) -> None:
        """A source has none any more."""
        self._waiting.pop(source, None)

    def take(self) -> Source:
        """The source whose turn it is, which waits no more; there is one."""
        source = next(iter(self._waiting))
        del self._waiting[source]
        return source


@dataclass(slots=True, eq=False)
class _TenantQueue:
    """A tenant at one device.

    Attributes:
        flow: What its calls are for the worker.
        streams: Its streams that have a call.
        at_device: Its calls that lie at the device.
        call_ns: Device time of its calls, a mean of the last ones.
    """

    flow: int
    streams: RoundRobin = field(default_factory=RoundRobin)
    at_device: int = 0
    call_ns: float = FRONT_LATENCY_NS

    @property
    def has_capacity(self) -> bool:
        """Whether one more of its calls may lie at the device."""
        if self.at_device < CALLS_OF_A_TENANT:
            return True
        ahead_ns = self.at_device * self.call_ns
        return self.at_device < SHORT_CALLS_OF_A_TENANT and ahead_ns < FRONT_LATENCY_NS


class Dispatcher:
    """Gives a device calls of streams: few of each tenant, and each stream's in order.

    The worker divides its time between the tenants whose calls it has. Here it is decided whose
    calls those are, by the same account of device time for each tenant's weight.

    Args:
        device: Runs the calls of each tenant in the order they come.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._queues: dict[str, _TenantQueue] = {}  # tenants are few, and made by operators
        self._flows = count(1)
        self._fair_queue = FairQueue[_TenantQueue]()
        self._tasks: dict[Entry, asyncio.Task[KernelTiming]] = {}

    def offer(self, source: Source) -> None:
        """A stream has a call."""
        queue = self._queue_of(source)
        queue.streams.add(source)
        self._fair_queue.join(queue)
        self._fill()

    def withdraw(self, source: Source) -> None:
        """A stream has none any more."""
        queue = self._queue_of(source)
        queue.streams.discard(source)
        self._leave_if_idle(queue)

    def stop(self, entry: Entry) -> None:
        """Asks the device, once, to stop a call; its stream is told when that is over."""
        self._tasks[entry].cancel()

    def _queue_of(self, source: Source) -> _TenantQueue:
        name = source.account.tenant.name
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _TenantQueue(next(self._flows))
        return queue

    def _leave_if_idle(self, queue: _TenantQueue) -> None:
        """Who has nothing to run takes part no more."""
        if queue in self._fair_queue and not queue.streams and not queue.at_device:
            self._fair_queue.leave(queue)

    def _fill(self) -> None:
        while (queue := self._next()) is not None:
            source = queue.streams.take()
            entry, run = source.take_call()
            queue.at_device += 1
            if source.has_call:
                queue.streams.add(source)
            task = asyncio.create_task(
                self._device.run(
                    run.call,
                    flow=Flow(queue.flow, source.account.tenant.weight),
                    used=partial(self._charge, queue, source.account),
                ),
                name=f"stream {source.handle}",
                context=entry.context,
            )
            self._tasks[entry] = task
            task.add_done_callback(partial(self._end, queue, source, entry))

    def _next(self) -> _TenantQueue | None:
        """Whose call goes to the device now; None where the next one has no place there."""
        candidates = [queue for queue in self._fair_queue if queue.streams and queue.has_capacity]
        if not candidates:
            return None
        queue = self._fair_queue.next(candidates)
        return queue if queue.at_device or self._admits_tenant() else None

    def _admits_tenant(self) -> bool:
        return sum(queue.at_device > 0 for queue in self._fair_queue) < TENANTS_AT_DEVICE

    def _charge(self, queue: _TenantQueue, account: Account, used_ns: int) -> None:
        queue.call_ns += _NEWEST_WEIGHT * (used_ns - queue.call_ns)
        self._fair_queue.charge(queue, used_ns, weight=account.tenant.weight)
        account.used_device(self._device.profile, used_ns / _NS_PER_S)

    def _end(
        self, queue: _TenantQueue, source: Source, entry: Entry, task: asyncio.Task[KernelTiming]
    ) -> None:
        del self._tasks[entry]
        queue.at_device -= 1
        if task.cancelled() and entry.stopped_by is None:
            return  # nobody here asked for it: the event loop ends, and all its tasks with it
        source.end_call(entry, _outcome(task))
        self._leave_if_idle(queue)
        self._fill()


def _outcome(task: asyncio.Task[KernelTiming]) -> KernelTiming | Exception:
    if task.cancelled():
        return CallStopped()
    error = task.exception()
    if error is None:
        return task.result()
    assert isinstance(error, Exception), "what ends the process ends its event loop"
    return error
