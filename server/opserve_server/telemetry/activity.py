"""Activity of the APIs for watches and series: calls by method, their times, and copied bytes."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opserve_server.core.series import Sample
from opserve_server.core.watches import Audience
from opserve_server.telemetry.metrics import SECONDS, Metrics

_MEDIAN, _P99 = 0.5, 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCalls:
    """Calls of a method since the service started.

    Attributes:
        api: Its API.
        method: Its name.
        outcomes: Numbers of calls by outcome.
        p50_s: Median time of a call, seconds.
        p99_s: The 99th percentile, seconds.
    """

    api: str
    method: str
    outcomes: Mapping[str, int]
    p50_s: float
    p99_s: float


class ApiActivity:
    """Reads the counters of the metrics page.

    Args:
        metrics: The metrics.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before: dict[str, list[int]] = {}

    async def item(self, _: Audience) -> Mapping[str, object]:
        """The item `calls` of a watch."""
        outcomes = defaultdict[tuple[str, str], dict[str, int]](dict)
        for (api, method, outcome), calls in self._metrics.calls.sums():
            outcomes[api, method][outcome] = int(calls)
        methods = [
            MethodCalls(
                api=api,
                method=method,
                outcomes=outcomes[api, method],
                p50_s=quantile(buckets, _MEDIAN),
                p99_s=quantile(buckets, _P99),
            )
            for (api, method), buckets in self._metrics.call_seconds.buckets()
        ]
        return {"calls": {"methods": methods, "bytes": dict(self._bytes())}}

    def samples(self) -> Iterator[Sample]:
        """Samples of the series about APIs."""
        totals = Counter[str]()
        for (api, *_), calls in self._metrics.calls.sums():
            totals[api] += int(calls)
        for api, total in totals.items():
            yield "calls_per_s", api, total
        for api, buckets in self._buckets().items():
            before = self._before.get(api, [0] * len(buckets))
            ended = [now - then for now, then in zip(buckets, before, strict=True)]
            self._before[api] = buckets
            yield "call_p50_s", api, quantile(ended, _MEDIAN)
            yield "call_p99_s", api, quantile(ended, _P99)
        for label, amount in self._bytes():
            yield "copied_bytes_per_s", label, amount

    def _buckets(self) -> Mapping[str, list[int]]:
        """Counts of calls by API, between two of SECONDS."""
        sums: dict[str, list[int]] = {}
        for (api, _), buckets in self._metrics.call_seconds.buckets():
            before = sums.get(api, [0] * len(buckets))
            sums[api] = [one + other for one, other in zip(before, buckets, strict=True)]
        return sums

    def _bytes(self) -> Iterator[tuple[str, float]]:
        for labels, amount in self._metrics.copied_bytes.sums():
            yield " ".join(labels), amount


def quantile(buckets: Sequence[int], share: float) -> float:
    """A quantile of a histogram, linear within a bucket, as Prometheus has it; 0 without a value.

    Args:
        buckets: Counts between two of SECONDS, the last one above all.
        share: 0.5 for the median.
    """
    rank, below, start_s = share * sum(buckets), 0, 0.0
    if not rank:
        return 0.0
    for end_s, count in zip(SECONDS, buckets, strict=False):
        if below + count >= rank:
            return start_s + (end_s - start_s) * (rank - below) / count
        below, start_s = below + count, end_s
    return SECONDS[-1]
