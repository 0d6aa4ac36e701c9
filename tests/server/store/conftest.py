"""Stores on both databases: a file of SQLite, and a PostgreSQL server that runs."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from opserve_server.store.store import Store, open_store
from server.store.postgresql import Postgresql, postgresql

TIMEOUT_S = 20.0


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Postgresql]:
    """One server for each test process."""
    with postgresql() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'opserve.db'}"
    server: Postgresql = request.getfixturevalue("postgresql_server")
    return await server.new_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with open_store(url, timeout_s=TIMEOUT_S, connections_limit=4) as store:
        yield store
