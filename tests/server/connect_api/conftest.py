"""A Connect API over a recording core, called in process."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2
import pytest

from opserve_server.administration import Administration
from opserve_server.connect_api.rpcs import connect_rpcs
from opserve_server.core.accounts import Accounts
from opserve_server.core.observations import Call, CallEnded, Observation
from opserve_server.guard import Guard
from opserve_server.inference.infer import Inference
from opserve_server.rest_api.app import RestApi, rest_app
from opserve_server.rest_api.one_shot import RunLimits
from opserve_server.telemetry.metrics import Metrics
from server.conformance_service import idle_conformance
from server.guards import ServiceWithKeys, keyless_guard, service_with_keys
from server.recording import RecordingService

MESSAGE_LIMIT = 64 * 1024


def app_of(service: RecordingService, guard: Guard) -> RestApi:
    """The application of the HTTP port, both of its APIs."""
    administration, conformance = Administration(service, None), idle_conformance(service)
    return rest_app(
        service,
        guard,
        administration,
        conformance,
        inference=Inference(service, output_bytes_limit=1024),
        accepts=lambda: True,
        metrics_page=Metrics().page,
        body_bytes_limit=8192,
        run_limits=RunLimits(
            args_bytes=1024, run_bytes=1024, arrays=3, concurrent_runs=1, waiting_runs=4
        ),
        rpcs=connect_rpcs(
            service,
            administration,
            conformance,
            message_bytes_limit=MESSAGE_LIMIT,
            chunk_bytes_limit=16 * 1024,
        ),
    )


@dataclass(frozen=True)
class Built:
    """An application, its service, and the calls that have ended."""

    service: RecordingService
    app: RestApi
    ended: list[Call]


@pytest.fixture(scope="session")
def built() -> Built:
    """Built once: making the schemas of every route takes a third of a second."""
    ended: list[Call] = []

    def observe(observation: Observation) -> None:
        if isinstance(observation, CallEnded):
            ended.append(observation.call)

    service = RecordingService(observe=observe)
    return Built(service, app_of(service, keyless_guard(Accounts())), ended)


@pytest.fixture
def service(built: Built) -> RecordingService:
    built.service.forget()
    built.ended.clear()
    return built.service


@pytest.fixture
async def client(built: Built, service: RecordingService) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service without keys."""
    del service
    transport = httpx2.ASGITransport(app=built.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as connected:
        yield connected


@pytest.fixture
def with_keys() -> ServiceWithKeys:
    return service_with_keys()


@pytest.fixture
def app_with_keys(service: RecordingService, with_keys: ServiceWithKeys) -> RestApi:
    return app_of(service, with_keys.guard)
