"""An event loop whose clock jumps to the next timer instead of waiting for it."""

import asyncio
import selectors
from typing import Any

from typing_extensions import override


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Runs callbacks in order; time passes only when nothing else is left to do."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self))

    @override
    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._now += seconds


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[Any] = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("deadlock: nothing is ready and no timer is set")
            self._loop.advance(timeout)
        return ready
