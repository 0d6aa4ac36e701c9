"""Long loops in slices, between which other calls have their turn."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import TypeVar

from opserve_server.core.batches import COMMANDS_A_TURN

ItemT = TypeVar("ItemT")


async def in_turns(items: Iterable[ItemT]) -> AsyncGenerator[ItemT]:
    """Items one by one; others have their turn after each 64 of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % COMMANDS_A_TURN == 0:
            await asyncio.sleep(0)
