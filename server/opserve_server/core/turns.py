"""Long loops in slices, between which other calls have their turn."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import TypeVar

ITEMS_A_TURN = 64
"""Items between two turns of others: small commands of a batch take some 5 microseconds each."""
ItemT = TypeVar("ItemT")
_turn_of_caller: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar(
    "_turn_of_caller", default=None
)


def slice_by(turn: Callable[[], Awaitable[None]]) -> None:
    """From here on, work of the call that runs goes on after a slice when `turn` returns."""
    _turn_of_caller.set(turn)


async def give_way() -> None:
    """Ends a slice: others have their turn, and of one tenant's slices one runs in each turn.

    Many large calls of one tenant thereby take no more of a turn of the event loop than one.
    """
    await asyncio.sleep(0)
    turn = _turn_of_caller.get()
    if turn is not None:
        await turn()


async def in_turns(items: Iterable[ItemT]) -> AsyncGenerator[ItemT]:
    """Items one by one; others have their turn after each ITEMS_A_TURN of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_A_TURN == 0:
            await give_way()
