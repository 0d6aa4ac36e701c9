"""Counters and histograms by labels, kept by one thread.

prometheus_client's own take a lock for each number: a sixth of the time of a small command.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

SECONDS = (1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0)
"""Upper bounds: a small kernel takes 30 microseconds, a small call 200, the longest call 60 s."""


class Counts(Collector):
    """Sums by labels.

    Args:
        name: Name of the metric.
        told: What it is.
        labels: Names of the labels.
    """

    def __init__(self, name: str, told: str, labels: Sequence[str]) -> None:
        self._described = name, told, labels
        self._sums: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def add(self, amount: float, *labels: str) -> None:
        """Adds to the sum of some labels."""
        self._sums[labels] += amount

    @override
    def collect(self) -> Iterator[Metric]:
        name, told, labels = self._described
        family = CounterMetricFamily(name, told, labels=labels)
        for values, amount in self._sums.items():
            family.add_metric(values, amount)
        yield family


class Times(Collector):
    """Histograms of seconds by labels.

    Args:
        name: Name of the metric.
        told: What it is.
        labels: Names of the labels.
    """

    def __init__(self, name: str, told: str, labels: Sequence[str]) -> None:
        self._described = name, told, labels
        self._buckets: defaultdict[tuple[str, ...], list[int]] = defaultdict(_empty)
        self._sums: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def add(self, seconds: float, *labels: str) -> None:
        """Adds one time to the histogram of some labels."""
        self._buckets[labels][bisect_left(SECONDS, seconds)] += 1
        self._sums[labels] += seconds

    @override
    def collect(self) -> Iterator[Metric]:
        name, told, labels = self._described
        family = HistogramMetricFamily(name, told, labels=labels)
        bounds = [*map(str, SECONDS), "+Inf"]
        for values, buckets in self._buckets.items():
            below = list(zip(bounds, accumulate(buckets), strict=True))
            family.add_metric(values, below, self._sums[values])
        yield family


def _empty() -> list[int]:
    return [0] * (len(SECONDS) + 1)
