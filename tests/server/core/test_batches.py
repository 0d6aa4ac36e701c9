"""Batches of commands: others have their turn between them, and each waits for its own calls."""

import asyncio

from opserve_server.core.principal import LOCAL
from opserve_server.core.results import Done, Failed
from opserve_server.core.time_slices import ITEMS_PER_SLICE
from opserve_server.pool.device import KernelFailed
from server.core import every_command as c
from server.core.caller import Caller, on


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


async def test_two_batches_report_the_failures_of_their_own_calls(caller: Caller) -> None:
    """A stream reports the first failure only, to one wait: the other batch has no result."""
    calls = [await caller.repeatable() for _ in range(2)]
    pause = c.Allocate(size_bytes=8)  # the other batch begins meanwhile
    batches = [
        asyncio.create_task(
            caller.service.submit(LOCAL, caller.name, [call, pause, c.SynchronizeStream()])
        )
        for call in calls
    ]
    await asyncio.sleep(1)
    for held in list(caller.device.held):
        caller.device.finish(held, KernelFailed())
    for batch in batches:
        *_, waited = await batch
        assert isinstance(waited, Failed)
    await caller.run(c.SynchronizeStream())


async def test_a_wait_of_a_batch_succeeds_with_its_own_calls(caller: Caller) -> None:
    call = await caller.repeatable()
    caller.device.auto = True
    batch: list[c.Command] = [call, on(call, 0), c.SynchronizeStream()]
    assert await caller.service.submit(LOCAL, caller.name, batch) == [Done()] * 3


async def test_a_wait_of_a_batch_reports_no_failure_of_another_stream(caller: Caller) -> None:
    call = await caller.repeatable()
    (other,) = await caller.streams(1)
    batch: list[c.Command] = [on(call, other), call, c.SynchronizeStream()]
    running = asyncio.create_task(caller.service.submit(LOCAL, caller.name, batch))
    await asyncio.sleep(1)
    assert await caller.finish(KernelFailed()) == other
    await caller.finish()
    assert await running == [Done()] * 3
    await caller.refused(c.SynchronizeStream(stream=other))
