"""A fake service, and clients of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from client.fake_service import FakeService
from client.farm import Farm
from opserve_client import Client, Session, cli_apply, cli_keys
from opserve_client.transports import MemoryTransport


@pytest.fixture
def fake() -> FakeService:
    return FakeService()


@pytest.fixture
def pauses() -> list[float]:
    """The pauses that the client made between attempts."""
    return []


@pytest.fixture
def client(fake: FakeService, pauses: list[float]) -> Iterator[Client]:
    with Client(transport=MemoryTransport(fake), sleep=pauses.append) as client:
        yield client


@pytest.fixture
def session(client: Client) -> Iterator[Session]:
    with client.open_session() as session:
        yield session


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Farm:
    there = Farm()

    def connected(*_: object) -> Farm:
        return there

    for module in (cli_apply, cli_keys):
        monkeypatch.setattr(module, "connected", connected)
    monkeypatch.chdir(tmp_path)
    return there
