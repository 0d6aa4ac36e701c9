"""Errors of a database that does not answer reveal no statement, no value and no password."""

import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from opserve_server.core.errors import StoreUnavailable
from opserve_server.settings import SettingRefused
from opserve_server.store.store import Store, open_store
from server.store.postgresql import PASSWORD, Postgresql
from server.store.samples import ACME, engine_of, entry

SHORT_S = 1.0
"""Far more than a statement takes; a lock is held, and a connection used, for as long as it."""


@asynccontextmanager
async def hasty_store(url: str) -> AsyncGenerator[Store]:
    """A store with a short time limit, whose tables exist already."""
    async with open_store(url, timeout_s=20.0, connections_limit=1):
        pass
    async with open_store(url, timeout_s=SHORT_S, connections_limit=1) as store:
        yield store


def check_message(error: StoreUnavailable, log: pytest.LogCaptureFixture) -> None:
    """Neither the error nor the log has SQL or values, and the log has the cause."""
    assert error.message == "The database of tenants and keys does not answer: retry later."
    assert error.__suppress_context__
    (record,) = [found for found in log.records if found.name.startswith("opserve_server.store")]
    assert (record.levelno, record.exc_info) == (logging.ERROR, None)
    said = record.getMessage()
    assert said.startswith("the store failed: ")
    for hidden in ("INSERT", "SELECT", "tenants (", "acme", PASSWORD):
        assert hidden not in said


async def test_a_lock_that_another_holds_is_waited_for_so_long(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hasty_store(url) as store:
        await store.tenants.create(ACME, audit=entry())
        engine = engine_of(url)
        async with engine.begin() as other:
            await other.exec_driver_sql("UPDATE tenants SET weight = 5")
            with pytest.raises(StoreUnavailable) as caught:
                await store.tenants.delete("acme", audit=entry())
            check_message(caught.value, caplog)
        await engine.dispose()
        await store.tenants.delete("acme", audit=entry())


async def test_a_connection_is_waited_for_so_long(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hasty_store(url) as store:
        async with store.database.read():
            with pytest.raises(StoreUnavailable) as caught:
                await store.tenants.all()
        check_message(caught.value, caplog)
        assert await store.tenants.all() == []


async def test_a_failure_reveals_no_statement_and_no_value(
    store: Store, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_of(url)
    async with engine.begin() as other:
        await other.exec_driver_sql("ALTER TABLE tenants RENAME TO elsewhere")
    await engine.dispose()
    with pytest.raises(StoreUnavailable) as caught:
        await store.tenants.create(ACME, audit=entry())
    check_message(caught.value, caplog)


async def test_a_restarted_server_is_found_again(
    postgresql_server: Postgresql, caplog: pytest.LogCaptureFixture
) -> None:
    url = await postgresql_server.empty_database()
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'test'"
    async with open_store(url, timeout_s=20.0, connections_limit=1) as store:
        assert await store.tenants.all() == []
        await postgresql_server.run(cut)
        assert await store.tenants.all() == []  # by a new connection

        await postgresql_server.run("ALTER DATABASE test ALLOW_CONNECTIONS false")
        await postgresql_server.run(cut)
        with pytest.raises(StoreUnavailable) as caught:
            await store.tenants.all()
        check_message(caught.value, caplog)

        await postgresql_server.run("ALTER DATABASE test ALLOW_CONNECTIONS true")
        assert await store.tenants.all() == []


@pytest.mark.parametrize(
    "place", ["/none?host=/nowhere", "127.0.0.1:1/none", "127.0.0.1:port/none", "[/none"]
)
async def test_an_unreachable_server_is_reported_without_its_password(place: str) -> None:
    with pytest.raises(SettingRefused, match=r"store_url postgresql://.* cannot be used: ") as no:
        async with open_store(
            f"postgresql://me:{PASSWORD}@{place}", timeout_s=5.0, connections_limit=1
        ):
            pass
    assert PASSWORD not in str(no.value)
    assert str(no.value).endswith("Set it by OPSERVE_STORE_URL.")
    assert no.value.__suppress_context__


async def test_a_missing_database_is_reported(postgresql_server: Postgresql) -> None:
    url = postgresql_server.url("nothing_here")
    with pytest.raises(SettingRefused, match='database "nothing_here" does not exist'):
        async with open_store(url, timeout_s=5.0, connections_limit=1):
            pass


async def test_a_file_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    url = f"sqlite:///{tmp_path / 'file' / 'opserve.db'}"
    with pytest.raises(SettingRefused, match=r"opserve\.db cannot be opened: ") as no:
        async with open_store(url, timeout_s=5.0, connections_limit=1):
            pass
    assert "given" not in str(no.value)


async def test_a_file_that_is_no_database_is_reported_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database\n" * 100)
    with pytest.raises(SettingRefused, match="file is not a database"):
        async with open_store(f"sqlite:///{file}", timeout_s=5.0, connections_limit=1):
            pass
    assert file.read_text() == "not a database\n" * 100


async def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / "opserve" / "opserve.db"
    async with open_store(f"sqlite:///{file}", timeout_s=5.0, connections_limit=1) as store:
        await store.tenants.create(ACME, audit=entry())
        modes = {found.name: found.stat().st_mode & 0o777 for found in file.parent.iterdir()}
        assert modes == {"opserve.db": 0o600, "opserve.db-wal": 0o600, "opserve.db-shm": 0o600}
        assert file.parent.stat().st_mode & 0o777 == 0o700
    file.chmod(0o644)
    async with open_store(f"sqlite:///{file}", timeout_s=5.0, connections_limit=1):
        assert file.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_certificate_needs_its_tenant_in_the_tables_too(store: Store) -> None:
    async with store.database.append() as connection:
        orphan = "INSERT INTO certificates VALUES ('CN=x', 'nobody', 'x', '')"
        with pytest.raises(IntegrityError, match=r"(?i)foreign key"):
            await connection.exec_driver_sql(orphan)
