"""Databases for stores, SQLite files and on a running PostgreSQL server; a core with its APIs."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from opserve_server.core.service import Service
from opserve_server.telemetry.metrics import Metrics
from server.core.fakes import ONE_EVENT, FakeDevice, make_service
from server.entry_points import EntryPoints, open_entry_points
from server.farm_members import TwoMembers, two_members
from server.guards import ServiceWithKeys, service_with_keys
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


@pytest.fixture
async def farm(migrated: str) -> AsyncIterator[TwoMembers]:
    """Two services of a farm."""
    async with two_members(migrated) as members:
        yield members


@pytest.fixture
async def core() -> AsyncIterator[Service]:
    device = FakeDevice()
    made = make_service(device, ONE_EVENT)
    yield made
    await made.stop()
    device.slabs.close()


@pytest.fixture
async def shared(core: Service) -> AsyncIterator[tuple[EntryPoints, ServiceWithKeys]]:
    """A real core that two tenants share."""
    with_keys = service_with_keys(accounts=core.accounts)
    async with open_entry_points(core, with_keys.guard, Metrics()) as opened:
        yield opened, with_keys
