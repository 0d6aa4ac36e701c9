"""Time slices: long loops that yield to other calls."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import TypeVar

ITEMS_PER_SLICE = 64
"""Items between two yields: small commands of a batch take some 5 microseconds each."""
ItemT = TypeVar("ItemT")
_admission_of_caller: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar(
    "_turn_of_caller", default=None
)


def admit_slices_by(admission: Callable[[], Awaitable[None]]) -> None:
    """Makes the current call wait for `admission` after each slice."""
    _admission_of_caller.set(admission)


async def end_slice() -> None:
    """Ends a slice: other calls run, and one slice of each tenant runs per loop iteration.

    So many large calls of one tenant take no more of an iteration of the event loop than one call
    does.
    """
    # One iteration of the loop for calls that wait for nothing else; then the fair admission of the
    # caller's tenant.
    await asyncio.sleep(0)
    admission = _admission_of_caller.get()
    if admission is not None:
        await admission()


async def in_slices(items: Iterable[ItemT]) -> AsyncGenerator[ItemT]:
    """Items one by one; yields to other calls after each ITEMS_PER_SLICE of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_PER_SLICE == 0:
            await end_slice()
