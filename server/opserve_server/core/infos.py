"""What clients are told of devices and sessions."""

from dataclasses import dataclass, field


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
