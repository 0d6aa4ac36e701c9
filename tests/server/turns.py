"""Turns of the event loop that others have while something is computed."""

import asyncio


class FairQueue:
    """Counts turns of the event loop, from now on."""

    def __init__(self) -> None:
        self.count = 0
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self._turn)
