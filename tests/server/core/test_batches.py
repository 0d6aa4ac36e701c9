"""Batches of commands: others have their turn between the commands of a long one."""

import asyncio

from opserve_server.core.principal import LOCAL
from opserve_server.core.time_slices import ITEMS_PER_SLICE
from server.core import every_command as c
from server.core.caller import Caller


async def turns_within(caller: Caller, batch: list[c.Command]) -> int:
    """Iterations of the event loop while a batch ran."""
    running = asyncio.create_task(caller.service.submit(LOCAL, caller.name, batch))
    turns = 0
    while not running.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_small_commands_share_a_turn_and_a_long_batch_yields(caller: Caller) -> None:
    fill = c.Fill(buffer=await caller.buffer(), size_bytes=64, value=1)
    few = await turns_within(caller, [fill] * (ITEMS_PER_SLICE - 1))
    many = await turns_within(caller, [fill] * (3 * ITEMS_PER_SLICE))
    assert few <= 2
    assert many >= few + 3


async def test_commands_that_may_take_long_yield_one_by_one(caller: Caller) -> None:
    batch: list[c.Command] = [c.Allocate(size_bytes=8)] * 4
    assert await turns_within(caller, batch) >= 4
