"""Tenants: their quotas, weights and priorities."""

from dataclasses import dataclass
from enum import StrEnum


class Resource(StrEnum):
    """A resource with a quota; each value is the name of a field of Quota."""

    DEVICE_MEMORY = "device_memory_bytes"
    SESSIONS = "sessions"
    BUFFERS = "buffers"
    EXECUTORS = "executors"
    STREAMS = "streams"
    QUEUED = "queued_entries"
    CALLS_PER_S = "calls_per_s"
    BYTES_IN_FLIGHT = "bytes_in_flight"
    DEVICE_SECONDS = "device_seconds_per_day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of a tenant; None leaves a resource to the limits of the service.

    Only `bytes_in_flight` has a service limit for each tenant: see Accounts.

    Attributes:
        device_memory_bytes: Slabs of its sessions, bytes.
        sessions: Open sessions.
        buffers: Live buffers of all its sessions.
        executors: Live executors of all its sessions.
        streams: Live streams of all its sessions.
        queued_entries: Entries that wait on all its streams.
        calls_per_s: Calls per second, over all APIs; as many again may arrive at once.
        bytes_in_flight: Bytes of bulk copies, one-shot calls and messages in transit.
        device_seconds_per_day: Run time of its calls on devices in one day (UTC), seconds.
    """

    device_memory_bytes: int | None = None
    sessions: int | None = None
    buffers: int | None = None
    executors: int | None = None
    streams: int | None = None
    queued_entries: int | None = None
    calls_per_s: float | None = None
    bytes_in_flight: int | None = None
    device_seconds_per_day: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant of the service.

    Attributes:
        name: 1 to 63 characters: lower case letters, digits and hyphens.
        quota: Its limits.
        weight: Its share of a device relative to other tenants with work, 1 to 1000.
        priority_limit: Greatest priority of its session requests.
        disabled: Whether its keys are rejected; its sessions are closed.
    """

    name: str
    quota: Quota = Quota()
    weight: int = 1
    priority_limit: int = 0
    disabled: bool = False
