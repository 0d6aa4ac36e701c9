"""The parts of the client that differ between threads and asyncio, for asyncio.

runtime_blocking is the counterpart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

OpenedT = TypeVar("OpenedT", bound=AbstractAsyncContextManager[Any])
ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")
Lock = asyncio.Lock
Sleep = Callable[[float], Awaitable[None]]
Attempt = Callable[[float], Awaitable[ResultT]]
"""One attempt of a call; the argument is its time limit in seconds."""
sleep = asyncio.sleep


async def in_thread(
    work: Callable[ParametersT, ResultT], *args: ParametersT.args, **options: ParametersT.kwargs
) -> ResultT:
    """Runs blocking work in a thread; after a cancellation, waits for the end of the work.

    The work writes to memory of the caller, which must stay until the thread has ended.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **options))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class AwaitableContext(Generic[OpenedT]):
    """An object that is being opened: `await` it, or use it in `async with`, which closes it."""

    def __init__(self, opened: Coroutine[Any, Any, OpenedT]) -> None:
        self._coroutine = opened

    def __await__(self) -> Generator[Any, Any, OpenedT]:
        return self._coroutine.__await__()

    async def __aenter__(self) -> OpenedT:
        self._opened = await self._coroutine
        await self._opened.__aenter__()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(kind, error, traceback)


def awaitable_context(opened: Coroutine[Any, Any, OpenedT]) -> AwaitableContext[OpenedT]:
    """Returns an object for `await` and `async with`."""
    return AwaitableContext(opened)


class Heartbeat:
    """Calls `beat` at an interval, until it returns False or the heartbeat is stopped."""

    def __init__(self, beat: Callable[[], Awaitable[bool]], *, interval_s: float) -> None:
        self._task = asyncio.create_task(_beat(beat, interval_s))

    async def stop(self) -> None:
        """Stops the heartbeat and waits for a running beat."""
        self._task.cancel()
        await asyncio.wait([self._task])


async def _beat(beat: Callable[[], Awaitable[bool]], interval_s: float) -> None:
    goes_on = True
    while goes_on:
        await asyncio.sleep(interval_s)
        goes_on = await beat()
