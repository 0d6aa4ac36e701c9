"""How calls are timed: by turns, in CPU time of the thread, so that other work counts little.

Calls on several threads are timed by the clock on the wall; there the least of some rounds counts,
for other work only ever adds to it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from statistics import geometric_mean, median

from benchmarks.measure import Figure, figure, seconds_of

Samples = Mapping[str, Sequence[float]]

_SAMPLE_S = 0.004  # calls shorter than this are repeated within a round
_GAP_S = (
    0.25  # threads of PyTorch's spin for a while after a call, and take the cores of what comes
)


def by_turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> Samples:
    """Seconds of one call of each, round by round; what warms up does not count.

    Args:
        calls: What is compared; each round measures all of them, one after the other.
        rounds: How many.
    """
    repeats = {name: _repeats(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(_seconds(call, repeats[name]) / repeats[name])
    return samples


def least_by_turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> Samples:
    """The least seconds of one call of each by the clock on the wall, after a warm call each."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    least = dict.fromkeys(calls, inf)
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(_GAP_S)
            call()
            for _ in range(repeats[name]):
                least[name] = min(least[name], seconds_of(call))
    return {name: [seconds] for name, seconds in least.items()}


def ratio(samples: Samples, *, over: str, under: str) -> Figure:
    """Seconds of one over those of another, each round against its own."""
    return figure([a / b for a, b in zip(samples[over], samples[under], strict=True)])


def faster(samples: Samples, *names: str) -> str:
    """Which of some calls takes less; those that were not measured do not count."""
    return min((name for name in names if name in samples), key=lambda name: median(samples[name]))


def geomean(ratios: Sequence[float]) -> float | None:
    """The mean that ratios have; None where there are none."""
    return geometric_mean(ratios) if ratios else None


def _repeats(call: Callable[[], object]) -> int:
    call()
    return max(1, round(_SAMPLE_S / max(_seconds(call, 1), 1e-7)))


def _seconds(call: Callable[[], object], times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        call()
    return time.thread_time() - start
