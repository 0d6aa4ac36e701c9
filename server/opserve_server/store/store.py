"""The store: what must outlive the service, in a file of SQLite or on a PostgreSQL server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from opserve_server.core.directory import KEYLESS, Directory
from opserve_server.settings import SettingRefused, where_set
from opserve_server.store.audit import AuditLog
from opserve_server.store.certificates import Certificates, read_certificates
from opserve_server.store.database import Database, reason
from opserve_server.store.engine import new_engine
from opserve_server.store.keys import Keys, read_keys
from opserve_server.store.ledger import Ledger
from opserve_server.store.location import File, Server, location_of
from opserve_server.store.runs import Runs
from opserve_server.store.tables import CHANGES
from opserve_server.store.tenants import Tenants, read_tenants
from opserve_server.store.upgrade import REVISIONS, UnknownRevision, bring_up_to_date


@dataclass(slots=True)
class Store:
    """What is kept.

    A method that changes it as an administrator asks takes the audit entry of that: both are
    written, or neither.
    """

    tenants: Tenants
    keys: Keys
    certificates: Certificates
    usage: Ledger
    audit: AuditLog
    runs: Runs
    _database: Database
    _known: tuple[int, Directory] = (-1, KEYLESS)

    async def directory(self) -> Directory:
        """Who may call, as it is at one moment.

        While nobody changes that it is the same snapshot, whose keys may have been used later.
        """
        async with self._database.read() as connection:
            number = (await connection.execute(select(CHANGES.c.number))).scalar_one()
            known, directory = self._known
            if number == known:
                return directory
            tenants = await read_tenants(connection)
            keys = await read_keys(connection)
            certificates = await read_certificates(connection)
        directory = Directory(
            tenants={tenant.name: tenant for tenant in tenants},
            keys={key.sha256: key for key in keys},
            certificates=certificates,
        )
        self._known = (number, directory)
        return directory


@asynccontextmanager
async def open_store(
    url: str, *, timeout_s: float, connections_limit: int
) -> AsyncGenerator[Store]:
    """A store, brought to the newest revision, for as long as the block runs.

    Args:
        url: sqlite:///file or postgresql://user:password@host/database.
        timeout_s: Longest wait for a connection, a lock or a statement, seconds.
        connections_limit: Open connections at once.

    Raises:
        SettingRefused: There is no store, or it is of a later opserve.
    """
    location = location_of(url)
    try:
        engine = new_engine(location, timeout_s=timeout_s, connections_limit=connections_limit)
    except OSError as error:
        raise _refused(location, f"cannot be opened: {error.strerror}") from None
    try:
        await _prepare(engine, location)
        database = Database(engine)
        yield Store(
            Tenants(database),
            Keys(database),
            Certificates(database),
            Ledger(database),
            AuditLog(database),
            Runs(database),
            database,
        )
    finally:
        await engine.dispose()


async def _prepare(engine: AsyncEngine, location: File | Server) -> None:
    try:
        await bring_up_to_date(engine)
    except UnknownRevision as error:
        known = f"this opserve knows {REVISIONS[0]} to {REVISIONS[-1]}"
        raise _refused(location, f"has revision {error} of a later opserve; {known}") from None
    except (SQLAlchemyError, OSError, ValueError) as error:
        raise _refused(location, f"cannot be used: {reason(error)}") from None


def _refused(location: File | Server, why: str) -> SettingRefused:
    return SettingRefused(f"store_url: {location} {why}; set by {where_set('store_url')}")
