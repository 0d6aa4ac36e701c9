"""The yardstick of the hostile tenant: an ordinary one beside which a service does as much."""

import pytest

from benchmarks.service_with_keys import Load
from benchmarks.tenant_processes import MOST_OF_QUOTA, ORDINARY, QUOTA, TENANTS, WorkCosts

SECONDS = 5.0
COSTS = WorkCosts(ordinary=Load(calls=20, device_s=0.005), long=Load(calls=2, device_s=0.05))
QUIET = Load(calls=len(TENANTS) * 20 * SECONDS, device_s=len(TENANTS) * 0.005 * SECONDS)


def done(work: dict[str, float]) -> Load:
    """Measurements of a service beside an eighth tenant; alike for all kinds of calls."""
    queues = work["long_per_s"] * SECONDS
    times = len(ORDINARY) + work["times"]
    return Load(
        calls=times * COSTS.ordinary.calls * SECONDS + queues * COSTS.long.calls,
        device_s=times * COSTS.ordinary.device_s * SECONDS + queues * COSTS.long.device_s,
    )


def test_the_service_does_as_much_beside_an_ordinary_tenant() -> None:
    load = Load(calls=QUIET.calls + 300, device_s=QUIET.device_s + 3.0)
    found = done(COSTS.as_much_as(load, seconds=SECONDS))
    assert found.calls == pytest.approx(load.calls)
    assert found.device_s == pytest.approx(load.device_s, rel=0.03)


def test_an_ordinary_tenant_stays_within_its_quota() -> None:
    work = COSTS.as_much_as(Load(calls=1e6, device_s=0.0), seconds=SECONDS)
    assert QUOTA.calls_per_s is not None
    its_calls = (done(work).calls - len(ORDINARY) * COSTS.ordinary.calls * SECONDS) / SECONDS
    assert its_calls == pytest.approx(MOST_OF_QUOTA * QUOTA.calls_per_s)
    assert work["long_per_s"] == 0.0


def test_an_ordinary_tenant_does_no_less_than_the_others() -> None:
    assert COSTS.as_much_as(Load(calls=0, device_s=0.0), seconds=SECONDS) == {
        "times": 1.0,
        "long_per_s": 0.0,
    }
