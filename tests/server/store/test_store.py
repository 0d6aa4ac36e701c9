"""Contents of a store, and its refusals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import pytest
from sqlalchemy import select

from opserve_server.core.directory import KEYLESS
from opserve_server.core.errors import HandleNotFound, WrongState
from opserve_server.core.ledger import Flush, LedgerRow
from opserve_server.core.usage import UsageBook
from opserve_server.store.ledger import WRITERS_KEPT_S, Ledger
from opserve_server.store.store import Store, open_store
from opserve_server.store.tables import FLUSHES
from server.store.samples import (
    ACME,
    CI,
    GUEST,
    NOW,
    TODAY,
    UMBRA,
    engine_of,
    entry,
    flush,
    identity,
    key,
    recorded,
    use,
)


async def test_a_new_store_admits_no_caller(store: Store) -> None:
    assert await store.directory() == KEYLESS


async def test_stored_runs_survive_a_round_trip(url: str) -> None:
    async with open_store(url, timeout_s=20.0, connections_limit=1) as store:
        for tenant in (UMBRA, ACME):
            await store.tenants.create(tenant, audit=entry())
        await store.keys.add(key(1, expires_at=NOW + 0.1), audit=entry())
        await store.certificates.add("CN=ci", principal=CI, audit=entry())
        await store.certificates.add("DNS:guest", principal=GUEST, audit=entry())
        await store.identities.add(identity(1), audit=entry())
        await store.identities.add(identity(2, GUEST), audit=entry())
        await store.usage.add(flush(use("acme")))
    async with open_store(url, timeout_s=20.0, connections_limit=1) as store:
        directory = await store.directory()
        assert directory.tenants == {"acme": ACME, "umbra": UMBRA}
        assert directory.keys == {b"\1" * 32: key(1, expires_at=NOW + 0.1)}
        assert directory.certificates == {"CN=ci": CI, "DNS:guest": GUEST}
        assert directory.identities == (identity(2, GUEST), identity(1)), "the oldest first"
        assert await store.tenants.all() == [ACME, UMBRA]
        assert await store.tenants.get("acme") == ACME
        assert await store.keys.of("acme") == [key(1, expires_at=NOW + 0.1)]
        assert await store.certificates.of("umbra") == {"DNS:guest": GUEST}
        assert await store.usage.of(None, first_day=TODAY, last_day=TODAY) == [use("acme")]
        assert await recorded(store) == [entry()] * 7


async def test_a_change_of_a_tenant_starts_from_its_present_state(store: Store) -> None:
    await store.tenants.create(ACME, audit=entry())
    changed = await store.tenants.update(
        "acme", change=lambda tenant: replace(tenant, weight=tenant.weight + 1), audit=entry()
    )
    assert changed == replace(ACME, weight=8) == await store.tenants.get("acme")


async def test_a_tenant_that_ends_leaves_its_ledger_its_audit_and_its_name(store: Store) -> None:
    for tenant in (ACME, UMBRA):
        await store.tenants.create(tenant, audit=entry())
    await store.keys.add(key(1), audit=entry())
    await store.keys.add(key(2, GUEST), audit=entry())
    await store.certificates.add("CN=ci", principal=CI, audit=entry())
    await store.certificates.add("CN=guest", principal=GUEST, audit=entry())
    await store.identities.add(identity(1), audit=entry())
    await store.identities.add(identity(2, GUEST), audit=entry())
    await store.usage.add(flush(use("acme")))
    await store.tenants.delete("acme", audit=entry("delete", at=NOW + 9))

    directory = await store.directory()
    assert directory.tenants == {"umbra": UMBRA}
    assert directory.certificates == {"CN=guest": GUEST}
    assert directory.identities == (identity(2, GUEST),)
    assert directory.keys[b"\1" * 32].revoked_at == NOW + 9
    assert directory.keys[b"\2" * 32].revoked_at is None
    assert await store.usage.of("acme", first_day=TODAY, last_day=TODAY) == [use("acme")]
    assert len(await recorded(store)) == 9
    with pytest.raises(
        WrongState,
        match="Tenant acme exists or existed before: choose a name that no tenant has or had",
    ):
        await store.tenants.create(ACME, audit=entry())
    with pytest.raises(HandleNotFound):
        await store.tenants.delete("acme", audit=entry())
    with pytest.raises(HandleNotFound):
        await store.keys.add(key(3), audit=entry())


async def test_an_unreachable_service_is_reported(store: Store) -> None:
    with pytest.raises(
        HandleNotFound, match=r"There is no tenant 'acme'; use the name of a tenant."
    ):
        await store.tenants.get("acme")
    with pytest.raises(HandleNotFound):
        await store.tenants.update("acme", change=lambda tenant: tenant, audit=entry())
    with pytest.raises(HandleNotFound):
        await store.certificates.add("CN=ci", principal=CI, audit=entry())
    with pytest.raises(HandleNotFound, match="CN=ci"):
        await store.certificates.remove("CN=ci", audit=entry())
    with pytest.raises(HandleNotFound):
        await store.identities.add(identity(1), audit=entry())
    with pytest.raises(HandleNotFound, match="no identity '00000001'; use the id of an identity"):
        await store.identities.remove("00000001", audit=entry())
    with pytest.raises(HandleNotFound, match="no key '00000001'; use the id of a key"):
        await store.keys.revoke("00000001", audit=entry())


async def test_a_principal_has_two_live_keys(store: Store) -> None:
    await store.tenants.create(ACME, audit=entry())
    deploy = replace(CI, name="deploy")
    await store.keys.add(key(1, expires_at=NOW + 5), audit=entry())
    await store.keys.add(key(2), audit=entry())
    await store.keys.add(key(3, deploy), audit=entry())
    with pytest.raises(WrongState, match="acme/ci already has 2 active keys; revoke one first"):
        await store.keys.add(key(4), audit=entry())
    await store.keys.add(key(5), audit=entry())  # the first has expired when it is made
    with pytest.raises(WrongState):
        await store.keys.add(key(6), audit=entry())
    await store.keys.revoke("00000002", audit=entry())
    await store.keys.add(key(7), audit=entry())


async def test_a_key_is_revoked_once(store: Store) -> None:
    await store.tenants.create(ACME, audit=entry())
    await store.keys.add(key(1), audit=entry())
    revoked = replace(key(1), revoked_at=NOW + 2)
    assert await store.keys.revoke("00000001", audit=entry(at=NOW + 2)) == revoked
    assert await store.keys.revoke("00000001", audit=entry(at=NOW + 3)) == revoked
    assert (await store.directory()).keys == {revoked.sha256: revoked}


async def test_another_key_of_the_same_id_or_text_is_refused(store: Store) -> None:
    await store.tenants.create(ACME, audit=entry())
    await store.keys.add(key(1), audit=entry())
    for double in (replace(key(2), id="00000001"), replace(key(2), sha256=key(1).sha256)):
        with pytest.raises(WrongState, match="create the key again"):
            await store.keys.add(double, audit=entry())


async def test_the_last_use_of_a_key_never_decreases(store: Store) -> None:
    await store.tenants.create(ACME, audit=entry())
    for number in (1, 2):
        await store.keys.add(key(number), audit=entry())
    await store.keys.touch({"00000002": 50.0, "00000001": 60.0, "nobody's": 70.0})
    await store.keys.touch({"00000002": 40.0, "00000001": 61.0})
    await store.keys.touch({})
    assert [found.last_used_at for found in await store.keys.of("acme")] == [61.0, 50.0]


async def test_a_subject_is_one_principals(store: Store) -> None:
    for tenant in (ACME, UMBRA):
        await store.tenants.create(tenant, audit=entry())
    await store.certificates.add("CN=ci", principal=CI, audit=entry())
    with pytest.raises(WrongState, match="CN=ci"):
        await store.certificates.add("CN=ci", principal=GUEST, audit=entry())
    await store.certificates.remove("CN=ci", audit=entry())
    await store.certificates.add("CN=ci", principal=GUEST, audit=entry())
    assert (await store.directory()).certificates == {"CN=ci": GUEST}


async def test_an_identity_is_one_principals(store: Store) -> None:
    for tenant in (ACME, UMBRA):
        await store.tenants.create(tenant, audit=entry())
    await store.identities.add(identity(1), audit=entry())
    assert not (await store.directory()).keyless
    with pytest.raises(WrongState, match="opserve identity remove 00000001"):
        await store.identities.add(identity(1, GUEST), audit=entry())
    await store.identities.remove("00000001", audit=entry())
    await store.identities.add(identity(1, GUEST), audit=entry())
    assert (await store.directory()).identities == (identity(1, GUEST),)


async def test_usage_adds_up_by_tenant_day_and_profile(store: Store) -> None:
    yesterday = TODAY - timedelta(days=1)
    await store.usage.add(flush(use("umbra", calls=3), use("acme"), use("acme", day=yesterday)))
    await store.usage.add(flush(use("acme", calls=2), use("acme", profile="mt7004"), use("acme")))
    await store.usage.add(flush())
    both = [use("acme", calls=4), use("acme", profile="mt7004"), use("umbra", calls=3)]
    everything = [use("acme", day=yesterday), *both]
    assert await store.usage.of(None, first_day=yesterday, last_day=TODAY) == everything
    assert await store.usage.of("acme", first_day=TODAY, last_day=TODAY) == both[:2]
    assert await store.usage.of("nobody", first_day=yesterday, last_day=TODAY) == []


async def test_usage_that_is_sent_twice_is_added_once(store: Store) -> None:
    first = flush(use("acme"), writer="a", number=1)
    second = flush(use("acme", calls=2), writer="a", number=2)
    other = flush(use("acme", calls=4), writer="b", number=1)
    for brought in (first, first, other, second, second, first, other):
        await store.usage.add(brought)
    assert await store.usage.of("acme", first_day=TODAY, last_day=TODAY) == [use("acme", calls=7)]


async def test_ended_writers_are_forgotten_and_others_are_not(store: Store, url: str) -> None:
    late = NOW + WRITERS_KEPT_S
    await store.usage.add(flush(use("acme"), writer="gone", at=NOW - 1))
    await store.usage.add(flush(use("acme"), writer="there", at=NOW))
    await store.usage.add(flush(use("acme"), writer="new", at=late))
    engine = engine_of(url)
    async with engine.connect() as connection:
        writers = (await connection.scalars(select(FLUSHES.c.writer))).all()
    await engine.dispose()
    assert set(writers) == {"there", "new"}


@dataclass
class Deaf:
    """A ledger whose first answers are lost after all rows are written."""

    ledger: Ledger
    lost: int

    async def add(self, flush: Flush) -> None:
        await self.ledger.add(flush)
        if self.lost:
            self.lost -= 1
            raise OSError("planted: the connection broke")

    async def of(
        self, tenant: str | None, *, first_day: date, last_day: date
    ) -> Sequence[LedgerRow]:
        return await self.ledger.of(tenant, first_day=first_day, last_day=last_day)


async def test_a_lost_answer_doubles_no_usage(store: Store) -> None:
    book = UsageBook(lambda: NOW)
    ledger = Deaf(store.usage, lost=2)
    for _ in range(4):
        book.add("acme", "ascend910b", 0.25)
        await book.save(ledger)
    assert not book.unsaved
    assert await store.usage.of(None, first_day=TODAY, last_day=TODAY) == [use("acme", calls=4)]
