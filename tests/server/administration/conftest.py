"""A farm on either database, and its administrator over either API."""

from collections.abc import AsyncIterator

import pytest

from opserve_client import AsyncClient
from server.farm import APIS, Farm, open_farm


@pytest.fixture
async def farm(url: str) -> AsyncIterator[Farm]:
    async with open_farm(url) as opened:
        yield opened


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def client(api: str, farm: Farm) -> AsyncIterator[AsyncClient]:
    async with farm.client(api) as connected:
        yield connected
