"""Tenants: who shares the devices, how much of them each may use, and at what weight."""

from dataclasses import dataclass
from enum import StrEnum


class Resource(StrEnum):
    """What a quota bounds; each is the name of a field of Quota."""

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
    """How much a tenant may use; None leaves it to the limits of the service.

    Those have a number for each tenant in `bytes_in_flight` alone: see Accounts.

    Attributes:
        device_memory_bytes: Slabs that its sessions hold, bytes.
        sessions: Open sessions.
        buffers: Live buffers of all its sessions.
        executors: Live executors of all its sessions.
        streams: Live streams of all its sessions.
        queued_entries: Entries that wait on all its streams.
        calls_per_s: Calls a second, over all APIs; as many again may come at once.
        bytes_in_flight: Bytes of bulk copies, one-shot calls and messages under way.
        device_seconds_per_day: Time that its calls run on devices in one day (UTC), seconds.
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
    """One of those who share the service.

    Attributes:
        name: 1 to 63 characters: lower case letters, digits and hyphens.
        quota: How much it may use.
        weight: Its share of a device, beside those of others that have work, 1 to 1000.
        priority_limit: Greatest priority that it may ask for when it waits for a device.
        disabled: Whether its keys are refused; its sessions are closed.
    """

    name: str
    quota: Quota = Quota()
    weight: int = 1
    priority_limit: int = 0
    disabled: bool = False
