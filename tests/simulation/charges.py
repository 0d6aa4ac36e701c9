"""Resources of tenants, counted anew from the tables of the core; and their owners."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from typing_extensions import override

from opserve_server.core.principal import Principal
from opserve_server.core.results import Written
from opserve_server.core.service import Service
from opserve_server.core.session import Session
from opserve_server.core.tenants import Resource
from opserve_server.pool.slabs import Slab
from server.core.fakes import FakeDevice

HELD = (
    Resource.DEVICE_MEMORY,
    Resource.SESSIONS,
    Resource.BUFFERS,
    Resource.EXECUTORS,
    Resource.STREAMS,
    Resource.QUEUED,
)
"""Resources that sessions hold."""


def held_by(session: Session) -> Counter[Resource]:
    """Resources of a session: none once it has ended, which it has when no stream is left."""
    slabs = session.memory._slabs.values()
    return Counter(
        {
            Resource.DEVICE_MEMORY: sum(space.slab.size_bytes for space in slabs),
            Resource.SESSIONS: int(len(session.streams) > 0),
            Resource.BUFFERS: len(session.buffers),
            Resource.EXECUTORS: len(session.executors),
            Resource.STREAMS: len(session.streams),
            Resource.QUEUED: sum(stream.waiting for stream in session.streams),
        }
    )


def check_nothing_is_charged(service: Service) -> None:
    """Everything has ended: no account holds anything."""
    for account in service.accounts:
        left = {resource: account.use(resource) for resource in (*HELD, Resource.BYTES_IN_FLIGHT)}
        assert not any(left.values()), f"{account.tenant.name} is charged for what has ended"


@dataclass
class BreakingDevice(FakeDevice):
    """Attaching a slab to its worker fails now and then."""

    breaks: bool = False

    @override
    def attach(self, slab: Slab) -> None:
        if self.breaks:
            raise OSError("planted: no worker")
        super().attach(slab)


@dataclass(eq=False)
class Lease:
    """A session of the machine's, and what it made there."""

    principal: Principal
    session: Session
    buffers: list[int] = field(default_factory=list[int])
    executors: list[int] = field(default_factory=list[int])
    streams: list[int] = field(default_factory=lambda: [0])


@dataclass(eq=False)
class Upload:
    """A bulk write whose client has stopped in the middle.

    Attributes:
        tenant: Whose.
        size_bytes: Of all of it.
        goes_on: Set by the machine.
        task: The write.
        begun: Whether the service has asked for its bytes.
    """

    tenant: str
    size_bytes: int
    goes_on: asyncio.Future[None]
    task: asyncio.Task[Written]
    begun: bool = False
