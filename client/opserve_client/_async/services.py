"""Connections to the services of a farm: that of the client's address, and those that it names."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import SystemRandom
from typing import TypeVar

from opserve.v1.session_service_pb2 import (
    GetSessionResponse,
    OpenSessionRequest,
    OpenSessionResponse,
)
from opserve_client._async.connection import AsyncConnection
from opserve_client.errors import Moved, ServiceUnreachable
from opserve_client.wire.methods import Method, RequestT

OpenedT = TypeVar("OpenedT", OpenSessionResponse, GetSessionResponse)
HOPS = 4
"""Services that one call is sent on to at most."""


@dataclass(frozen=True, slots=True)
class AsyncServices:
    """The services that a client has met, each with one connection.

    Args:
        home: Connection to the client's own address.
        is_http: Whether the client speaks Connect; otherwise gRPC.
        address: The client's own address.
        connect: Connects to another service with the same credentials, and refuses an address that
            is less secure; None where the client has a transport in place of an address.
    """

    home: AsyncConnection
    is_http: bool = False
    address: str = ""
    connect: Callable[[str], AsyncConnection] | None = None
    _connections: dict[str, AsyncConnection] = field(default_factory=dict[str, AsyncConnection])
    _others: list[str] = field(default_factory=list[str])

    async def call(
        self, method: Method[RequestT, OpenedT], request: RequestT, *, at: AsyncConnection
    ) -> tuple[AsyncConnection, OpenedT]:
        """Makes a call at a service, and then where the services send it on to.

        Returns:
            The connection to the service of the session, and the response.

        Raises:
            Moved: 207005, the services sent it on too often.
        """
        for hop in range(HOPS + 1):
            if hop == HOPS and isinstance(request, OpenSessionRequest):
                request.here = True  # room changes while the call is on its way: no more hops
            try:
                opened = await at.call(method, request)
            except Moved as moved:
                other = self._connection(moved.http if self.is_http else moved.grpc)
                if other is None or hop == HOPS:
                    raise
                at = other
            else:
                return self._noted(opened) or at, opened
        raise AssertionError("the last hop returns or raises")

    async def anywhere(
        self, method: Method[RequestT, OpenedT], request: RequestT, *, at: AsyncConnection
    ) -> tuple[AsyncConnection, OpenedT]:
        """Makes a call at a service, and at others of the farm while it is unreachable.

        Raises:
            ServiceUnreachable: 507901, none of them can be reached.
        """
        try:
            return await self.call(method, request, at=at)
        except ServiceUnreachable:
            # In another order for each client, so that not all go to the same one.
            others = SystemRandom().sample(self._others, min(len(self._others), HOPS))
            for address in others:
                connection = self._connection(address)
                if connection is not None and connection is not at:
                    with suppress(ServiceUnreachable):
                        return await self.call(method, request, at=connection)
            raise

    @property
    def has_others(self) -> bool:
        """Whether a service beside that of the client's address is known."""
        return bool(self._others) and self.connect is not None

    async def close(self) -> None:
        """Closes all connections."""
        for connection in (self.home, *self._connections.values()):
            await connection.close()

    def _noted(self, opened: OpenedT) -> AsyncConnection | None:
        """Notes the services of the farm; returns the connection to that of the session."""
        addresses = [one.http if self.is_http else one.grpc for one in opened.services]
        self._others[:] = [address for address in addresses if address != self.address]
        return self._connection(addresses[0]) if addresses else None

    def _connection(self, address: str) -> AsyncConnection | None:
        """The connection to a service; None where the client cannot connect to others."""
        if address == self.address:
            return self.home
        if self.connect is not None and address not in self._connections:
            self._connections[address] = self.connect(address)
        return self._connections.get(address)
