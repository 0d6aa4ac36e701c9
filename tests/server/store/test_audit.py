"""The audit: written with every change or not at all, and read in pages."""

import inspect
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

import opserve_server.store.audit
from opserve_server.core.audit import AuditEntry, AuditQuery
from opserve_server.core.errors import InvalidArgument, StoreUnavailable
from opserve_server.store.audit import AuditLog
from opserve_server.store.certificates import Certificates
from opserve_server.store.identities import Identities
from opserve_server.store.keys import Keys
from opserve_server.store.ledger import Ledger
from opserve_server.store.store import Store
from opserve_server.store.tables import AUDIT
from opserve_server.store.tenants import Tenants
from server.store.samples import ACME, CI, NOW, UMBRA, engine_of, entry, identity, key, recorded

READ_ALONE = {"deleted", "all", "get", "of", "page"}
NOTED_BY_THE_SERVICE = {"touch", "add usage", "record", "forget"}
CHANGES: dict[str, Callable[[Store, AuditEntry], Awaitable[Any]]] = {
    "Tenants.create": lambda store, audit: store.tenants.create(UMBRA, audit=audit),
    "Tenants.update": lambda store, audit: store.tenants.update(
        "acme", change=lambda tenant: replace(tenant, weight=9), audit=audit
    ),
    "Tenants.delete": lambda store, audit: store.tenants.delete("acme", audit=audit),
    "Keys.add": lambda store, audit: store.keys.add(key(2), audit=audit),
    "Keys.revoke": lambda store, audit: store.keys.revoke("00000001", audit=audit),
    "Certificates.add": lambda store, audit: store.certificates.add(
        "CN=new", principal=CI, audit=audit
    ),
    "Certificates.remove": lambda store, audit: store.certificates.remove("CN=ci", audit=audit),
    "Identities.add": lambda store, audit: store.identities.add(identity(2), audit=audit),
    "Identities.remove": lambda store, audit: store.identities.remove("00000001", audit=audit),
}


def test_every_change_of_the_store_takes_an_audit_entry() -> None:
    found: set[str] = set()
    for table in (Tenants, Keys, Certificates, Identities, Ledger, AuditLog):
        for name, method in inspect.getmembers(table, inspect.iscoroutinefunction):
            called = "add usage" if table is Ledger and name == "add" else name
            if called in READ_ALONE | NOTED_BY_THE_SERVICE:
                continue
            found.add(f"{table.__name__}.{name}")
            audit = inspect.signature(method).parameters["audit"]
            assert (audit.kind, audit.default) == (audit.KEYWORD_ONLY, audit.empty), name
    assert found == CHANGES.keys()


async def begin(store: Store) -> None:
    await store.tenants.create(ACME, audit=entry("begin"))
    await store.keys.add(key(1), audit=entry("begin"))
    await store.certificates.add("CN=ci", principal=CI, audit=entry("begin"))
    await store.identities.add(identity(1), audit=entry("begin"))


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_is_recorded(store: Store, change: str) -> None:
    await begin(store)
    before = await store.directory()
    await CHANGES[change](store, entry(change, at=NOW + 1))
    assert await store.directory() != before
    assert [found.method for found in await recorded(store)] == [change, *["begin"] * 4]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_that_cannot_be_recorded_is_none(
    store: Store, url: str, change: str
) -> None:
    await begin(store)
    before = await store.directory()
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE audit RENAME TO elsewhere")
    await engine.dispose()
    with pytest.raises(StoreUnavailable):
        await CHANGES[change](store, entry(change))
    assert await store.directory() == before


async def test_a_change_that_is_refused_is_not_recorded(store: Store) -> None:
    await begin(store)
    with pytest.raises(ZeroDivisionError):
        await store.tenants.update("acme", change=lambda _: 1 / 0, audit=entry())  # type: ignore[arg-type, return-value]
    assert len(await recorded(store)) == 4


def test_an_entry_has_a_column_for_each_field() -> None:
    names = {column.name for column in AUDIT.columns} - {"id"}
    assert names == {field.name for field in fields(AuditEntry)}


async def test_texts_of_unauthenticated_callers_can_be_recorded(store: Store) -> None:
    reason = "a\0b\ud800'; DROP TABLE audit; --"
    strange = replace(entry(), reason=reason, request_id="é\n\r\t" * 999)
    await store.audit.record([strange])
    (found,) = await recorded(store)
    assert found == replace(strange, reason="a\N{REPLACEMENT CHARACTER}b?'; DROP TABLE audit; --")


def some_entries(seed: int) -> list[AuditEntry]:
    """Entries in no order, many of which have their time in common."""
    source = random.Random(seed)  # noqa: S311  # entries, not secrets
    return [
        replace(
            entry(f"m{number}", at=NOW + source.randrange(5), tenant=source.choice("ab")),
            outcome=source.choice(["OK", "NOT_FOUND"]),
        )
        for number in range(23)
    ]


async def pages(store: Store, query: AuditQuery, limit: int) -> list[Sequence[AuditEntry]]:
    found: list[Sequence[AuditEntry]] = []
    cursor = ""
    while not found or cursor:
        page = await store.audit.page(query, cursor=cursor, limit=limit)
        found.append(page.entries)
        cursor = page.cursor
    return found


@pytest.mark.parametrize("seed", range(2))
async def test_pages_have_every_entry_once_and_the_newest_first(store: Store, seed: int) -> None:
    entries = some_entries(seed)
    await store.audit.record(entries)
    numbered = sorted(enumerate(entries), key=lambda pair: (pair[1].at, pair[0]), reverse=True)
    wanted = [row for _, row in numbered]
    for limit in (1, 7, 23, 24):
        found = await pages(store, AuditQuery(), limit)
        assert [row for page in found for row in page] == wanted, seed
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
        assert len(found) == -(-len(entries) // limit)


async def test_entries_are_found_by_tenant_outcome_and_time(store: Store) -> None:
    entries = some_entries(3)
    await store.audit.record(entries)
    query = AuditQuery(tenant="a", outcome="OK", since=NOW + 1, until=NOW + 4)
    found = [row for page in await pages(store, query, 2) for row in page]
    wanted = [
        row
        for row in entries
        if (row.tenant, row.outcome) == ("a", "OK") and NOW + 1 <= row.at < NOW + 4
    ]
    assert len(found) == len(wanted) > 1
    assert set(found) == set(wanted)


async def test_pages_continue_at_their_cursor_while_entries_are_added_and_removed(
    store: Store,
) -> None:
    await store.audit.record([entry(f"m{number}", at=NOW + number) for number in range(6)])
    first = await store.audit.page(AuditQuery(), limit=2)
    await store.audit.record([entry("late", at=NOW + 99)])
    assert await store.audit.forget(before=NOW + 1, now=NOW + 100) == 1
    rest = await store.audit.page(AuditQuery(), cursor=first.cursor, limit=10)
    assert [row.method for row in first.entries] == ["m5", "m4"]
    assert [row.method for row in rest.entries] == ["m3", "m2", "m1"]
    assert rest.cursor == ""


@pytest.mark.parametrize("old", [0, 3, 4, 9])
async def test_however_many_are_old_all_are_forgotten_and_no_other(
    store: Store, old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opserve_server.store.audit, "FORGOTTEN_AT_ONCE", 4)
    await store.audit.record([entry("new", at=NOW)] + [entry("old", at=NOW - 1)] * old)
    assert await store.audit.forget(before=NOW, now=NOW + 9) == old
    *known, new = await recorded(store)
    assert new.method == "new"
    until = datetime.fromtimestamp(NOW, UTC).isoformat(timespec="seconds")
    assert [(found.at, found.face, found.method, found.detail) for found in known] == [
        (NOW + 9, "service", "ForgetAudit", f"entries={old} before={until}")
    ] * bool(old), "what was forgotten is recorded, and nothing else"


async def test_a_cursor_that_no_page_returned_is_refused(store: Store) -> None:
    for cursor in ("x", "é", "AAAA", "A" * 23, "' OR 1=1", "A" * 10_000):
        with pytest.raises(
            InvalidArgument, match=r"cursor does not accept .{1,64}; it accepts the cursor"
        ):
            await store.audit.page(AuditQuery(), cursor=cursor, limit=1)


async def test_nothing_to_record_is_no_transaction(store: Store) -> None:
    await store.audit.record([])
    assert await recorded(store) == []
