"""grpc.health.v1: readiness of the service, and of each profile's pool of devices."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import cast

from grpc_health.v1.health_pb2 import (
    HealthCheckRequest,
    HealthCheckResponse,
    HealthListRequest,
    HealthListResponse,
)
from grpc_health.v1.health_pb2_grpc import (
    add_HealthServicer_to_server,  # pyright: ignore[reportUnknownVariableType]  # no types
)

from opserve_server.core.errors import HandleNotFound
from opserve_server.core.info import ready_profiles
from opserve_server.core.principal import ITSELF
from opserve_server.core.service import Service
from opserve_server.grpc_api.errors import Context
from opserve_server.grpc_api.methods import WrappingServer

_OVERALL = ""
_add_to = cast("Callable[[object, object], None]", add_HealthServicer_to_server)
_SERVING = HealthCheckResponse(status=HealthCheckResponse.SERVING)
_NOT_SERVING = HealthCheckResponse(status=HealthCheckResponse.NOT_SERVING)
_UNKNOWN = HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)


class Health:
    """State of grpc.health.v1: one entry for each profile, and "" for all of them together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._statuses = {_OVERALL: _NOT_SERVING}
        self._draining = False
        self._news = asyncio.Event()

    def add_to(self, server: WrappingServer) -> None:
        """Adds Check, List and Watch to a server."""
        _add_to(self, server)

    def update(self) -> None:
        """Updates the entries."""
        pools = ready_profiles(self._service.list_devices(ITSELF))
        self._set(
            {
                name: _SERVING if ready else _NOT_SERVING
                for name, ready in {_OVERALL: all(pools.values()), **pools}.items()
            }
        )

    async def keep_updated(self, *, interval_s: float) -> None:
        """Updates the entries until it is cancelled."""
        while True:
            self.update()
            await asyncio.sleep(interval_s)

    def drain(self) -> None:
        """Reports NOT_SERVING from now on, whatever the state of the devices."""
        self._set(dict.fromkeys(self._statuses, _NOT_SERVING))
        self._draining = True
        self._news.set()

    async def Check(self, request: HealthCheckRequest, _: Context) -> HealthCheckResponse:  # noqa: N802  # its name on the wire
        """Returns one entry."""
        if request.service not in self._statuses:
            raise HandleNotFound("service", request.service[:64], allowed="a profile, or no name")
        return self._statuses[request.service]

    async def List(self, _: HealthListRequest, __: Context) -> HealthListResponse:  # noqa: N802  # its name on the wire
        """Returns all entries."""
        return HealthListResponse(statuses=self._statuses)

    async def Watch(  # noqa: N802  # its name on the wire
        self, request: HealthCheckRequest, _: Context
    ) -> AsyncGenerator[HealthCheckResponse]:
        """Streams one entry until the service drains, also of an unknown name."""
        last_sent: HealthCheckResponse | None = None
        while True:
            news, draining = self._news, self._draining
            status = self._statuses.get(request.service, _UNKNOWN)
            if status != last_sent:
                last_sent = status
                yield status
            if draining:
                return  # the service ends after all calls
            await news.wait()

    def _set(self, statuses: dict[str, HealthCheckResponse]) -> None:
        if self._draining or statuses == self._statuses:
            return
        self._statuses = statuses
        self._news.set()
        self._news = asyncio.Event()
