"""A REST API over a recording core, called in process."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx2
import pytest

from opserve_server.administration import Administration
from opserve_server.core.accounts import Accounts
from opserve_server.guard import Guard
from opserve_server.inference.infer import Inference
from opserve_server.rest_api.app import RestApi, rest_app
from opserve_server.rest_api.one_shot import RunLimits
from opserve_server.telemetry.metrics import Metrics
from server.conformance_service import idle_conformance
from server.guards import keyless_guard
from server.recording import RecordingService

BODY_LIMIT = 8192
RUN_LIMIT = 64 * 1024


@dataclass
class Api:
    """An application and its service."""

    service: RecordingService = field(default_factory=RecordingService)
    accepts: bool = True
    metrics: Metrics = field(default_factory=Metrics)
    accounts: Accounts = field(default_factory=Accounts)
    guard: Guard = field(init=False)

    def __post_init__(self) -> None:
        self.guard = keyless_guard(self.accounts)

    def app(self) -> RestApi:
        return rest_app(
            self.service,
            self.guard,
            Administration(self.service, None),
            idle_conformance(self.service),
            inference=Inference(self.service, output_bytes_limit=RUN_LIMIT),
            accepts=lambda: self.accepts,
            metrics_page=self.metrics.page,
            body_bytes_limit=BODY_LIMIT,
            run_limits=RunLimits(
                args_bytes=BODY_LIMIT,
                run_bytes=RUN_LIMIT,
                arrays=3,
                concurrent_runs=1,
                waiting_runs=4,
            ),
        )


@pytest.fixture(scope="session")
def built() -> tuple[Api, RestApi]:
    """Built once: making the schemas of every route takes a third of a second."""
    api = Api()
    return api, api.app()


@pytest.fixture
def api(built: tuple[Api, RestApi]) -> Api:
    api, _ = built
    api.accepts = True
    api.service.forget()
    return api


@pytest.fixture
def service(api: Api) -> RecordingService:
    return api.service


@pytest.fixture
async def client(built: tuple[Api, RestApi], api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    built_api, app = built
    assert built_api is api
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as connected:
        yield connected
