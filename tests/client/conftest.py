"""A fake service, and clients of it."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from client.fake_service import FakeService
from opserve_client import Client, Session
from opserve_client.transports import MemoryTransport

settings.register_profile("pinned", derandomize=True, deadline=None)
if "HYPOTHESIS_PROFILE" not in os.environ:
    settings.load_profile("pinned")


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
