"""Parallel shares of a call in threads of the worker, run slice by slice, with pauses."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import accumulate, pairwise

SLICE_NS = 5_000_000
UNITS_BEYOND = 8
"""Units of a slice beyond the stage in which it begins, at most: later stages may be far slower."""


@dataclass(slots=True)
class Share:
    """Remaining units of a share of a call, and the size of its next slice."""

    first: int
    end: int
    size: int = 1


def shares_of(units: Sequence[int]) -> list[Share]:
    """The shares of a new call, by their number of units."""
    return [Share(*bounds) for bounds in pairwise(accumulate(units, initial=0))]


def run_shares(
    run: Callable[[int, int], None],
    shares: Iterable[Share],
    ends: Sequence[int],
    pool: ThreadPoolExecutor,
    look_up: Callable[[], bool],
) -> bool:
    """Runs the rest of a call; returns or raises when no thread runs any of it any more.

    A failing share lets the others reach their ends, or a pause.

    Args:
        run: Runs a range of units.
        shares: The rest of each share; the first with units runs in this thread.
        ends: The unit after the last one of each stage, in order.
        pool: Threads of the other shares.
        look_up: Called between slices in every thread; returns whether the call continues or
            pauses. It may raise, which ends the share.

    Returns:
        Whether the call paused with units left.
    """
    left = [share for share in shares if share.first < share.end]
    # The first share runs in this thread: a call with one share needs no other thread.
    others = [pool.submit(_run_slices, run, share, ends, look_up) for share in left[1:]]
    try:
        for share in left[:1]:
            _run_slices(run, share, ends, look_up)
    finally:
        if others:
            # Also after an error: the memory of the call may be reused once this function has
            # returned.
            wait(others)
    for other in others:
        other.result()
    return any(share.first < share.end for share in left)


def _run_slices(
    run: Callable[[int, int], None],
    share: Share,
    ends: Sequence[int],
    look_up: Callable[[], bool],
) -> None:
    """Runs the units of a share in slices of about 5 ms, calling look_up between them."""
    while share.first < share.end:
        first = share.first
        stage_end = next(stage_end for stage_end in ends if stage_end > first)
        # Units of one stage take about equal times, so a slice ends near the end of its stage.
        last = min(first + share.size, share.end, max(stage_end, first + UNITS_BEYOND))
        started_ns = time.monotonic_ns()
        run(first, last)
        share.size = _next_size(last - first, time.monotonic_ns() - started_ns)
        if last >= stage_end:
            share.size = min(share.size, UNITS_BEYOND)
        # Only now: after an error the rest of the share includes the failed slice.
        share.first = last
        if last < share.end and not look_up():
            return


def _next_size(size: int, elapsed_ns: int) -> int:
    """Units of the next slice: at most twice as many, so that one odd slice does not mislead."""
    fitting = size * SLICE_NS // max(elapsed_ns, 1)
    return max(1, min(2 * size, fitting))
