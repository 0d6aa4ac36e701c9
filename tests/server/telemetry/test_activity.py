"""Activity of the APIs in watches and series, from the counters of the metrics page."""

import json
from dataclasses import asdict
from typing import Any, cast

import pytest

from opserve_server.core.copies import CopyEntry, CopyKind
from opserve_server.core.observations import Call, CallEnded, CopyEnded
from opserve_server.core.principal import Scope
from opserve_server.core.watches import Audience
from opserve_server.telemetry.activity import ApiActivity, quantile
from opserve_server.telemetry.metrics import SECONDS, Metrics

OPERATOR = Audience("lab", frozenset({Scope.METRICS}))


def metrics_of(*calls: tuple[str, str, str, float]) -> Metrics:
    """Metrics after calls of an API, a method, an outcome and seconds."""
    metrics = Metrics()
    for one in calls:
        add(metrics, *one)
    return metrics


def add(metrics: Metrics, api: str, method: str, outcome: str, seconds: float) -> None:
    call = Call(api=api, method=method, request_id="", headers={}, outcome=outcome)
    metrics.observe(CallEnded(call, seconds))


async def test_a_watch_has_the_calls_of_each_method() -> None:
    metrics = metrics_of(
        ("grpc", "Free", "OK", 4e-5),
        ("grpc", "Free", "NOT_FOUND", 4e-5),
        ("rest", "Free", "204", 2),
    )
    entry = CopyEntry(kind=CopyKind.WRITE, buffer=1, size_bytes=64, started_s=1.0, ended_s=1.5)
    metrics.observe(CopyEnded("ascend910b-0", "ascend910b", entry, inline=True))
    item = cast("dict[str, Any]", (await ApiActivity(metrics).item(OPERATOR))["calls"])
    first, second = [asdict(one) for one in item["methods"]]
    assert (first["api"], first["method"]) == ("grpc", "Free")
    assert first["outcomes"] == {"OK": 1, "NOT_FOUND": 1}
    assert first["p50_s"] == pytest.approx((1e-5 + 1e-4) / 2)
    assert (second["api"], second["outcomes"]) == ("rest", {"204": 1})
    assert 1 < second["p50_s"] < second["p99_s"] < 10
    assert item["bytes"] == {"in inline": 64}
    assert json.dumps(item["bytes"])


def test_times_are_those_of_calls_since_the_last_sample() -> None:
    metrics = metrics_of(("grpc", "Free", "OK", 0.3))
    activity = ApiActivity(metrics)
    assert sampled(activity) == {
        ("calls_per_s", "grpc"): 1,
        ("call_p50_s", "grpc"): pytest.approx(0.3),
        ("call_p99_s", "grpc"): pytest.approx(0.496),
    }
    add(metrics, "grpc", "Allocate", "OK", 3e-4)
    later = sampled(activity)
    assert later["calls_per_s", "grpc"] == 2
    assert 2.5e-4 < later["call_p50_s", "grpc"] < later["call_p99_s", "grpc"] < 5e-4
    assert sampled(activity)["call_p99_s", "grpc"] == 0.0


def sampled(activity: ApiActivity) -> dict[tuple[str, str], float]:
    return {(name, label): value for name, label, value in activity.samples()}


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ({}, 0.5, 0.0),
        ({0: 4}, 0.5, SECONDS[0] / 2),
        ({1: 2, 2: 2}, 0.5, SECONDS[1]),
        ({1: 99, 3: 1}, 0.99, SECONDS[1]),
        ({14: 1}, 0.5, SECONDS[-1]),
    ],
)
def test_a_quantile_is_linear_within_its_bucket(
    counts: dict[int, int], share: float, expected: float
) -> None:
    buckets = [counts.get(place, 0) for place in range(len(SECONDS) + 1)]
    assert quantile(buckets, share) == pytest.approx(expected)
