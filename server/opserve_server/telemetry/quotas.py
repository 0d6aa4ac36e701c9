"""Prometheus metrics of tenants' quotas; administrators create tenants, so there are few."""

from collections.abc import Iterator
from math import inf

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from opserve_server.core.accounts import Accounts
from opserve_server.telemetry.families import counter, gauge


class Quotas(Collector):
    """Use, limits and rejections of every tenant, read for each page."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    @override
    def collect(self) -> Iterator[Metric]:
        use, limits = gauge("tenant_use"), gauge("tenant_limit")
        refusals = counter("tenant_refusals")
        for account in self._accounts:
            for resource, used in account.counters.items():
                labels = (account.tenant.name, resource.value)
                use.add_metric(labels, account.use(resource))
                refusals.add_metric(labels, used.refusals)
                if used.limit < inf:
                    limits.add_metric(labels, used.limit)
        yield from (use, limits, refusals)
