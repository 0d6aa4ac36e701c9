"""Before and behind every call: of each tenant one passes in each turn of the event loop.

Many calls of one tenant that come at once, or whose waits end at once, then stand beside a call of
another and not before it. A tenant that is alone waits for nothing.
"""

import asyncio
from collections import deque

Line = deque[asyncio.Future[None]]


class Turnstile:
    """Lets calls pass in the order they come. There are no more in line than calls at work."""

    def __init__(self) -> None:
        self._lines: dict[str | None, Line] = {}

    async def passed(self, tenant: str | None) -> None:
        """Waits for one's turn.

        Args:
            tenant: In whose line; None for all of whom nobody knows who they are.
        """
        loop = asyncio.get_running_loop()
        line = self._lines.get(tenant)
        if line is None:
            self._lines[tenant] = deque()
            loop.call_soon(self._let_next_pass, tenant)
            return
        turn = loop.create_future()
        line.append(turn)
        await turn

    def _let_next_pass(self, tenant: str | None) -> None:
        line = self._lines[tenant]
        while line:
            turn = line.popleft()
            if not turn.done():  # its call was cancelled
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._let_next_pass, tenant)
                return
        del self._lines[tenant]
