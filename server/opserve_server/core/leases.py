"""Sessions that the service opens for a call of its client."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_server.core.commands import Command
from opserve_server.core.errors import HandleNotFound
from opserve_server.core.memory_commands import Allocate
from opserve_server.core.principal import Principal
from opserve_server.core.results import Allocated, Result
from opserve_server.core.service import Service
from opserve_server.core.session import DeterministicLevel
from opserve_server.core.session_request import SessionRequest

_CHUNK_BYTES = 2**20


@asynccontextmanager
async def opened(
    service: Service, principal: Principal, request: SessionRequest
) -> AsyncGenerator["Lease"]:
    """A session of the caller; the end of the block closes it."""
    session = (await service.open_session(principal, request)).session
    try:
        yield Lease(service, principal, session)
    finally:
        with suppress(HandleNotFound):  # its lease expired, or the service drains
            await service.close_session(principal, session)


@asynccontextmanager
async def leased(
    service: Service, principal: Principal, request: SessionRequest
) -> AsyncGenerator["Lease"]:
    """A session of the caller whose lease does not expire in the block.

    A draining service completes the block's call.
    """
    async with opened(service, principal, request) as lease:
        with lease.whole_call():
            yield lease


@dataclass(frozen=True, slots=True)
class Lease:
    """A session and its owner."""

    service: Service
    principal: Principal
    session: str

    def whole_call(self) -> AbstractContextManager[None]:
        """A call that a draining service completes; the session does not expire during it."""
        return self.service.whole_call(self.principal, self.session)

    async def run(self, command: Command) -> Result:
        """Runs a command."""
        return await self.service.run(self.principal, self.session, command)

    async def allocate(self, command: Allocate) -> int:
        """Makes a buffer."""
        allocated = await self.run(command)
        assert isinstance(allocated, Allocated)
        return allocated.buffer

    async def write(self, buffer: int, data: NDArray[Any]) -> None:
        """Copies a contiguous array into a buffer."""
        await self.service.write(
            self.principal,
            self.session,
            buffer=buffer,
            offset=0,
            size_bytes=data.nbytes,
            chunks=_chunks(data),
        )

    def chunks(self, buffer: int, size_bytes: int) -> AsyncGenerator[bytes]:
        """The first bytes of a buffer in chunks; each renews the lease."""
        return self.service.read(
            self.principal, self.session, buffer=buffer, offset=0, size_bytes=size_bytes
        )

    async def read(self, buffer: int, size_bytes: int) -> bytearray:
        """The first bytes of a buffer."""
        data = bytearray()
        async for chunk in self.chunks(buffer, size_bytes):
            data += chunk
        return data

    def set_deterministic_level(self, level: DeterministicLevel) -> None:
        """Sets how far results must repeat."""
        self.service.set_deterministic_level(self.principal, self.session, level)


async def _chunks(data: NDArray[Any]) -> AsyncIterator[bytes]:
    flat = data.reshape(-1).view(np.uint8)
    for start in range(0, flat.size, _CHUNK_BYTES):
        # In chunks, so that the copy of a large array does not block other calls.
        yield flat[start : start + _CHUNK_BYTES].tobytes()
