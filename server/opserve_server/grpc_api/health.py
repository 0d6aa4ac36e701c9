"""grpc.health.v1: whether the service, and each profile's pool of devices, takes calls."""

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import (
    add_HealthServicer_to_server,  # pyright: ignore[reportUnknownVariableType]  # no types
)

from opserve_server.calls import ready_profiles
from opserve_server.core.principal import ITSELF
from opserve_server.core.service import Service


class Health:
    """What grpc.health.v1 says: one entry for each profile, and "" for all of them together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        # The stubs that pyright brings along do not know `aio`.
        self._servicer: Any = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    def add_to(self, server: grpc.aio.Server) -> None:
        """Lets a server answer Check and Watch."""
        add_HealthServicer_to_server(self._servicer, server)

    async def tell(self) -> None:
        """Brings the entries up to date."""
        pools = ready_profiles(self._service.list_devices(ITSELF))
        for name, ready in {health.OVERALL_HEALTH: all(pools.values()), **pools}.items():
            status = HealthCheckResponse.SERVING if ready else HealthCheckResponse.NOT_SERVING
            await self._servicer.set(name, status)

    async def keep_telling(self, *, interval_s: float) -> None:
        """Brings them up to date until it is cancelled."""
        while True:
            await self.tell()
            await asyncio.sleep(interval_s)

    async def drain(self) -> None:
        """Says NOT_SERVING from now on, whatever the devices do."""
        await self._servicer.enter_graceful_shutdown()
