"""What every test may ask for: a running service, and seeds that a failure prints."""

from collections.abc import Iterator

import pytest

from opserve_client.private_service import Addresses, private_service


@pytest.fixture(scope="session")
def service() -> Iterator[Addresses]:
    """One real service for each test process, with a device of each profile."""
    with private_service() as addresses:
        yield addresses
