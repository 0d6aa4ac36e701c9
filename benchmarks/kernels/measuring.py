"""Timing of calls: alternating, in CPU time of the thread, so that other processes matter little.

Calls on several threads are measured in wall-clock time. The least of several rounds counts, as
other processes only add to it.
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
    """Returns the seconds of one call of each in every round, after a warm-up.

    Args:
        calls: Compared calls; each round measures all of them in sequence.
        rounds: Number of rounds.
    """
    repeats = {name: _repeats(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(_seconds(call, repeats[name]) / repeats[name])
    return samples


def by_turns_on_the_clock(calls: Mapping[str, Callable[[], object]], rounds: int) -> Samples:
    """Returns the wall-clock seconds of one call of each in every round, after a warm-up."""
    for call in calls.values():
        call()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(seconds_of(call))
    return samples


def least_by_turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> Samples:
    """Returns the least wall-clock seconds of one call of each, after a warm-up call."""
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
    """Returns the ratio of the seconds of two calls, computed for each round."""
    return figure([a / b for a, b in zip(samples[over], samples[under], strict=True)])


def faster(samples: Samples, *names: str) -> str:
    """Returns the name of the fastest measured call."""
    return min((name for name in names if name in samples), key=lambda name: median(samples[name]))


def geomean(ratios: Sequence[float]) -> float | None:
    """Returns the geometric mean of ratios; None without ratios."""
    return geometric_mean(ratios) if ratios else None


def _repeats(call: Callable[[], object]) -> int:
    call()
    return max(1, round(_SAMPLE_S / max(_seconds(call, 1), 1e-7)))


def _seconds(call: Callable[[], object], times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        call()
    return time.thread_time() - start
