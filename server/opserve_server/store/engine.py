"""Engine: connections to a file of SQLite or to a PostgreSQL server."""

import os
import time
from functools import partial
from sqlite3 import OperationalError
from typing import assert_never
from urllib.parse import quote

from sqlalchemy import URL, Connection, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from opserve_server.store.location import File, Server

ANSWER_MARGIN_S = 1.0
"""Seconds for a server to report that it stopped a statement; then its connection ends."""
_MODE_CHANGE_S, _MODE_PAUSE_S = 1.0, 0.01
"""Longest wait for another process that makes the same file, and pause between two attempts."""
_WRITES = "opserve_writes"


def new_engine(location: File | Server, *, timeout_s: float, connections_limit: int) -> AsyncEngine:
    """An engine that has not connected yet.

    Args:
        location: Location of the database.
        timeout_s: Longest wait for a connection, a lock or a statement, seconds.
        connections_limit: Open connections at once.

    Raises:
        OSError: The file, or a folder for it, cannot be made.
    """
    create = partial(
        create_async_engine,
        pool_size=connections_limit,
        max_overflow=0,
        pool_timeout=timeout_s,
        hide_parameters=True,
    )
    match location:
        case File():
            return _engine_of_file(location, create, timeout_s)
        case Server():
            return _engine_of_server(location, create, timeout_s)
        case _:
            assert_never(location)


def reading(engine: AsyncEngine) -> AsyncEngine:
    """The engine for read transactions, each on a consistent snapshot."""
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="REPEATABLE READ")
    return engine


def writing(engine: AsyncEngine) -> AsyncEngine:
    """The engine for write transactions: on SQLite they take the file's lock at their begin."""
    return engine.execution_options(**{_WRITES: True})


def _engine_of_file(
    location: File, create: "partial[AsyncEngine]", timeout_s: float
) -> AsyncEngine:
    _make_private(location)
    # Read and write, never create: a new connection must not replace a deleted file by an empty
    # one.
    file = f"file:{quote(str(location.path.absolute()))}"
    query = {"mode": "rw", "uri": "true"}
    url = URL.create("sqlite+aiosqlite", database=file, query=query)
    # No isolation level, so that sqlite3 begins no transaction by itself, and none too late.
    engine = create(url, connect_args={"timeout": timeout_s, "isolation_level": None})
    event.listen(engine.sync_engine, "connect", _set_up)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _make_private(location: File) -> None:
    """Restricts the file to its owner; SQLite gives its -wal and -shm files the same mode."""
    location.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(location.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(file, 0o600)
    finally:
        os.close(file)


def _set_up(connection: DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    end_s = time.monotonic() + _MODE_CHANGE_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            break
        except OperationalError:
            # Another process changes the mode of a new file; SQLite does not wait for that.
            if time.monotonic() > end_s:
                raise
            time.sleep(_MODE_PAUSE_S)
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _engine_of_server(
    location: Server, create: "partial[AsyncEngine]", timeout_s: float
) -> AsyncEngine:
    # asyncpg parses the URL like libpq, with sslmode and other options; SQLAlchemy never sees it.
    arguments = {
        "dsn": location.url,
        "timeout": timeout_s,
        "command_timeout": timeout_s + ANSWER_MARGIN_S,
        "server_settings": {
            "application_name": "opserve",
            "statement_timeout": str(round(timeout_s * 1000)),
            # A frozen service must not keep rows locked that others wait for.
            "idle_in_transaction_session_timeout": str(round(timeout_s * 1000)),
        },
    }
    return create("postgresql+asyncpg://", connect_args=arguments, pool_pre_ping=True)
