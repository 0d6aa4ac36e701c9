"""Which of several ways to compute the same is taken."""

from collections.abc import Callable, Mapping
from typing import TypeVar

Way = TypeVar("Way")

_AS_FAST = 1.01  # times the cost of the cheapest, which nobody notices


def preferred(costs: Mapping[Way, float], workspace_bytes: Callable[[Way], int]) -> Way:
    """The cheapest way, or of those that are about as fast the one with the smallest workspace.

    Args:
        costs: Of each way, in any unit.
        workspace_bytes: What a way needs; it is asked only where several are as fast.
    """
    most = _AS_FAST * min(costs.values())
    fast = [way for way, cost in costs.items() if cost <= most]
    if len(fast) == 1:
        return fast[0]
    return min(fast, key=lambda way: (workspace_bytes(way), costs[way]))
