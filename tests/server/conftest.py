"""Databases for stores: an SQLite file, and one on a running PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.store.migrated import migrated_file
from server.store.postgresql import Postgresql, postgresql


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
    return await server.empty_database()


@pytest.fixture
async def migrated(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same database with the tables of the newest revision."""
    if url.startswith("sqlite:"):
        return migrated_file(tmp_path)
    server: Postgresql = request.getfixturevalue("postgresql_server")
    await server.create_tables()
    return url
