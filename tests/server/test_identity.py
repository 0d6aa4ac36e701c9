"""The guard in step with a store that fails and recovers."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from typing_extensions import override

from opserve_server import identity as module
from opserve_server.core.audit import AuditEntry, RefusedCalls
from opserve_server.core.directory import KEYLESS, Directory
from opserve_server.core.errors import StoreUnavailable
from opserve_server.core.observations import Call, CallEnded
from opserve_server.core.principal import Scope
from opserve_server.core.tenants import Tenant
from opserve_server.guard import Credentials
from opserve_server.identity import Identity
from opserve_server.store.store import Store
from server.core.fakes import FakeDevice, make_service
from server.guards import admitted, keyless_guard, principal, record
from simulation.virtual_time import VirtualTimeLoop

DAYS = 2.0
DAY_S = 86_400.0
KEY = record("opserve_of_a_test", principal("lab"))
KEYED = Directory(tenants={"lab": Tenant(name="lab")}, keys={KEY.sha256: KEY}, certificates={})


@dataclass
class FakeStore:
    """A store in memory; `failing` is raised by every call."""

    answers: Directory = KEYLESS
    failing: Exception | None = None
    kept: list[AuditEntry] = field(default_factory=list[AuditEntry])
    forgotten: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    looks: int = 0

    @property
    def audit(self) -> "FakeStore":
        return self

    @property
    def keys(self) -> "FakeStore":
        return self

    @property
    def usage(self) -> "FakeStore":
        return self

    async def directory(self) -> Directory:
        self.looks += 1
        self._fail()
        return self.answers

    def has_had_keys(self) -> bool:
        return False

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        self._fail()
        self.kept += entries

    async def forget(self, *, before: float, now: float) -> int:
        self._fail()
        self.forgotten.append((before, now))
        return 0

    async def touch(self, _: Mapping[str, float]) -> None:
        self._fail()

    async def of(self, *_: object, **__: object) -> Sequence[Any]:
        return []

    def _fail(self) -> None:
        if self.failing is not None:
            raise self.failing


def refused_call() -> CallEnded:
    call = Call(api="rest", method="submit", request_id="1", headers={}, audited="a key")
    return CallEnded(call, 0.1)


@pytest.mark.parametrize("failure", [StoreUnavailable(), ValueError("planted")])
async def test_known_callers_stay_valid_while_the_store_is_down_and_are_refreshed_afterwards(
    failure: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "USES_INTERVAL_S", 0.0)
    device, store, guard = FakeDevice(), FakeStore(answers=KEYED), keyless_guard()
    service = make_service(device)
    refused = RefusedCalls(limit=10, clock=lambda: 1.0)
    kept = Identity(guard, service, cast(Store, store), refused, audit_retention_days=DAYS)
    await kept.begin()
    assert not guard.keyless
    store.failing = failure
    keeping = asyncio.create_task(kept.keep(interval_s=0.001))
    refused.observe(refused_call())
    with caplog.at_level(logging.WARNING):
        await looks(store, 3)
    assert "stay as they were" in caplog.text
    assert "lab" in {account.tenant.name for account in service.accounts}
    assert store.kept == []
    store.failing, store.answers = None, Directory(tenants={}, keys=KEYED.keys, certificates={})
    await looks(store, 2)
    assert [entry.method for entry in store.kept] == ["submit"]
    assert "lab" not in {account.tenant.name for account in service.accounts}
    keeping.cancel()
    await asyncio.wait([keeping])
    await kept.stop()
    await service.stop()
    device.slabs.close()


@dataclass
class SlowStore(FakeStore):
    """A store whose first look takes until `waited` is set."""

    waited: asyncio.Event = field(default_factory=asyncio.Event)

    @override
    async def directory(self) -> Directory:
        found, first = self.answers, self.looks == 0
        self.looks += 1
        if first:
            await self.waited.wait()
        return found


async def test_an_older_look_never_takes_the_place_of_a_newer_one() -> None:
    device, store, guard = FakeDevice(), SlowStore(answers=KEYED), keyless_guard()
    service = make_service(device)
    refused = RefusedCalls(limit=1, clock=lambda: 1.0)
    kept = Identity(guard, service, cast(Store, store), refused, audit_retention_days=DAYS)
    older = asyncio.create_task(kept.refresh())
    await asyncio.sleep(0)
    assert store.looks == 1
    mill = Directory(tenants={"mill": Tenant(name="mill")}, keys=KEYED.keys, certificates={})
    store.answers = mill
    newer = asyncio.create_task(kept.refresh())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    store.waited.set()
    await asyncio.gather(older, newer)
    assert {account.tenant.name for account in service.accounts} == {"local", "mill"}
    await service.stop()
    device.slabs.close()


def test_the_audit_is_forgotten_every_hour_also_after_the_store_was_away() -> None:
    loop = VirtualTimeLoop()
    device, store = FakeDevice(), FakeStore(answers=KEYED)

    async def hours() -> None:
        service = make_service(device)
        refused = RefusedCalls(limit=1, clock=loop.time)
        kept = Identity(
            keyless_guard(),
            service,
            cast(Store, store),
            refused,
            audit_retention_days=DAYS,
            clock=lambda: 10 * DAY_S + loop.time(),
        )
        keeping = asyncio.create_task(kept.keep(interval_s=60.0))
        for failing in (None, StoreUnavailable(), None):
            store.failing = failing
            await asyncio.sleep(3601)
        keeping.cancel()
        await asyncio.wait([keeping])
        await service.stop()

    loop.run_until_complete(hours())
    loop.close()
    device.slabs.close()
    assert store.forgotten == [
        (8 * DAY_S + passed_s, 10 * DAY_S + passed_s) for passed_s in (60.0, 3600.0, 3 * 3600.0)
    ]


async def looks(store: FakeStore, number: int) -> None:
    """Returns when the store was looked at so many times more."""
    until = store.looks + number
    async with asyncio.timeout(300):
        while store.looks < until:  # noqa: ASYNC110  # what is watched knows no event
            await asyncio.sleep(0)


async def test_a_key_that_was_never_used_is_not_written_down() -> None:
    guard = keyless_guard()
    await admitted(guard, Credentials(peer=lambda: ""), Scope.OPERATE)
    assert guard.take_uses() == {}
