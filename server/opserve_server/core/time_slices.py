"""Long loops in slices, between which other calls have their turn."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import TypeVar

ITEMS_PER_SLICE = 64
"""Items between two turns of others: small commands of a batch take some 5 microseconds each."""
ItemT = TypeVar("ItemT")
_admission_of_caller: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar(
    "_turn_of_caller", default=None
)


def admit_slices_by(admission: Callable[[], Awaitable[None]]) -> None:
    """From here on, work of the call that runs goes on after a slice when `admission` returns."""
    _admission_of_caller.set(admission)


async def end_slice() -> None:
    """Ends a slice: others have their turn, and of one tenant's slices one runs in each turn.

    Many large calls of one tenant thereby take no more of a turn of the event loop than one.
    """
    await asyncio.sleep(0)
    admission = _admission_of_caller.get()
    if admission is not None:
        await admission()


async def in_slices(items: Iterable[ItemT]) -> AsyncGenerator[ItemT]:
    """Items one by one; others have their turn after each ITEMS_A_TURN of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_PER_SLICE == 0:
            await end_slice()
