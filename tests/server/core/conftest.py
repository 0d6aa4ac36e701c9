"""Tests of the core run in virtual time."""

import asyncio
from collections.abc import Callable, Mapping

from simulation.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual time": VirtualTimeLoop}
