"""Unknown keys: a rate limit for each address."""

from collections import OrderedDict
from dataclasses import dataclass

from opserve_server.core.errors import TooManyUnknownKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKeyLimits:
    """Rate limit on unknown keys of one address.

    Attributes:
        per_s: Sustained rate.
        at_once: Burst.
        peers: Tracked addresses; the least recent one is dropped.
    """

    per_s: float
    at_once: int
    peers: int


class UnknownKeys:
    """A token bucket for each address that has sent an unknown key."""

    def __init__(self, limits: UnknownKeyLimits) -> None:
        self._limits = limits
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, peer: str, now: float) -> None:
        """Counts one unknown key, or rejects it."""
        limits = self._limits
        left, then = self._buckets.pop(peer, (float(limits.at_once), now))
        left = min(left + max(now - then, 0.0) * limits.per_s, float(limits.at_once))
        allowed = left >= 1.0
        self._buckets[peer] = (left - 1.0 if allowed else left, now)
        while len(self._buckets) > limits.peers:
            self._buckets.popitem(last=False)
        if not allowed:
            raise TooManyUnknownKeys(peer, per_s=limits.per_s)
