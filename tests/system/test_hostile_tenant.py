"""Tenants beside a hostile one: their results are right, and it sees and keeps nothing."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.hostile import BEHAVIOURS, Attacker, attacker
from benchmarks.service_with_keys import gauges, new_store, store_url
from benchmarks.tenant_load import TenantLoad, new_mark
from benchmarks.tenant_processes import MIB, QUOTA
from benchmarks.wire import Answers, secrets_in
from opserve_client import AsyncClient
from opserve_client.private_service import Addresses
from opserve_server.core.tenants import Resource, Tenant
from system.drills import SETTINGS, own_process, until

pytestmark = pytest.mark.system
GOOD, ROUND, BAD = "good-tenant", "round-tenant", "bad-tenant"
CALLS = 2
HELD = set(Resource) - {Resource.CALLS_PER_S, Resource.DEVICE_SECONDS}


@dataclass(frozen=True)
class SharedService:
    """A service with keys, two working tenants and a hostile one."""

    addresses: Addresses
    keys: Mapping[str, str]
    client: AsyncClient
    loads: list[TenantLoad]
    gone: "NDArray[np.float32]"
    attacker: Attacker
    answers: Path

    async def others_work(self) -> None:
        """Calls of the others, each checked by itself: what is wrong is raised."""
        for _ in range(CALLS):
            for load in self.loads:
                await load.small_call()
                await load.whole_call()

    async def one_leaves(self) -> None:
        """Bytes of a session that ends stay in memory which the next one gets."""
        async with self.client.open_session() as session:
            await session.upload(np.resize(self.gone, MIB))

    def secrets(self) -> dict[str, bytes]:
        """Bytes that the hostile tenant may not see."""
        found = {name: name.encode() for name in (GOOD, ROUND)}
        found["bytes of a session that has ended"] = self.gone.tobytes()
        found |= {f"key of {name}": self.keys[name].encode() for name in (GOOD, ROUND)}
        for number, load in enumerate(self.loads):
            for what, secret in load.secrets.items():
                found[f"{what} {number}"] = bytes.fromhex(secret)
        return found

    async def use_at_rest(self, tenant: str) -> Mapping[str, float]:
        """Resources of a tenant while it sends no message, not even a heartbeat."""
        use: Mapping[str, float] = {}

        async def is_at_rest() -> bool:
            nonlocal use
            use = await self.gauges("opserve_tenant_use", tenant)
            return not use[Resource.BYTES_IN_FLIGHT]

        await until(is_at_rest)
        return use

    async def gauges(self, name: str, tenant: str) -> Mapping[str, float]:
        """Metrics of a tenant, by resource."""
        return await gauges(self.addresses.rest, self.keys[GOOD], name, tenant=tenant)


@asynccontextmanager
async def shared_service(folder: Path) -> AsyncGenerator[SharedService]:
    url, answers = store_url(folder), folder / "answers"
    tenants = [Tenant(name=GOOD), Tenant(name=ROUND), Tenant(name=BAD, quota=QUOTA)]
    keys = await new_store(url, tenants)
    store = {"store_url": url, "no_keys": "false"}
    async with own_process(**SETTINGS | store | {"log_level": "WARNING"}) as (
        _,
        addresses,
    ):
        with answers.open("wb", buffering=0) as file:
            async with (
                AsyncClient(addresses.grpc, api_key=keys[GOOD]) as one,
                AsyncClient(addresses.rest, api_key=keys[ROUND]) as other,
                one.open_session() as first,
                other.open_session() as second,
                attacker(addresses, keys[BAD], Answers(file)) as bad,
            ):
                loads = [TenantLoad(session, new_mark()) for session in (first, second)]
                yield SharedService(addresses, keys, one, loads, new_mark(), bad, answers)


@pytest.mark.slow
async def test_a_hostile_tenant_harms_no_other_and_sees_nothing(tmp_path: Path) -> None:
    async with shared_service(tmp_path) as found:
        await found.others_work()
        await found.one_leaves()
        before = await found.use_at_rest(GOOD)
        for name in BEHAVIOURS:
            await asyncio.gather(found.attacker.burst(name), found.others_work())
        await asyncio.gather(*map(found.attacker.burst, BEHAVIOURS), found.others_work())

        async def has_nothing() -> bool:
            use = await found.gauges("opserve_tenant_use", BAD)
            return not any(use[resource] for resource in HELD)

        await until(has_nothing)
        after = await found.use_at_rest(GOOD)
        for name in HELD - {Resource.DEVICE_MEMORY}:
            assert after[name] == before[name], name
        # An empty slab of its own may have been replaced by another tenant's.
        assert after[Resource.DEVICE_MEMORY] <= before[Resource.DEVICE_MEMORY]
        refused = await found.gauges("opserve_tenant_refusals_total", BAD)
        assert refused[Resource.DEVICE_MEMORY] > 0, "it came to the end of its quota"
        for name in (GOOD, ROUND):
            assert not any((await found.gauges("opserve_tenant_refusals_total", name)).values())
        assert found.answers.stat().st_size > 0
        assert secrets_in(found.answers, found.secrets()) == []


def test_a_secret_in_an_answer_is_found(tmp_path: Path) -> None:
    file = tmp_path / "answers"
    with file.open("wb") as opened:
        answers = Answers(opened)
        answers.keep(bytes(64), b"\x01 abc \x02", "a text")
    assert file.read_bytes() == b"\x01 abc \x02a text", "zeros tell nothing"
    secrets = {"bytes": b"abc", "text": b"text", "not there": b"xyz"}
    assert secrets_in(file, secrets) == ["bytes", "text"]
