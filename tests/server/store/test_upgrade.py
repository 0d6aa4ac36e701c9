"""Stores are upgraded to the newest revision: once, under concurrent starts, and atomically."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

import opserve_server.store
from opserve_server.settings import SettingRefused
from opserve_server.store import engine
from opserve_server.store.engine import writing
from opserve_server.store.store import Store, open_store
from opserve_server.store.tables import METADATA
from opserve_server.store.upgrade import REVISION, REVISIONS, upgrade
from server.store.samples import ACME, UMBRA, engine_of, entry

PROCESSES = 2
OPENS = """
import asyncio, sys
import alembic.command
from opserve_server.store.store import open_store

async def opens(url):
    async with open_store(url, timeout_s=30.0, connections_limit=1) as store:
        print(len(await store.tenants.all()), flush=True)

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(opens(sys.argv[1]))
"""
OPENS_AT_ONCE = """
import asyncio, sys
from opserve_server.store.store import open_store

async def opens(url):
    async with open_store(url, timeout_s=30.0, connections_limit=1):
        print("alembic" in sys.modules)

asyncio.run(opens(sys.argv[1]))
"""

on_both_databases = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
"""For tests that start processes: PostgreSQL's run with the slow tests."""


def test_the_revisions_are_those_of_the_modules() -> None:
    scripts = Path(next(iter(opserve_server.store.__path__))) / "migrations"
    found = ScriptDirectory(str(scripts)).walk_revisions()
    assert [script.revision for script in found] == list(reversed(REVISIONS))


async def test_migrations_make_the_tables_that_the_code_expects(url: str) -> None:
    def differences(connection: Connection) -> object:
        options = {"version_table": REVISION.name, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)

    async with open_store(url, timeout_s=5.0, connections_limit=1) as store:
        assert await store.tenants.all() == []
    engine = engine_of(url)
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


class Busy:
    """A connection to a file whose mode another process changes for three attempts."""

    def __init__(self) -> None:
        self.refusals = 3
        self.statements: list[str] = []

    def cursor(self) -> "Busy":
        return self

    def execute(self, statement: str) -> None:
        if "journal_mode" in statement and self.refusals:
            self.refusals -= 1
            raise sqlite3.OperationalError("database is locked")
        self.statements.append(statement)

    def close(self) -> None:
        """Does nothing."""


def test_a_new_file_whose_mode_another_process_changes_is_opened_after_it() -> None:
    busy = Busy()
    engine._set_up(cast("Any", busy), None)
    assert busy.refusals == 0
    assert busy.statements == ["PRAGMA journal_mode = WAL", "PRAGMA foreign_keys = ON"]


@on_both_databases
def test_processes_that_open_a_new_store_at_once_all_find_it(url: str) -> None:
    starting = [
        subprocess.Popen(
            [sys.executable, "-c", OPENS, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for process in starting:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in starting:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=300)[0] for process in starting]
    assert answers == ["0\n"] * PROCESSES


async def test_a_store_of_a_later_opserve_is_refused_and_untouched(url: str) -> None:
    async with open_store(url, timeout_s=5.0, connections_limit=1) as store:
        await store.tenants.create(ACME, audit=entry())
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE opserve_revision SET version_num = '9999'")
    message = r"store_url .* has revision 9999 of a later opserve; this opserve supports 0001 to "
    with pytest.raises(SettingRefused, match=message):
        async with open_store(url, timeout_s=5.0, connections_limit=1):
            pass
    async with engine.begin() as connection:
        await connection.exec_driver_sql(
            f"UPDATE opserve_revision SET version_num = '{REVISIONS[-1]}'"  # noqa: S608
        )
    await engine.dispose()
    async with open_store(url, timeout_s=5.0, connections_limit=1) as store:
        assert await store.tenants.all() == [ACME]


async def test_rows_of_an_older_store_are_kept(url: str) -> None:
    engine = engine_of(url)
    async with writing(engine).begin() as connection:
        await connection.run_sync(upgrade, revision=REVISIONS[0])
        row = "(name, weight, priority_limit, disabled) VALUES ('umbra', 1, 0, false)"
        await connection.exec_driver_sql(f"INSERT INTO tenants {row}")
    await engine.dispose()
    async with open_store(url, timeout_s=5.0, connections_limit=1) as store:
        assert await store.tenants.all() == [UMBRA]
        assert (await store.directory()).tenants == {"umbra": UMBRA}


async def test_an_upgrade_that_fails_leaves_nothing(url: str) -> None:
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("CREATE TABLE audit (of_another_program INTEGER)")
    with pytest.raises(SettingRefused, match=r"audit.* already exists"):
        async with open_store(url, timeout_s=5.0, connections_limit=1):
            pass
    async with engine.connect() as connection:
        assert await connection.run_sync(lambda sync: inspect(sync).get_table_names()) == ["audit"]
    await engine.dispose()


@on_both_databases
async def test_a_store_that_is_up_to_date_is_opened_without_alembic(store: Store, url: str) -> None:
    assert await store.tenants.all() == []
    command = [sys.executable, "-c", OPENS_AT_ONCE, url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: ASYNC221
    assert output == "False\n"
