"""A deployment on either database, and its administrator over either API."""

from collections.abc import AsyncIterator

import pytest

from opserve_client import AsyncClient
from server.deployment import Deployment, open_deployment


@pytest.fixture
async def deployment(migrated: str) -> AsyncIterator[Deployment]:
    async with open_deployment(migrated) as opened:
        yield opened


@pytest.fixture(params=["grpc", "rest"])  # Connect has the handlers of the gRPC API
def api(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def client(api: str, deployment: Deployment) -> AsyncIterator[AsyncClient]:
    async with deployment.client(api) as connected:
        yield connected
