"""What clients are told of devices and sessions."""

from dataclasses import dataclass, field

from opserve_server.core.tenants import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A device as clients see it; operators are named as the vendor names them.

    tags are what the operator of the service says of it, and exclusive tells whether one session
    has it alone.

    Attributes:
        name: Its name within the service, such as "ascend910b-0".
        profile: Its profile, such as "ascend910b"; a session asks for this.
        products: Product names of the vendor.
        operators: Operators that it supports, as the vendor names them.
        memory_bytes: Its memory, bytes.
        free_memory_bytes: Its memory that no session holds, bytes.
        ready: Whether its worker answers.
        sessions: Open sessions on it.
        tags: Labels that the administrator of the service gave it; a session can ask for them.
        exclusive: Whether one session has it alone.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSession:
    """A new lease: the session's name, its device and the seconds it lives without a call.

    exclusive_left_s tells after how many seconds an exclusive session ends, and is 0 for others.
    local_lane names the socket by which a client on this host can map its memory, and
    local_lane_token, a secret, is what it shows there; both are empty where there is none.

    Attributes:
        session: Its name, a secret.
        device: Its device.
        lease_s: Seconds that it lives without a call.
        exclusive_left_s: Seconds until an exclusive session ends; 0 of others.
        accuracy: Error bound of its results: "direct" or "fast".
        documented_rules: Answer to a call that breaks a rule of the vendor's page alone: "error" or
            "warn".
        local_lane: Socket through which a client on this host maps its memory; empty where there is
            none.
        local_lane_token: Secret that such a client sends to the socket; empty where there is none.
    """

    session: str
    device: DeviceInfo
    lease_s: float
    exclusive_left_s: float = 0.0
    accuracy: str
    documented_rules: str
    local_lane: str
    local_lane_token: str = field(repr=False)


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
    """An open session, as its tenant and operators of the service see it.

    Attributes:
        id: The start of its name, which is a secret; `Service.release` takes it.
        tenant: Whose it is.
        device: Name of its device.
        profile: Profile of its device.
        open_s: Seconds since it was opened.
        expires_in_s: Seconds until it ends, unless its client calls.
        calls: Calls in progress.
        queued_entries: Entries of its streams that have not gone to the device.
        exclusive: Whether it has its device alone.
        working: Whether a call is in progress or work of a stream is not over.
        memory_bytes: Slabs that it holds, bytes.
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
    """How a tenant stands in a resource; a limit of None is the service's own.

    Attributes:
        resource: The resource.
        limit: Most that the tenant may use; None: the limits of the service alone hold.
        use: What the tenant uses now.
        refusals: Calls that this limit refused since the service started.
    """

    resource: Resource
    limit: float | None
    use: float
    refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tenant uses now, and how much it may.

    Attributes:
        tenant: Its name.
        uses: How it stands in each resource.
    """

    tenant: str
    uses: list[ResourceUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingInfo:
    """A request for a device that waits.

    Attributes:
        request_id: Its client's id; empty where it has none.
        tenant: Who waits.
        profile: Of the device that it waits for.
        tags: What the device must have.
        exclusive: Whether it wants the device alone.
        priority: How far ahead it waits.
        position: 1 for the next; those before it want one of the same devices.
        waits_for: What has to end first, in words.
        waited_s: Seconds since it was made.
        left_s: Seconds until it is given up.
    """

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
