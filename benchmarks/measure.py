"""Measurements: samples within a round, and the median of rounds with its spread."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A median of rounds with its spread.

    Attributes:
        value: Median of the rounds.
        low: Smallest round.
        high: Largest round.
        n: Number of rounds.
    """

    value: float
    low: float
    high: float
    n: int


def figure(rounds: Sequence[float]) -> Figure:
    """Returns the median of rounds with its spread."""
    return Figure(value=median(rounds), low=min(rounds), high=max(rounds), n=len(rounds))


def seconds_each(call: Callable[[], object], *, times: int) -> list[float]:
    """Returns the seconds of each of several calls in sequence."""
    return [seconds_of(call) for _ in range(times)]


def seconds_of(call: Callable[[], object]) -> float:
    """Returns the seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def percentile(samples: Sequence[float], percent: float) -> float:
    """Returns a percentile of samples, by tenths of a percent."""
    return quantiles(samples, n=1000, method="inclusive")[round(percent * 10) - 1]
