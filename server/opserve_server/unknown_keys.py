"""Unknown keys: how many each address may show."""

from collections import OrderedDict
from dataclasses import dataclass

from opserve_server.core.errors import TooManyUnknownKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKeyLimits:
    """How many unknown keys one address may show.

    Attributes:
        per_s: For how long it goes on.
        at_once: As many may come at once.
        peers: Addresses that are remembered; the one that guessed longest ago is forgotten.
    """

    per_s: float
    at_once: int
    peers: int


class UnknownKeys:
    """A bucket for each address that has shown an unknown key, filled again as time goes by."""

    def __init__(self, limits: UnknownKeyLimits) -> None:
        self._limits = limits
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, peer: str, now: float) -> None:
        """Counts one guess, or refuses it."""
        limits = self._limits
        left, then = self._buckets.pop(peer, (float(limits.at_once), now))
        left = min(left + max(now - then, 0.0) * limits.per_s, float(limits.at_once))
        allowed = left >= 1.0
        self._buckets[peer] = (left - 1.0 if allowed else left, now)
        while len(self._buckets) > limits.peers:
            self._buckets.popitem(last=False)
        if not allowed:
            raise TooManyUnknownKeys(peer, per_s=limits.per_s)
