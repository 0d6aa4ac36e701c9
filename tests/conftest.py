"""Fixtures of every test: a running service, reproducible examples, and named skips."""

import gc
import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.constants_ast import Constants

from absent import pytest_collection_modifyitems
from opserve_client.private_service import Addresses, private_service
from skips import pytest_runtest_makereport, pytest_terminal_summary

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_runtest_makereport",
    "pytest_terminal_summary",
]

# The same examples on every machine, however slow; `--hypothesis-profile=search` draws new ones.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")
# Otherwise Hypothesis also draws constants of all loaded modules: other examples by other tests.
pytest.MonkeyPatch().setattr(
    "hypothesis.internal.conjecture.providers._get_local_constants", Constants
)


def pytest_configure() -> None:
    """No test touches the user's store, or finds expected values there."""
    os.environ["OPSERVE_STORE_URL"] = ""
    os.environ["OPSERVE_EXPECTED_VALUES_FOLDER"] = f"{os.devnull}/expected values"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imports and collects without garbage collections, which would find the same objects in use.

    They took a quarter of the time. Nor do those of the tests look at what was collected.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def service() -> Iterator[Addresses]:
    """One real service for each test process, with a device of each profile."""
    with private_service() as addresses:
        yield addresses
