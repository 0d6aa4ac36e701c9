"""Fair queue: shares a device among keys by weight, measured in device time.

Virtual time is device nanoseconds at a weight of 1. The key with the least virtual time is next. A
key that returns starts at the current virtual time, so that no key saves up time while idle. Only a
short deficit is kept, for a key whose next call is on its way.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

CREDIT_LIMIT_NS = 5_000_000
"""Virtual time by which a returning key may be behind the others: one slice of a call."""

Key = TypeVar("Key", bound=Hashable)


class FairQueue(Generic[Key]):
    """Start-time fair queueing with measured times: used time is charged afterwards."""

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
        """Adds a key, which competes from now on."""
        if key not in self._virtual_ns:
            virtual_ns = self._departed.pop(key, self._now_ns)
            # No further behind than the credit limit, or a key could monopolise the device after an
            # idle period.
            self._virtual_ns[key] = max(virtual_ns, self._now_ns - CREDIT_LIMIT_NS)

    def leave(self, key: Key) -> None:
        """Removes a key; its virtual time is kept while others run."""
        self._departed[key] = self._virtual_ns.pop(key)
        if not self._virtual_ns:
            # The queue is empty: virtual time continues at the greatest value, so that no key has a
            # debt or credit later.
            self._now_ns = max(self._now_ns, *self._departed.values())
            self._departed.clear()

    def next(self, among: Iterable[Key]) -> Key:
        """The candidate with the least virtual time; the first that joined among equals."""
        key = min(among, key=self._virtual_ns.__getitem__)
        # Start-time fair queueing: virtual time is the start of the key in service.
        self._now_ns = max(self._now_ns, self._virtual_ns[key])
        return key

    def charge(self, key: Key, used_ns: float, *, weight: int) -> None:
        """Charges device time to a key."""
        self._virtual_ns[key] += used_ns / weight
        self._now_ns = max(self._now_ns, min(self._virtual_ns.values()))

    def has_had_more(self, key: Key) -> bool:
        """Whether another key has less virtual time, so that this one should pause."""
        return min(self._virtual_ns.values()) < self._virtual_ns[key]
