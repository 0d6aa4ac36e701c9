"""Directory of a farm: services that share one store, as the core of one of them sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from opserve_server.core.info import DeviceInfo


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
    """

    name: str
    grpc_address: str
    http_address: str
    version: str
    contract: str
    drains: bool
    devices: tuple[DeviceRecord, ...]


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


class Single:
    """The farm of a service that is in none; it needs no store."""

    name = ""
    own: ServiceRecord | None = None
    others: Sequence[ServiceRecord] = ()
    accepts = True


SINGLE = Single()
