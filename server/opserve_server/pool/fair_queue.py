"""Turns: who is next of those who share a device, each by its weight in device time.

Virtual time is nanoseconds of a device for a weight of 1. Whoever has had the least for its weight
is next; whoever comes back begins where the others are, so that nobody saves up time while idle.
Only what somebody missed in a moment without a call, while its next one was on its way, is kept.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

CREDIT_LIMIT_NS = 5_000_000
"""Virtual time that one may be behind the others when it comes back: a slice of a call."""

Key = TypeVar("Key", bound=Hashable)


class FairQueue(Generic[Key]):
    """Start-time fair queueing with measured times: what somebody used is charged afterwards."""

    def __init__(self) -> None:
        self._now_ns = 0.0
        self._virtual_ns: dict[Key, float] = {}
        self._departed: dict[Key, float] = {}

    def __bool__(self) -> bool:
        return bool(self._virtual_ns)

    def __contains__(self, key: object) -> bool:
        return key in self._virtual_ns

    def __iter__(self) -> Iterator[Key]:
        return iter(self._virtual_ns)

    def join(self, key: Key) -> None:
        """Somebody wants turns: from now on, and not for the time before."""
        if key not in self._virtual_ns:
            virtual_ns = self._departed.pop(key, self._now_ns)
            self._virtual_ns[key] = max(virtual_ns, self._now_ns - CREDIT_LIMIT_NS)

    def leave(self, key: Key) -> None:
        """Somebody wants none any more; what it had is remembered while others run."""
        self._departed[key] = self._virtual_ns.pop(key)
        if not self._virtual_ns:
            self._now_ns = max(self._now_ns, *self._departed.values())
            self._departed.clear()

    def next(self, among: Iterable[Key]) -> Key:
        """Whose turn it is of some; the first that joined, of those who had as little."""
        key = min(among, key=self._virtual_ns.__getitem__)
        self._now_ns = max(self._now_ns, self._virtual_ns[key])
        return key

    def charge(self, key: Key, used_ns: float, *, weight: int) -> None:
        """Somebody used the device."""
        self._virtual_ns[key] += used_ns / weight
        self._now_ns = max(self._now_ns, min(self._virtual_ns.values()))

    def has_had_more(self, key: Key) -> bool:
        """Whether somebody's turn is over: somebody else has had less."""
        return min(self._virtual_ns.values()) < self._virtual_ns[key]
