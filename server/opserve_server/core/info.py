"""Information that clients receive on devices and sessions."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from opserve_server.core.tenants import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """A service of a farm, and where clients reach it.

    Attributes:
        name: Its name in the farm.
        grpc: Address of its gRPC API.
        http: URL of its HTTP port.
    """

    name: str
    grpc: str
    http: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A device as clients see it; operators have the vendor's names.

    Attributes:
        name: Its name within the service, such as "ascend910b-0".
        profile: Its profile, such as "ascend910b"; a session requests it by this.
        products: Product names of the vendor.
        operators: Operators that it supports, by the vendor's names.
        memory_bytes: Its memory, bytes.
        free_memory_bytes: Memory that no session uses, bytes.
        ready: Whether its worker responds.
        sessions: Open sessions on it.
        tags: Labels that the administrator of the service gave it; a session can require them.
        exclusive: Whether one session has it exclusively.
        kernel_variant: Kernel variant that fixes the bytes of its results; empty on `reference`.
        host: Name of its service in the farm; empty outside a farm.
    """

    name: str
    profile: str
    products: str
    operators: tuple[str, ...]
    memory_bytes: int
    free_memory_bytes: int
    ready: bool
    sessions: int
    tags: tuple[str, ...] = ()
    exclusive: bool = False
    kernel_variant: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedDevice(DeviceInfo):
    """A device with its current activity, as one tenant may see it.

    Attributes:
        since: Time since which `ready` and `restarts` are as they are, seconds since 1970.
        restarts: Workers that replaced a dead one.
        your_sessions: Open sessions of the tenant on it.
        other_sessions: Open sessions of other tenants on it.
        your_requests: Session requests of the tenant that wait for it, or for another device too.
        other_requests: Those of other tenants.
        queued_entries: Queued entries of streams, of all tenants.
        busy_share: Share of the last second in which it had a call, 0 to 1.
        calls_per_s: Calls that ended at it in the last second.
    """

    since: float
    restarts: int
    your_sessions: int
    other_sessions: int
    your_requests: int
    other_requests: int
    queued_entries: int
    busy_share: float
    calls_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """State of the service.

    Attributes:
        version: Its version.
        started_at: Time of its start, seconds since 1970.
        ready: Whether it accepts calls, and every profile has a device that is ready.
        drains: Whether it is about to end and accepts no new work.
        your_requests: Session requests of the tenant in the device queue.
        other_requests: Those of other tenants.
        scopes: Scopes of the caller.
    """

    version: str
    started_at: float
    ready: bool
    drains: bool
    your_requests: int
    other_requests: int
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSession:
    """A new lease: the session's name, its device and the seconds it lasts without a call.

    Attributes:
        session: Its name, a secret.
        device: Its device.
        lease_s: Seconds that it lasts without a call.
        exclusive_left_s: Seconds until an exclusive session ends; 0 for others.
        accuracy: Error bound of its results: "direct" or "fast".
        documented_rules: Answer to a call that breaks a rule of the vendor's page alone: "error" or
            "warn".
        local_lane: Socket through which a client on this host maps its memory; empty where there is
            none.
        local_lane_token: Secret that such a client sends to the socket; empty where there is none.
        services: The services of the farm, that of the session first; empty outside a farm.
    """

    session: str
    device: DeviceInfo
    lease_s: float
    exclusive_left_s: float = 0.0
    accuracy: str
    documented_rules: str
    local_lane: str
    local_lane_token: str = field(repr=False)
    services: tuple[ServiceAddress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSession(OpenedSession):
    """An open session, and the greatest handle of each kind that it has used.

    Attributes:
        last_buffer: Greatest buffer handle that it has used.
        last_executor: Greatest executor handle that it has used.
        last_stream: Greatest stream handle that it has used.
        last_event: Greatest event handle that it has used.
    """

    last_buffer: int
    last_executor: int
    last_stream: int
    last_event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """An open session, as its tenant and administrators of the service see it.

    Attributes:
        id: The start of its name, which is a secret; `Service.release` accepts it.
        tenant: Its tenant.
        device: Name of its device.
        profile: Profile of its device.
        open_s: Seconds since it was opened.
        expires_in_s: Seconds until it ends, unless its client calls.
        calls: Calls in progress.
        queued_entries: Entries of its streams that have not gone to the device.
        exclusive: Whether it has its device exclusively.
        working: Whether a call is in progress or work of a stream is not complete.
        memory_bytes: Its slabs, bytes.
    """

    id: str
    tenant: str
    device: str
    profile: str
    open_s: float
    expires_in_s: float
    exclusive: bool
    calls: int
    queued_entries: int
    working: bool
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """Limit and use of a resource by a tenant; without a limit, those of the service apply.

    Attributes:
        resource: The resource.
        limit: Most that the tenant may use; None: only the limits of the service apply.
        use: Current use of the tenant.
        refusals: Calls that this limit rejected since the service started.
    """

    resource: Resource
    limit: float | None
    use: float
    refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Current use and limits of a tenant.

    Attributes:
        tenant: Its name.
        uses: Limit and use of each resource.
    """

    tenant: str
    uses: list[ResourceUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingInfo:
    """A request in the device queue.

    Attributes:
        id: Its public id, 8 hexadecimal digits.
        request_id: Its client's id; empty where it has none.
        tenant: The requesting tenant.
        profile: Requested profile.
        tags: Required tags.
        exclusive: Whether it requests the device exclusively.
        priority: Its priority.
        position: 1 for the next; requests before it can use one of the same devices.
        waits_for: What must end first, in words.
        waited_s: Seconds since the request.
        left_s: Seconds until it times out.
    """

    id: str
    request_id: str
    tenant: str
    profile: str
    tags: tuple[str, ...]
    exclusive: bool
    priority: int
    position: int
    waits_for: str
    waited_s: float
    left_s: float


def ready_profiles(devices: Iterable[DeviceInfo]) -> dict[str, bool]:
    """Whether any device is ready, by profile."""
    profiles: dict[str, bool] = {}
    for device in devices:
        profiles[device.profile] = profiles.get(device.profile, False) or device.ready
    return profiles
