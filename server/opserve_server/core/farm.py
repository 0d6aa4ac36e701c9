"""Directory of a farm: services that share one store, as the core of one of them sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from opserve_kernels.errors import InvalidArgument
from opserve_kernels.profiles import DEFAULT_PROFILE, profile_named
from opserve_server.core.info import DeviceInfo, ServiceAddress
from opserve_server.core.session_request import SessionRequest

Uses = Mapping[str, Mapping[str, int]]
"""Use of the resources that quotas of a farm count, by tenant and resource."""
_ID_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """A device at the last renewal of its service.

    Attributes:
        info: Its description.
        room: Sessions that it can take.
        exclusive_room: Whether it can take an exclusive session.
    """

    info: DeviceInfo
    room: int
    exclusive_room: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    """A service at its last renewal.

    Attributes:
        name: Its name in the farm.
        grpc_address: Address of its gRPC API: "grpc://farm-a:50051".
        http_address: Address of its Connect and REST APIs: "https://farm-a:8080".
        version: Its version.
        contract: Digest of its descriptions of operators.
        drains: Whether it accepts no new work.
        devices: Its devices.
        uses: Use of resources by tenant.
    """

    name: str
    grpc_address: str
    http_address: str
    version: str
    contract: str
    drains: bool
    devices: tuple[DeviceRecord, ...]
    uses: Uses = field(default_factory=dict[str, Mapping[str, int]])

    @property
    def address(self) -> ServiceAddress:
        """Its name, and where clients reach it."""
        return ServiceAddress(name=self.name, grpc=self.grpc_address, http=self.http_address)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRecord:
    """A session request that waits at a service of the farm, or whose service is lost.

    Attributes:
        tenant: Name of the requesting tenant.
        request: The request id of its client, with escapes in ASCII, or another unique text.
        rank: Its rank, seconds; the least is served first.
        terms: The device and terms that it requests.
        service: Name of the service where it waits.
        connected: Whether its client is connected there.
        arrived: Whether its client has called there since the exchange before.
        claimable: Whether another service may keep a device for it: its service lives, its client
            is connected, and no other one keeps a device.
        claimed_by: Name of the service that keeps a device for it; empty without one.
    """

    tenant: str
    request: str
    rank: float
    terms: SessionRequest
    service: str
    connected: bool
    arrived: bool = False
    claimable: bool = False
    claimed_by: str = ""


class Farm(Protocol):
    """The farm of a service."""

    @property
    def name(self) -> str:
        """Name of this service; empty outside a farm."""
        ...

    @property
    def own(self) -> ServiceRecord | None:
        """This service as it was registered; None outside a farm."""
        ...

    @property
    def others(self) -> Sequence[ServiceRecord]:
        """The other live services, at their last renewals."""
        ...

    @property
    def accepts(self) -> bool:
        """Whether this service may open sessions: its lease in the directory has not ended."""
        ...

    @property
    def ahead_s(self) -> float:
        """The clock that ranks waiting requests, less that of the event loop, seconds."""
        ...


class Single:
    """The farm of a service that is in none; it needs no store."""

    name = ""
    own: ServiceRecord | None = None
    others: Sequence[ServiceRecord] = ()
    accepts = True
    ahead_s = 0.0


SINGLE = Single()


def service_id(name: str) -> str:
    """The last digits of the names of a service's sessions; empty outside a farm."""
    return sha256(name.encode()).hexdigest()[:_ID_DIGITS] if name else ""


def owner_of(farm: Farm, session: str) -> ServiceRecord | None:
    """The other service that a session's name names; None where it names none."""
    return next((one for one in farm.others if session.endswith(service_id(one.name))), None)


def service_named(farm: Farm, name: str) -> ServiceRecord | None:
    """The other live service of a name; None without one."""
    return next((one for one in farm.others if one.name == name), None)


def with_device(farm: Farm, request: SessionRequest) -> ServiceRecord | None:
    """The other service with the most room on devices that can meet a request, even if it is full.

    None where no other has such a device, and for a request that this service must answer.
    """
    if request.here:
        return None
    fitting = [one for one in farm.others if not one.drains and _fitting(one, request)]
    return max(fitting, key=lambda service: _room_of(service, request), default=None)


def with_room(farm: Farm, request: SessionRequest) -> ServiceRecord | None:
    """The same where it has room; otherwise None."""
    other = with_device(farm, request)
    return other if other is not None and _room_of(other, request) else None


def _room_of(service: ServiceRecord, request: SessionRequest) -> int:
    fitting = _fitting(service, request)
    if request.exclusive:
        return sum(device.exclusive_room for device in fitting)
    return max((device.room for device in fitting), default=0)


def _fitting(service: ServiceRecord, request: SessionRequest) -> list[DeviceRecord]:
    """The devices that can meet a request."""
    try:
        profile = profile_named(request.profile or DEFAULT_PROFILE).name
    except InvalidArgument:
        return []
    tags = set(request.tags)
    return [
        one
        for one in service.devices
        if one.info.profile == profile and tags.issubset(one.info.tags)
    ]
