"""A farm on either database, and its administrator over either face."""

from collections.abc import AsyncIterator

import pytest

from opserve_client import AsyncClient
from server.farm import FACES, Farm, open_farm


@pytest.fixture
async def farm(url: str) -> AsyncIterator[Farm]:
    async with open_farm(url) as opened:
        yield opened


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def client(face: str, farm: Farm) -> AsyncIterator[AsyncClient]:
    async with farm.client(face) as connected:
        yield connected
