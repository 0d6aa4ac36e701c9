"""Prometheus metrics of one service. No label has a client's text, so that all are bounded."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Protocol, assert_never

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from opserve_server.core.copies import CopyKind
from opserve_server.core.history import HistoryEntry, WorkKind
from opserve_server.core.observations import (
    CALL,
    Call,
    CallBegan,
    CallEnded,
    CopyEnded,
    Observation,
    WorkEnded,
)
from opserve_server.core.principal import ITSELF
from opserve_server.core.service import Service
from opserve_server.telemetry.families import counter, gauge, histogram
from opserve_server.telemetry.quotas import Quotas

SECONDS = (1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0)
"""Upper bounds: a small kernel takes 30 microseconds, a small call 200, the longest call 60 s."""


class Counts(Collector):
    """Sums by labels, used by one thread.

    prometheus_client's own counters take a lock for each number: a sixth of the time of a small
    command.

    Args:
        name: Name of the metric, a counter of FAMILIES.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._sums: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def add(self, amount: float, *labels: str) -> None:
        """Adds to the sum of some labels."""
        self._sums[labels] += amount

    def sums(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """The values of labels with their sum."""
        yield from self._sums.items()

    @override
    def collect(self) -> Iterator[Metric]:
        family = counter(self._name)
        for values, amount in self._sums.items():
            family.add_metric(values, amount)
        yield family


class Times(Collector):
    """Histograms of seconds by labels, used by one thread.

    Args:
        name: Name of the metric, a histogram of FAMILIES.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._buckets: defaultdict[tuple[str, ...], list[int]] = defaultdict(_empty)
        self._sums: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def add(self, seconds: float, *labels: str) -> None:
        """Adds one time to the histogram of some labels."""
        self._buckets[labels][bisect_left(SECONDS, seconds)] += 1
        self._sums[labels] += seconds

    def buckets(self) -> Iterator[tuple[tuple[str, ...], Sequence[int]]]:
        """The values of labels with their counts between two of SECONDS."""
        yield from self._buckets.items()

    @override
    def collect(self) -> Iterator[Metric]:
        family = histogram(self._name)
        bounds = [*map(str, SECONDS), "+Inf"]
        for values, buckets in self._buckets.items():
            below = list(zip(bounds, accumulate(buckets), strict=True))
            family.add_metric(values, below, self._sums[values])
        yield family


def _empty() -> list[int]:
    return [0] * (len(SECONDS) + 1)


_DIRECTIONS = {CopyKind.WRITE: "in", CopyKind.READ: "out"}


class Worked(Protocol):
    """A device with a count of its workers."""

    name: str
    restarts: int


class Metrics:
    """The metrics of one service, in a registry of their own.

    Attributes:
        calls: Calls by API, method and outcome.
        call_seconds: Times of calls by API and method.
        copied_bytes: Bytes by direction and transport.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.calls = self._counts("calls")
        self.call_seconds = self._times("call_seconds")
        self._kernels = self._counts("kernels")
        self._queue_seconds = self._times("queue_seconds")
        self._kernel_seconds = self._times("kernel_seconds")
        self._copy_seconds = self._times("copy_seconds")
        self.copied_bytes = self._counts("copied_bytes")

    def watch(self, service: Service, devices: Sequence[Worked]) -> None:
        """Adds the state of a service, read for each page."""
        self._registry.register(_State(service, devices))
        self._registry.register(Quotas(service.accounts))

    def count(self, name: str, read: Callable[[], int]) -> None:
        """Adds a number that another object counts."""
        self._registry.register(_Counted(name, read))

    def observe(self, observation: Observation) -> None:
        """Counts an observation."""
        match observation:
            case CallBegan():
                pass
            case CallEnded(call, seconds):
                self._count_call(call, seconds)
            case WorkEnded(_, profile, entry) if entry.kind is WorkKind.EXECUTE:
                self._count_kernel(profile, entry)
            case WorkEnded():
                pass
            case CopyEnded():
                self._count_copy(observation)
            case _:
                assert_never(observation)

    def page(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _count_call(self, call: Call, seconds: float) -> None:
        self.calls.add(1, call.api, call.method, call.outcome or "HUNG_UP")
        self.call_seconds.add(seconds, call.api, call.method)

    def _count_kernel(self, profile: str, entry: HistoryEntry) -> None:
        self._kernels.add(1, profile, entry.operator, entry.outcome)
        if entry.kernel_s is not None and entry.started_s is not None:
            queued_s = entry.started_s - entry.queued_s
            self._queue_seconds.add(queued_s, profile, entry.operator)
            self._kernel_seconds.add(entry.kernel_s, profile, entry.operator)

    def _count_copy(self, ended: CopyEnded) -> None:
        copy = ended.entry
        self._copy_seconds.add(copy.ended_s - copy.started_s, ended.profile, copy.kind)
        direction = _DIRECTIONS.get(copy.kind)
        if direction is not None:
            call = CALL.get()
            transport = "inline" if ended.inline or call is None else call.api
            self.copied_bytes.add(copy.size_bytes, direction, transport)

    def _counts(self, name: str) -> Counts:
        counts = Counts(name)
        self._registry.register(counts)
        return counts

    def _times(self, name: str) -> Times:
        times = Times(name)
        self._registry.register(times)
        return times


class _Counted(Collector):
    """A number that another object counts."""

    def __init__(self, name: str, read: Callable[[], int]) -> None:
        self._name = name
        self._read = read

    @override
    def collect(self) -> Iterator[Metric]:
        yield counter(self._name, self._read())


class _State(Collector):
    """The current state of each device."""

    def __init__(self, service: Service, devices: Sequence[Worked]) -> None:
        self._service = service
        self._devices = devices

    @override
    def collect(self) -> Iterator[Metric]:
        infos = self._service.list_devices(ITSELF)
        rows: dict[str, Mapping[str, float]] = {
            "sessions": {i.name: i.sessions for i in infos},
            "device_ready": {i.name: i.ready for i in infos},
            "memory_free_bytes": {i.name: i.free_memory_bytes for i in infos},
            "memory_used_bytes": {i.name: i.memory_bytes - i.free_memory_bytes for i in infos},
            "stream_entries_waiting": self._service.waiting_entries(),
        }
        for name, values in rows.items():
            family = gauge(name)
            for name_of_device, value in values.items():
                family.add_metric([name_of_device], value)
            yield family
        yield from self._queue()
        busy = counter("device_busy_seconds")
        for name_of_device, seconds in self._service.busy_seconds().items():
            busy.add_metric([name_of_device], seconds)
        yield busy
        restarts = counter("worker_restarts")
        for device in self._devices:
            restarts.add_metric([device.name], device.restarts)
        yield restarts

    def _queue(self) -> Iterator[Metric]:
        waiting, longest = gauge("waiting_requests"), gauge("longest_wait_seconds")
        for profile, waits_s in self._service.waits_s().items():
            waiting.add_metric([profile], len(waits_s))
            longest.add_metric([profile], max(waits_s, default=0.0))
        watches = gauge("watches")
        watches.add_metric([], self._service.open_watches)
        yield from (waiting, longest, watches)
