"""Dispatch: selects the next call for a device, and bounds the calls of each tenant there."""

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from opserve_server.core.accounts import Account
from opserve_server.core.devices import Device
from opserve_server.core.work import Entry, KernelRun
from opserve_server.pool.device import CallOutcome
from opserve_server.pool.fair_queue import FairQueue
from opserve_server.pool.messages import Flow

CALLS_OF_A_TENANT = 2
"""Calls of one tenant at a device: one may run and one follows without a gap. The order of all
other calls of the tenant stays open."""
SHORT_CALLS_OF_A_TENANT = 16
"""The bound for short calls, which together last no longer than FRONT_LATENCY_NS."""
FRONT_LATENCY_NS = 10_000_000
"""Nanoseconds within which a busy front process handles an end and sends the next call."""
_NEWEST_WEIGHT = 1 / 8
"""Weight of the newest call in the mean time of calls."""
TENANTS_AT_DEVICE = 64
"""Tenants among which a worker shares its time; other tenants wait until one has no call there."""
_NS_PER_S = 1e9


class Source(Protocol):
    """A stream, as the dispatcher uses it."""

    @property
    def handle(self) -> int:
        """Its handle."""
        ...

    @property
    def account(self) -> Account:
        """The account that its calls are charged to."""
        ...

    @property
    def has_call(self) -> bool:
        """Whether its next work is a call that can go to the device now."""
        ...

    def take_call(self) -> tuple[Entry, KernelRun]:
        """Removes and returns its next call, which goes to the device."""
        ...

    def end_call(self, entry: Entry, outcome: CallOutcome) -> None:
        """Handles the end of a call at the device."""
        ...


class RoundRobin:
    """Round robin over sources with a call; the one that has waited longest is next."""

    def __init__(self) -> None:
        self._waiting: dict[Source, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, source: Source) -> None:
        """Appends a source; one that waits already keeps its position."""
        self._waiting.setdefault(source)

    def discard(self, source: Source) -> None:
        """Removes a source without calls."""
        self._waiting.pop(source, None)

    def take(self) -> Source:
        """Removes and returns the next source; there must be one."""
        source = next(iter(self._waiting))
        del self._waiting[source]
        return source


@dataclass(slots=True, eq=False)
class _TenantQueue:
    """The calls of one tenant for one device.

    Attributes:
        flow: Number of the tenant's flow at the worker.
        streams: Streams with a call to send.
        at_device: Calls at the device.
        call_ns: Moving average of the device time of its calls.
    """

    flow: int
    streams: RoundRobin = field(default_factory=RoundRobin)
    at_device: int = 0
    call_ns: float = FRONT_LATENCY_NS

    @property
    def has_capacity(self) -> bool:
        """Whether the device may take one more of its calls."""
        if self.at_device < CALLS_OF_A_TENANT:
            return True
        ahead_ns = self.at_device * self.call_ns
        return self.at_device < SHORT_CALLS_OF_A_TENANT and ahead_ns < FRONT_LATENCY_NS


class Dispatcher:
    """Sends calls of streams to a device: few per tenant, in order within a stream.

    The worker shares its time among the tenants whose calls it has. The dispatcher selects those
    calls by the same measure, device time per weight.

    Args:
        device: Runs the calls of each tenant in the order of their arrival.

    Attributes:
        waiting: Entries that wait on all streams of the device; each stream reports its own.
        ended_calls: Calls that ended at the device.
    """

    def __init__(self, device: Device) -> None:
        self.waiting = self.ended_calls = 0
        self._busy_s = self._busy_since_s = 0.0
        self._device = device
        self._queues: dict[
            str, _TenantQueue
        ] = {}  # administrators create tenants, so there are few
        self._flows = count(1)
        self._fair_queue = FairQueue[_TenantQueue]()
        self._at_device: dict[Entry, int] = {}

    @property
    def busy_s(self) -> float:
        """Seconds in which the device had a call, up to now."""
        if not self._at_device:
            return self._busy_s
        return self._busy_s + asyncio.get_running_loop().time() - self._busy_since_s

    def offer(self, source: Source) -> None:
        """Registers that a stream has a call."""
        queue = self._queue_of(source)
        queue.streams.add(source)
        self._fair_queue.join(queue)
        self._fill()

    def withdraw(self, source: Source) -> None:
        """Registers that a stream has no call."""
        queue = self._queue_of(source)
        queue.streams.discard(source)
        self._leave_if_idle(queue)

    def stop(self, entry: Entry) -> None:
        """Requests that the device stops a call; end_call follows when it has."""
        self._device.stop_call(self._at_device[entry])

    def _queue_of(self, source: Source) -> _TenantQueue:
        name = source.account.tenant.name
        queue = self._queues.get(name)
        if queue is None:
            # Flow numbers are never reused, so the worker cannot mix the times of two tenants.
            queue = self._queues[name] = _TenantQueue(next(self._flows))
        return queue

    def _leave_if_idle(self, queue: _TenantQueue) -> None:
        """Removes a tenant without work from the fair queue."""
        if queue in self._fair_queue and not queue.streams and not queue.at_device:
            self._fair_queue.leave(queue)

    def _fill(self) -> None:
        while (queue := self._next()) is not None:
            source = queue.streams.take()
            entry, run = source.take_call()
            if not self._at_device:
                self._busy_since_s = asyncio.get_running_loop().time()
            queue.at_device += 1
            # Behind the tenant's other streams: they alternate call by call.
            if source.has_call:
                queue.streams.add(source)
            flow = Flow(queue.flow, source.account.tenant.weight)
            progress = Progress(self, queue, source, entry)
            self._at_device[entry] = self._device.begin(run.call, flow=flow, progress=progress)

    def _next(self) -> _TenantQueue | None:
        """The tenant whose call goes to the device now; None where the device has no capacity."""
        # A call that is at the device can no longer be overtaken. So few are sent, and the order of
        # all others stays open for tenants with less device time.
        candidates = [queue for queue in self._fair_queue if queue.streams and queue.has_capacity]
        if not candidates:
            return None
        queue = self._fair_queue.next(candidates)
        return queue if queue.at_device or self._admits_tenant() else None

    def _admits_tenant(self) -> bool:
        return sum(queue.at_device > 0 for queue in self._fair_queue) < TENANTS_AT_DEVICE

    def charge(self, queue: _TenantQueue, account: Account, used_ns: int) -> None:
        """Charges device time of a call to its tenant."""
        # Charged after the run: the time of a call is not known before.
        queue.call_ns += _NEWEST_WEIGHT * (used_ns - queue.call_ns)
        self._fair_queue.charge(queue, used_ns, weight=account.tenant.weight)
        account.used_device(self._device.profile, used_ns / _NS_PER_S)

    def end(self, queue: _TenantQueue, source: Source, entry: Entry, outcome: CallOutcome) -> None:
        """Handles the end of a call at the device."""
        del self._at_device[entry]
        self.ended_calls += 1
        if not self._at_device:
            self._busy_s += asyncio.get_running_loop().time() - self._busy_since_s
        # Before end_call, which may offer the stream's next call.
        queue.at_device -= 1
        source.end_call(entry, outcome)
        self._leave_if_idle(queue)
        self._fill()


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """The progress of a call at the device.

    Attributes:
        dispatcher: The dispatcher that sent it.
        queue: The calls of its tenant.
        source: Its stream.
        entry: Its entry in the stream.
    """

    dispatcher: Dispatcher
    queue: _TenantQueue
    source: Source
    entry: Entry

    def used(self, used_ns: int) -> None:
        """Charges device time."""
        self.dispatcher.charge(self.queue, self.source.account, used_ns)

    def ended(self, outcome: CallOutcome) -> None:
        """Ends the call."""
        self.dispatcher.end(self.queue, self.source, self.entry, outcome)
