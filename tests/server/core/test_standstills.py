"""A blocked loop reads no calls: that time counts as no client's silence."""

import asyncio

import pytest

from opserve_server.core.errors import HandleNotFound
from opserve_server.core.principal import LOCAL
from opserve_server.core.session import BEAT_S
from server.core import every_command as c
from server.core.caller import Caller
from server.core.fakes import LIMITS
from server.core.waiting_clients import LAB, WAITS, WaitingClients
from simulation.virtual_time import VirtualTimeLoop

LEASE_S, RETURN_S = LIMITS.lease_default_s, LIMITS.waiting_return_s
STANDSTILL_S = 10 * LEASE_S
AT_ONCE_S = 0.001


def stand_still(seconds: float = STANDSTILL_S) -> None:
    """Time passes and the loop runs nothing, as in a callback that does not end."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.advance(seconds)


@pytest.mark.parametrize("after_s", [0.0, 0.1, 1.0, LEASE_S - 0.3, LEASE_S - 0.01])
async def test_no_lease_expires_while_the_loop_is_blocked(caller: Caller, after_s: float) -> None:
    caller.service.keep_alive(LOCAL, caller.name)
    await asyncio.sleep(after_s)
    stand_still()
    await asyncio.sleep(AT_ONCE_S)
    await caller.run(c.QueryStream())


async def test_the_lease_continues_after_a_standstill(caller: Caller) -> None:
    caller.service.keep_alive(LOCAL, caller.name)
    for _ in range(5):
        await asyncio.sleep(LEASE_S / 10)
        stand_still()
    await asyncio.sleep(LEASE_S / 2 - 1)
    await caller.run(c.QueryStream())
    stand_still()
    await asyncio.sleep(LEASE_S + BEAT_S + 1)
    assert isinstance(await caller.refused(c.QueryStream()), HandleNotFound)


async def test_a_loop_that_is_only_busy_makes_no_lease_longer(caller: Caller) -> None:
    caller.service.keep_alive(LOCAL, caller.name)
    for _ in range(round((LEASE_S + 1) / BEAT_S)):
        await asyncio.sleep(BEAT_S - 0.04)
        stand_still(0.04)
    assert isinstance(await caller.refused(c.QueryStream()), HandleNotFound)


async def test_a_place_in_the_queue_is_kept_while_the_loop_is_blocked() -> None:
    clients = WaitingClients()
    await clients.service.open_session(LAB, WAITS)
    await clients.requests_notified("first")
    await asyncio.sleep(RETURN_S - 1)
    stand_still(4 * RETURN_S)
    await asyncio.sleep(AT_ONCE_S)
    assert clients.positions() == [1]
    await asyncio.sleep(1 + BEAT_S)
    assert clients.positions() == []
    await clients.end()
