"""Iterations of the event loop for other work during a computation."""

import asyncio


class LoopIterations:
    """Counts iterations of the event loop, from now on."""

    def __init__(self) -> None:
        self.count = 0
        asyncio.get_running_loop().call_soon(self._iterate)

    def _iterate(self) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self._iterate)
