"""Stores on both databases."""

from collections.abc import AsyncIterator

import pytest

from opserve_server.store.store import Store, open_store

TIMEOUT_S = 20.0


@pytest.fixture
async def store(migrated: str) -> AsyncIterator[Store]:
    async with open_store(migrated, timeout_s=TIMEOUT_S, connections_limit=4) as store:
        yield store
