"""The shares of a call in threads of the worker, each slice by slice."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import accumulate, pairwise

SLICE_NS = 5_000_000
UNITS_BEYOND = 8
"""Units that a slice has at most behind the stage that it begins in: those may take far longer."""


def run_shares(
    run: Callable[[int, int], None],
    shares: Sequence[int],
    ends: Sequence[int],
    pool: ThreadPoolExecutor,
    look_up: Callable[[], None],
) -> None:
    """Runs all units of a call; returns or raises when no thread runs any of them any more.

    A share that fails lets the others come to their ends.

    Args:
        run: Runs a range of units.
        shares: Units of each share; the first one runs in this thread.
        ends: The unit behind the last of each stage, in order.
        pool: Where the others run.
        look_up: Called between slices in every thread; may raise, which ends the share.
    """
    bounds = list(pairwise(accumulate(shares, initial=0)))
    others = [pool.submit(_run_slices, run, *bound, ends, look_up) for bound in bounds[1:]]
    try:
        for first, last in bounds[:1]:
            _run_slices(run, first, last, ends, look_up)
    finally:
        wait(others)
    for other in others:
        other.result()


def _run_slices(
    run: Callable[[int, int], None],
    first: int,
    end: int,
    ends: Sequence[int],
    look_up: Callable[[], None],
) -> None:
    """Runs the units of a share in slices of about 5 ms, looking up between them."""
    size = 1
    while first < end:
        stage_end = next(stage_end for stage_end in ends if stage_end > first)
        last = min(first + size, end, max(stage_end, first + UNITS_BEYOND))
        started_ns = time.monotonic_ns()
        run(first, last)
        size = _next_size(last - first, time.monotonic_ns() - started_ns)
        if last >= stage_end:
            size = min(size, UNITS_BEYOND)
        first = last
        if first < end:
            look_up()


def _next_size(size: int, elapsed_ns: int) -> int:
    """Units of the next slice: at most twice as many, so that one odd slice does not mislead."""
    fitting = size * SLICE_NS // max(elapsed_ns, 1)
    return max(1, min(2 * size, fitting))
