"""Time in which the event loop did not run, and which counts against no client's silence.

A loop that does not run reads nobody's calls: whoever seems silent may have called. While anything
is counted, the loop has a beat. One that comes late shows that the loop stood still some time since
the beat before it, and then none of the time between the two counts.
"""

import asyncio
from collections.abc import Callable

BEAT_S = 0.25
LATE_S = 0.05
"""Lateness of a beat that a busy loop may have, seconds."""


class Standstills:
    """Measures how long the event loop stood still.

    Args:
        needed: Whether the time is still of use; there are no beats without.
    """

    def __init__(self, needed: Callable[[], bool]) -> None:
        self._needed = needed
        self._total_s = 0.0
        self._began_s = 0.0  # the beat's
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None

    def total_s(self) -> float:
        """Seconds that do not count, including those of a standstill that has just ended."""
        if self._timer is None:
            self._begin()
        elif self._is_late():
            self._end_standstill()
        return self._total_s

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _is_late(self) -> bool:
        return self._loop.time() > self._began_s + BEAT_S + LATE_S

    def _beat(self) -> None:
        if self._is_late():
            self._end_standstill()
        elif self._needed():
            self._begin()
        else:
            self._timer = None

    def _end_standstill(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._total_s += self._loop.time() - self._began_s
        self._begin()


class Silence:
    """A client's silence, which ends at a limit.

    Args:
        standstills: Of the loop that reads the client's calls.
        limit_s: Longest silence, seconds.
    """

    __slots__ = ("_began_s", "_limit_s", "_standstills", "_uncounted_s")

    def __init__(self, standstills: Standstills, limit_s: float) -> None:
        self._standstills = standstills
        self._limit_s = limit_s
        self.begin()

    def begin(self) -> None:
        """The client called: its silence begins anew."""
        self._uncounted_s = self._standstills.total_s()
        self._began_s = asyncio.get_running_loop().time()

    @property
    def ends_at(self) -> float:
        """When it is too long, seconds of the event loop's clock; later after a standstill."""
        return self._began_s + self._limit_s + (self._standstills.total_s() - self._uncounted_s)
