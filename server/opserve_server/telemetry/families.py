"""Metric families of the service: names and labels, which are public, and help texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

_PREFIX = "opserve_"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric.

    Attributes:
        kind: Kind of Prometheus; the samples of a counter end in `_total`.
        help: Text for readers of the page.
        labels: Names of its labels.
    """

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


FAMILIES: Mapping[str, Family] = {
    "calls": Family("counter", "Calls by outcome.", ("api", "method", "outcome")),
    "call_seconds": Family("histogram", "Seconds from a call to its answer.", ("api", "method")),
    "kernels": Family("counter", "Executed calls by outcome.", ("profile", "operator", "outcome")),
    "queue_seconds": Family(
        "histogram", "Seconds from Execute to the kernel.", ("profile", "operator")
    ),
    "kernel_seconds": Family(
        "histogram", "Seconds that kernels computed.", ("profile", "operator")
    ),
    "copy_seconds": Family("histogram", "Seconds that copies took.", ("profile", "kind")),
    "copied_bytes": Family(
        "counter", "Bytes in from clients, and out to them.", ("direction", "transport")
    ),
    "sessions": Family("gauge", "Open sessions.", ("device",)),
    "device_ready": Family("gauge", "1 if the device's worker is ready, else 0.", ("device",)),
    "memory_free_bytes": Family("gauge", "Free device memory.", ("device",)),
    "memory_used_bytes": Family("gauge", "Device memory of sessions.", ("device",)),
    "stream_entries_waiting": Family("gauge", "Queued entries of streams.", ("device",)),
    "device_busy_seconds": Family(
        "counter", "Seconds in which the device had a call.", ("device",)
    ),
    "waiting_requests": Family("gauge", "Session requests in the device queue.", ("profile",)),
    "longest_wait_seconds": Family(
        "gauge", "Wait of the session request that waits longest.", ("profile",)
    ),
    "watches": Family("gauge", "Open watches of the service's state."),
    "worker_restarts": Family("counter", "Workers that replaced a dead one.", ("device",)),
    "tenant_use": Family("gauge", "A tenant's use of a resource.", ("tenant", "resource")),
    "tenant_limit": Family(
        "gauge", "A tenant's quota, where it has a limit.", ("tenant", "resource")
    ),
    "tenant_refusals": Family(
        "counter", "Calls that a tenant's quota rejected.", ("tenant", "resource")
    ),
    "audit_dropped": Family("counter", "Rejected callers without an audit entry."),
    "store_failures": Family("counter", "Refreshes of keys and tenants that the store failed."),
}
"""Families by name, without the prefix `opserve_`."""


def counter(name: str, value: float | None = None) -> CounterMetricFamily:
    """A counter without samples, or with one of this value that has no label."""
    family = FAMILIES[name]
    assert family.kind == "counter"
    labels = None if value is not None else family.labels
    return CounterMetricFamily(_PREFIX + name, family.help, value=value, labels=labels)


def gauge(name: str) -> GaugeMetricFamily:
    """A gauge without samples."""
    family = FAMILIES[name]
    assert family.kind == "gauge"
    return GaugeMetricFamily(_PREFIX + name, family.help, labels=family.labels)


def histogram(name: str) -> HistogramMetricFamily:
    """A histogram without samples."""
    family = FAMILIES[name]
    assert family.kind == "histogram"
    return HistogramMetricFamily(_PREFIX + name, family.help, labels=family.labels)


def sample_name(name: str) -> str:
    """The name of a metric on the page of metrics."""
    return f"{_PREFIX}{name}{'_total' if FAMILIES[name].kind == 'counter' else ''}"
