"""The choice among several ways to compute the same result."""

from collections.abc import Callable, Mapping
from typing import TypeVar

Way = TypeVar("Way")

_AS_FAST = 1.01  # times the lowest cost: no user notices a difference of 1 %


def preferred(costs: Mapping[Way, float], workspace_bytes: Callable[[Way], int]) -> Way:
    """The cheapest way; among ways within 1 % of it, the one with the smallest workspace.

    Args:
        costs: Cost of each way, in any unit.
        workspace_bytes: Workspace of a way; called only where several ways are about as fast.
    """
    most = _AS_FAST * min(costs.values())
    fast = [way for way, cost in costs.items() if cost <= most]
    if len(fast) == 1:
        return fast[0]
    return min(fast, key=lambda way: (workspace_bytes(way), costs[way]))
