"""A private service with a new store, tenants and their API keys."""

import asyncio
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from opserve_client.private_service import Addresses, private_service
from opserve_server.core.audit import AuditEntry
from opserve_server.core.directory import KeyRecord
from opserve_server.core.keys import new_key, sha256_of
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.tenants import Resource, Tenant
from opserve_server.store.store import open_store

AUDIT = AuditEntry(at=0.0, tenant="", principal="bench", face="cli", method="bench", outcome="OK")
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceWithKeys:
    """Addresses of a service, and the API key of each tenant by its name."""

    addresses: Addresses
    keys: Mapping[str, str]


@contextmanager
def service_with_keys(tenants: Sequence[Tenant], **settings: str) -> Generator[ServiceWithKeys]:
    """Runs a service until the block ends; see private_service for its settings."""
    with TemporaryDirectory() as folder:
        url = store_url(Path(folder))
        keys = asyncio.run(new_store(url, tenants))
        with private_service(store_url=url, no_keys="false", **settings) as addresses:
            yield ServiceWithKeys(addresses=addresses, keys=keys)


def store_url(folder: Path) -> str:
    """Returns the URL of a store in a folder."""
    return f"sqlite:///{folder / 'opserve.db'}"


def empty_store(folder: Path) -> str:
    """Creates a store without tenants, for services without keys; returns its URL."""
    url = store_url(folder)
    asyncio.run(new_store(url, ()))
    return url


async def new_store(url: str, tenants: Sequence[Tenant]) -> Mapping[str, str]:
    """Creates a store with tenants; returns a key of each with the scopes operate and metrics."""
    keys = {tenant.name: new_key() for tenant in tenants}
    async with open_store(url, timeout_s=_TIMEOUT_S, connections_limit=1) as store:
        for tenant in tenants:
            digest = sha256_of(keys[tenant.name])
            scopes = frozenset({Scope.OPERATE, Scope.METRICS})
            principal = Principal(tenant=tenant.name, name=f"of-{tenant.name}", scopes=scopes)
            record = KeyRecord(
                id=digest.hex()[:8], sha256=digest, principal=principal, created_at=time.time()
            )
            await store.tenants.create(tenant, audit=AUDIT)
            await store.keys.add(record, audit=AUDIT)
    return keys


async def gauges(rest: str, key: str, name: str, *, tenant: str) -> Mapping[str, float]:
    """Returns the samples of a tenant's metric, by resource.

    Args:
        rest: Address of the REST API.
        key: API key with the scope metrics.
        name: Name of the samples.
        tenant: Name of the tenant.
    """
    return {
        sample.labels["resource"]: sample.value
        for sample in await _samples(rest, key)
        if sample.name == name and sample.labels["tenant"] == tenant
    }


@dataclass(frozen=True, slots=True)
class Load:
    """The work of a service for all tenants.

    Attributes:
        calls: Calls over both APIs, with rejected ones.
        device_s: Device time in seconds.
    """

    calls: float
    device_s: float

    def __sub__(self, other: "Load") -> "Load":
        return Load(self.calls - other.calls, self.device_s - other.device_s)

    def each(self, count: float) -> "Load":
        """Returns the load divided by count."""
        return Load(self.calls / count, self.device_s / count)


async def load_so_far(rest: str, key: str) -> Load:
    """Returns the load of a service since its start.

    Args:
        rest: Address of the REST API.
        key: API key with the scope metrics.
    """
    samples = await _samples(rest, key)
    return Load(
        calls=sum(sample.value for sample in samples if sample.name == "opserve_calls_total"),
        device_s=sum(
            sample.value
            for sample in samples
            if sample.name == "opserve_tenant_use"
            and sample.labels["resource"] == Resource.DEVICE_SECONDS
        ),
    )


async def _samples(rest: str, key: str) -> Sequence[Sample]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=rest, headers=headers) as client:
        page = (await client.get("/metrics")).raise_for_status().text
    return [sample for family in text_string_to_metric_families(page) for sample in family.samples]
