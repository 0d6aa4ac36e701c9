"""A client that watches a stream of the simulation, over a connection that breaks."""

import asyncio
from contextlib import aclosing
from random import Random

from opserve_server.core.errors import HandleNotFound
from opserve_server.core.history import HistoryEntry, LostEntries, News, NoNews
from opserve_server.core.principal import Principal
from opserve_server.core.service import Service

BREAKS = 0.1
PAUSE_S = 0.3


class Watcher:
    """Follows a stream until it is no more.

    Args:
        service: The service that it watches.
        principal: Who it is.
        session: Name of the session.
        stream: Handle of the stream.
        random: Decides when its connection breaks, and how slowly it reads.

    Attributes:
        reported: News that it received, in order.
        whole: Whether it received the end of the stream.
    """

    def __init__(
        self,
        service: Service,
        principal: Principal,
        session: str,
        stream: int,
        *,
        random: Random,
    ) -> None:
        self.reported: list[HistoryEntry | LostEntries] = []
        self.whole = False
        self._random = random
        self._task = asyncio.create_task(self._follow(service, principal, session, stream))

    def stop(self) -> None:
        """Asks no more."""
        self._task.cancel()

    async def _follow(
        self, service: Service, principal: Principal, session: str, stream: int
    ) -> None:
        while True:
            try:
                watching = service.watch_stream(principal, session, stream, after=self._last)
            except HandleNotFound:
                return
            async with aclosing(watching):
                async for news in watching:
                    if not await self._comes_through(news):
                        break
                else:
                    self.whole = True

    async def _comes_through(self, news: News) -> bool:
        self.whole = False
        if self._random.random() < BREAKS:
            return False
        if not isinstance(news, NoNews):
            self.reported.append(news)
        await asyncio.sleep(self._random.uniform(0, PAUSE_S))
        return True

    @property
    def _last(self) -> int:
        return _ends(self.reported[-1])[1] if self.reported else 0


def check_reported(reported: list[HistoryEntry | LostEntries]) -> None:
    """Each entry is reported once and in order, or as lost."""
    last = 0
    for news in reported:
        first, end = _ends(news)
        assert first == last + 1, f"after entry {last} came {news}"
        last = end


def _ends(news: HistoryEntry | LostEntries) -> tuple[int, int]:
    match news:
        case HistoryEntry(sequence=sequence):
            return sequence, sequence
        case LostEntries(first=first, last=last):
            return first, last
