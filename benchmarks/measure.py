"""How numbers are made: samples within a round, and a median with its spread over rounds."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with what it rests on.

    Attributes:
        value: Median of the rounds.
        low: Least round.
        high: Greatest round.
        n: Rounds.
    """

    value: float
    low: float
    high: float
    n: int


def figure(rounds: Sequence[float]) -> Figure:
    """The median of rounds, with their spread."""
    return Figure(value=median(rounds), low=min(rounds), high=max(rounds), n=len(rounds))


def seconds_each(call: Callable[[], object], *, times: int) -> list[float]:
    """Seconds of each of some calls, one after another."""
    return [seconds_of(call) for _ in range(times)]


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def percentile(samples: Sequence[float], percent: int) -> float:
    """The sample below which so many percent lie."""
    return quantiles(samples, n=100, method="inclusive")[percent - 1]
