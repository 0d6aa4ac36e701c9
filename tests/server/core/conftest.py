"""Tests of the core run in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from server.core.caller import Caller
from simulation.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual time": VirtualTimeLoop}


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    caller = Caller()
    await caller.open()
    yield caller
    caller.device.auto = True
    for held in list(caller.device.held):
        caller.device.end(held)
    await caller.service.stop()
    assert caller.device.slabs.free_bytes == caller.device.memory_bytes, "memory is lost"
    caller.device.slabs.close()
    assert not unhandled
