"""What clients are told of devices and sessions."""

from dataclasses import dataclass, field

from opserve_server.core.tenants import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A device as clients see it; operators are named as the vendor names them."""

    name: str
    profile: str
    products: str
    operators: tuple[str, ...]
    memory_bytes: int
    free_memory_bytes: int
    ready: bool
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSession:
    """A new lease: the session's name, its device and the seconds it lives without a call.

    local_lane names the socket by which a client on this host can map its memory, and
    local_lane_token, a secret, is what it shows there; both are empty where there is none.
    """

    session: str
    device: DeviceInfo
    lease_s: float
    local_lane: str
    local_lane_token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSession(OpenedSession):
    """An open session, and the greatest handle of each kind that it has used."""

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
        working: Whether a call is in progress or work of a stream is not over.
        memory_bytes: Slabs that it holds, bytes.
    """

    id: str
    tenant: str
    device: str
    profile: str
    open_s: float
    expires_in_s: float
    calls: int
    queued_entries: int
    working: bool
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """How a tenant stands in a resource; a limit of None is the service's own."""

    resource: Resource
    limit: float | None
    use: float
    refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tenant uses now, and how much it may."""

    tenant: str
    uses: list[ResourceUse]
