"""The metrics of tenants."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from opserve_server.core.accounts import Accounts
from opserve_server.core.errors import QuotaExceeded
from opserve_server.core.tenants import Quota, Resource, Tenant
from opserve_server.telemetry.quotas import Quotas
from server.telemetry.test_metrics import samples


async def test_use_limits_and_refusals_are_reported_by_tenant() -> None:
    accounts, registry = Accounts(), CollectorRegistry()
    registry.register(Quotas(accounts))
    accounts.renew([Tenant(name="ours", quota=Quota(buffers=2, calls_per_s=4))])
    account = accounts.of("ours")
    held = account.reserve(Resource.BUFFERS, 2)
    account.admit_call()
    account.used_device("ascend910b", 1.5)
    with pytest.raises(QuotaExceeded):
        held.check()
    found = samples(generate_latest(registry))
    assert found["opserve_tenant_use", "buffers", "ours"] == 2
    assert found["opserve_tenant_limit", "buffers", "ours"] == 2
    assert found["opserve_tenant_refusals_total", "buffers", "ours"] == 1
    assert found["opserve_tenant_use", "device_seconds_per_day", "ours"] == 1.5
    assert found["opserve_tenant_use", "calls_per_s", "ours"] == pytest.approx(1, rel=0.1)
    assert ("opserve_tenant_limit", "sessions", "ours") not in found


async def test_metrics_of_a_removed_tenant_disappear() -> None:
    accounts, registry = Accounts(), CollectorRegistry()
    registry.register(Quotas(accounts))
    accounts.renew([Tenant(name="ours")])
    accounts.renew([])
    assert b"ours" not in generate_latest(registry)
