"""Before and behind every call: of each tenant one passes in each turn of the event loop.

Many calls of one tenant that come at once, or whose waits end at once, then stand beside a call of
another and not before it. A tenant that is alone waits for nothing.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

_Waiting = tuple[object, asyncio.Future[None]]


@dataclass(slots=True)
class _Line:
    """Of a tenant, from when a call passed until a turn of the loop in which none did.

    Attributes:
        passed: The call that did, while it may once more: a short one is answered in its turn.
        waiting: The others, with what tells each that it is their turn.
    """

    passed: object | None
    waiting: deque[_Waiting] = field(default_factory=deque[_Waiting])


class Turnstile:
    """Lets calls pass in the order they come. There are no more in line than calls at work."""

    def __init__(self) -> None:
        self._lines: dict[str | None, _Line] = {}

    async def passed(self, tenant: str | None, call: object) -> None:
        """Waits for one's turn.

        Args:
            tenant: In whose line; None for all of whom nobody knows who they are.
            call: Who passes.
        """
        loop = asyncio.get_running_loop()
        line = self._lines.get(tenant)
        if line is None:
            self._lines[tenant] = _Line(call)
            loop.call_soon(self._let_next_pass, tenant)
        elif line.passed is call:
            line.passed = None
        else:
            turn = loop.create_future()
            line.waiting.append((call, turn))
            await turn

    def _let_next_pass(self, tenant: str | None) -> None:
        line = self._lines[tenant]
        while line.waiting:
            call, turn = line.waiting.popleft()
            if not turn.done():  # its call was cancelled
                line.passed = call
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._let_next_pass, tenant)
                return
        del self._lines[tenant]
