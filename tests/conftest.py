"""What every test may ask for: a running service, and seeds that a failure prints."""

import os
from collections.abc import Iterator

import pytest

from opserve_client.private_service import Addresses, private_service


def pytest_configure() -> None:
    """No test touches the store of whoever runs it, or finds golden values there."""
    os.environ["OPSERVE_STORE_URL"] = ""
    os.environ["OPSERVE_GOLDEN_FOLDER"] = f"{os.devnull}/goldens"


@pytest.fixture(scope="session")
def service() -> Iterator[Addresses]:
    """One real service for each test process, with a device of each profile."""
    with private_service() as addresses:
        yield addresses
