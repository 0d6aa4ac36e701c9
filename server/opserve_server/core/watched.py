"""Items of watches: devices, waiting requests, sessions and the service, for each audience.

A caller sees items of its own tenant. Of other tenants it sees numbers alone, by device.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from opserve_server.core.devices import Device
from opserve_server.core.info import (
    DeviceInfo,
    ServiceState,
    WatchedDevice,
    ready_profiles,
)
from opserve_server.core.principal import Scope
from opserve_server.core.series import Sample, Series
from opserve_server.core.session import Session
from opserve_server.core.sessions import Sessions
from opserve_server.core.time_slices import end_slice, in_slices
from opserve_server.core.watches import Audience, Item
from opserve_server.version import VERSION

EXPIRY_STEP_S = 10.0
"""Steps in which the end of a lease counts as a change: every call moves it."""
Source = Callable[[Audience], Awaitable[Mapping[str, object]]]
"""Returns items by name for an audience."""


@dataclass(slots=True, eq=False)
class _Snapshot:
    """State of all tenants at one moment.

    Attributes:
        devices: The devices.
        sessions: Numbers of sessions by device and tenant.
        requests: Numbers of waiting requests by device and tenant.
        tenant_requests: Numbers of waiting requests by tenant.
        items: Sessions and waiting requests of each watched tenant.
    """

    devices: Sequence[tuple[Device, DeviceInfo]]
    sessions: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    requests: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    tenant_requests: Counter[str] = field(default_factory=Counter[str])
    items: defaultdict[str, list[Item]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True, slots=True)
class _Readiness:
    """Whether a device is ready, the restarts of its worker, and since when both are so."""

    ready: bool
    restarts: int
    since: float


class WatchedItems:
    """Computes the items of watches, and samples of the series about devices.

    Args:
        devices: The devices.
        sessions: The sessions and the device queue.
        describe: Information on a device.
        series: Has the latest rates.
        wall_clock: Seconds since 1970.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        sessions: Sessions,
        *,
        describe: Callable[[Device], DeviceInfo],
        series: Series,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._devices, self._sessions = devices, sessions
        self._describe, self._series = describe, series
        self._wall_clock = wall_clock
        self._started_at = wall_clock()
        self._readiness: dict[str, _Readiness] = {}
        self._sources: list[tuple[str, Scope, Source]] = []
        series.add_source(self._samples)

    def add_source(self, member: str, read: Source, *, scope: Scope) -> None:
        """Adds items of a member for callers with a scope."""
        self._sources.append((member, scope, read))

    async def gather(self, audiences: Collection[Audience]) -> Mapping[Audience, Sequence[Item]]:
        """The items of each audience, all of one moment."""
        snapshot = await self._snapshot(audiences)
        return {audience: await self._items(audience, snapshot) for audience in audiences}

    async def _snapshot(self, audiences: Collection[Audience]) -> _Snapshot:
        snapshot = _Snapshot([(device, self._describe(device)) for device in self._devices])
        sessions = self._sessions.all()
        snapshot.sessions.update((one.device.name, one.tenant) for one in sessions)
        for request in self._sessions.device_queue.waiting():
            snapshot.tenant_requests[request.tenant] += 1
            snapshot.requests.update(
                (one.name, request.tenant) for one in request.requirements.devices
            )
        everyone = any(audience.is_admin for audience in audiences)
        tenants = {audience.tenant for audience in audiences}
        async for session in in_slices(sessions):
            if (everyone or session.tenant in tenants) and not session.closed:
                snapshot.items[session.tenant].append(_session_item(session))
        for tenant in list(snapshot.tenant_requests):
            if everyone or tenant in tenants:
                snapshot.items[tenant].extend(self._waiting_items(tenant))
                await end_slice()
        return snapshot

    async def _items(self, audience: Audience, snapshot: _Snapshot) -> Sequence[Item]:
        items = [self._device_item(audience, snapshot, *one) for one in snapshot.devices]
        for tenant in snapshot.items if audience.is_admin else (audience.tenant,):
            items += snapshot.items.get(tenant, ())
        items.append(self._state_item(audience, snapshot))
        for member, scope, read in self._sources:
            if audience.is_admin or scope in audience.scopes:
                found = await read(audience)
                items += [Item(member, name, value, value) for name, value in found.items()]
        return items

    def _device_item(
        self, audience: Audience, snapshot: _Snapshot, device: Device, info: DeviceInfo
    ) -> Item:
        own, name = (device.name, audience.tenant), device.name
        readiness = self._readiness_of(device)
        shown = WatchedDevice(
            **{one.name: getattr(info, one.name) for one in fields(DeviceInfo)},
            since=readiness.since,
            restarts=readiness.restarts,
            your_sessions=snapshot.sessions[own],
            other_sessions=_others(snapshot.sessions, own),
            your_requests=snapshot.requests[own],
            other_requests=_others(snapshot.requests, own),
            queued_entries=self._sessions.dispatcher(device).waiting,
            busy_share=self._series.latest("device_busy_share", name),
            calls_per_s=self._series.latest("device_calls_per_s", name),
        )
        return Item("devices", name, shown, shown)

    def _state_item(self, audience: Audience, snapshot: _Snapshot) -> Item:
        drains = self._sessions.draining
        profiles = ready_profiles(info for _, info in snapshot.devices)
        yours = snapshot.tenant_requests[audience.tenant]
        state = ServiceState(
            version=VERSION,
            started_at=self._started_at,
            ready=not drains and all(profiles.values()),
            drains=drains,
            your_requests=yours,
            other_requests=snapshot.tenant_requests.total() - yours,
            scopes=tuple(sorted(audience.scopes)),
        )
        return Item("service", "state", state, state)

    def _waiting_items(self, tenant: str) -> Iterator[Item]:
        queue = self._sessions.device_queue
        for info in queue.infos(lambda request: request.tenant == tenant):
            # Times that pass are no change: a client computes them from the time of the event.
            yield Item("waiting", info.id, info, replace(info, waited_s=0.0, left_s=0.0))

    def _readiness_of(self, device: Device) -> _Readiness:
        known = self._readiness.get(device.name)
        if known is None or (known.ready, known.restarts) != (device.ready, device.restarts):
            known = _Readiness(device.ready, device.restarts, self._wall_clock())
            self._readiness[device.name] = known
        return known

    def _samples(self) -> Iterator[Sample]:
        waiting = Counter(
            request.requirements.profile for request in self._sessions.device_queue.waiting()
        )
        for device in self._devices:
            self._readiness_of(device)
            dispatcher, name = self._sessions.dispatcher(device), device.name
            yield "device_busy_share", name, dispatcher.busy_s
            yield "device_calls_per_s", name, dispatcher.ended_calls
            yield "device_queued_entries", name, dispatcher.waiting
            yield "device_sessions", name, self._sessions.count(device)
            used_bytes = device.memory_bytes - device.slabs.free_bytes
            yield "device_used_memory_bytes", name, used_bytes
            yield "waiting_requests", device.profile, waiting[device.profile]


def _others(counts: Counter[tuple[str, str]], own: tuple[str, str]) -> int:
    return sum(count for key, count in counts.items() if key[0] == own[0] and key != own)


def _session_item(session: Session) -> Item:
    info = session.info()
    ends_s = asyncio.get_running_loop().time() + info.expires_in_s
    stamp = replace(info, open_s=0.0, expires_in_s=ends_s // EXPIRY_STEP_S)
    return Item("sessions", info.id, info, stamp)
