"""Turns: who is next of those who share a device, each by its weight in device time.

Virtual time is nanoseconds of a device for a weight of 1. Whoever has had the least for its weight
is next; whoever comes back begins where the others are, so that nobody saves up time while idle.
Only what somebody missed in a moment without a call, while its next one was on its way, is kept.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

MOMENT_NS = 5_000_000
"""Virtual time that one may be behind the others when it comes back: a slice of a call."""

Key = TypeVar("Key", bound=Hashable)


class Turns(Generic[Key]):
    """Start-time fair queueing with measured times: what somebody used is charged afterwards."""

    def __init__(self) -> None:
        self._now = 0.0
        self._passes: dict[Key, float] = {}
        self._left: dict[Key, float] = {}

    def __bool__(self) -> bool:
        return bool(self._passes)

    def __contains__(self, key: object) -> bool:
        return key in self._passes

    def __iter__(self) -> Iterator[Key]:
        return iter(self._passes)

    def join(self, key: Key) -> None:
        """Somebody wants turns: from now on, and not for the time before."""
        if key not in self._passes:
            left = self._left.pop(key, self._now)
            self._passes[key] = max(left, self._now - MOMENT_NS)

    def leave(self, key: Key) -> None:
        """Somebody wants none any more; what it had is remembered while others run."""
        self._left[key] = self._passes.pop(key)
        if not self._passes:
            self._now = max(self._now, *self._left.values())
            self._left.clear()

    def next(self, among: Iterable[Key]) -> Key:
        """Whose turn it is of some; the first that joined, of those who had as little."""
        key = min(among, key=self._passes.__getitem__)
        self._now = max(self._now, self._passes[key])
        return key

    def charge(self, key: Key, used_ns: float, *, weight: int) -> None:
        """Somebody used the device."""
        self._passes[key] += used_ns / weight
        self._now = max(self._now, min(self._passes.values()))

    def is_over(self, key: Key) -> bool:
        """Whether somebody's turn is over: somebody else has had less."""
        return min(self._passes.values()) < self._passes[key]
