"""What asyncio and threads do differently, for asyncio; runtime_blocking is its counterpart."""

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
sleep = asyncio.sleep


async def in_thread(
    work: Callable[ParametersT, ResultT], *args: ParametersT.args, **options: ParametersT.kwargs
) -> ResultT:
    """Does work that would hold up the loop; if cancelled, it is over before this is."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **options))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class Opening(Generic[OpenedT]):
    """Something being opened: `await` it, or enter it with `async with`, which also closes it."""

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


def opening(opened: Coroutine[Any, Any, OpenedT]) -> Opening[OpenedT]:
    """Lets a caller choose between `await` and `async with`."""
    return Opening(opened)


class Heartbeat:
    """Calls `beat` at an interval, until it returns False or the heartbeat is stopped."""

    def __init__(self, beat: Callable[[], Awaitable[bool]], *, interval_s: float) -> None:
        self._task = asyncio.create_task(_beat(beat, interval_s))

    async def stop(self) -> None:
        """Ends it and waits for a beat that is under way."""
        self._task.cancel()
        await asyncio.wait([self._task])


async def _beat(beat: Callable[[], Awaitable[bool]], interval_s: float) -> None:
    goes_on = True
    while goes_on:
        await asyncio.sleep(interval_s)
        goes_on = await beat()
