"""Store: data that outlives the service, in a file of SQLite or on a PostgreSQL server."""

import errno
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from opserve_server.core.directory import KEYLESS, Directory
from opserve_server.core.errors import StoreUnavailable
from opserve_server.settings import SettingRefused, where_set
from opserve_server.store.audit import AuditLog
from opserve_server.store.certificates import Certificates, read_certificates
from opserve_server.store.database import Database, reason
from opserve_server.store.engine import new_engine
from opserve_server.store.identities import Identities, read_identities
from opserve_server.store.keys import Keys, read_keys
from opserve_server.store.ledger import Ledger
from opserve_server.store.location import File, Missing, Server, location_of
from opserve_server.store.runs import Runs
from opserve_server.store.tables import CHANGES
from opserve_server.store.tenants import Tenants, read_tenants
from opserve_server.store.upgrade import (
    REVISIONS,
    UnknownRevision,
    bring_up_to_date,
    has_tables,
)

_REMEDY = "restore it, or make another with its first key by `opserve bootstrap`"
_RELATIVE = " (the relative path of the setting depends on the working directory)"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Store:
    """Tables of the store.

    A method for an administrator's change takes its audit entry: both are written, or neither.

    Attributes:
        database: Transactions on further tables, of a farm.
    """

    tenants: Tenants
    keys: Keys
    certificates: Certificates
    identities: Identities
    usage: Ledger
    audit: AuditLog
    runs: Runs
    database: Database
    _location: File | Server
    _revision: tuple[int, Directory] = (-1, KEYLESS)

    async def directory(self) -> Directory:
        """A consistent snapshot of tenants, keys and certificates.

        Until one of them changes it is the same snapshot, whose keys may have been used later.
        """
        async with self.database.read() as connection:
            number = (await connection.execute(select(CHANGES.c.number))).scalar_one()
            known, directory = self._revision
            if number == known:
                return directory
            tenants = await read_tenants(connection)
            keys = await read_keys(connection)
            certificates = await read_certificates(connection)
            identities = await read_identities(connection)
        directory = Directory(
            tenants={tenant.name: tenant for tenant in tenants},
            keys={key.sha256: key for key in keys},
            certificates=certificates,
            identities=identities,
        )
        self._revision = (number, directory)
        return directory

    def has_had_keys(self) -> bool:
        """Whether a store at this location ever had a key; answers without the store."""
        return self._location.has_had_keys()

    def note_keys(self) -> None:
        """Records that this store has keys, in a marker that outlives it.

        Raises:
            StoreUnavailable: The marker cannot be written.
        """
        try:
            self._location.note_keys()
        except OSError as error:
            log.error("the store failed: %s", reason(error))  # noqa: TRY400  # as of the database
            raise StoreUnavailable from None


@asynccontextmanager
async def open_store(
    url: str, *, timeout_s: float, connections_limit: int, missing: Missing = Missing.CREATE
) -> AsyncGenerator[Store]:
    """A store at the newest revision, for the duration of the block.

    Args:
        url: sqlite:///file or postgresql://user:password@host/database.
        timeout_s: Longest wait for a connection, a lock or a statement, seconds.
        connections_limit: Open connections at once.
        missing: Handling of a store that does not exist, or has no tables.

    Raises:
        SettingRefused: The store is missing or empty, cannot be used, or belongs to a later
            opserve.
    """
    location = location_of(url)
    try:
        if missing is Missing.REJECT:
            _check_file(location)
        engine = new_engine(location, timeout_s=timeout_s, connections_limit=connections_limit)
    except OSError as error:
        raise _refused(location, f"cannot be opened: {error.strerror}") from None
    try:
        await _prepare(engine, location, missing)
        database = Database(engine, check_place=_check_of_place(location))
        yield Store(
            Tenants(database),
            Keys(database),
            Certificates(database),
            Identities(database),
            Ledger(database),
            AuditLog(database),
            Runs(database),
            database,
            location,
        )
    finally:
        await engine.dispose()


def _check_file(location: File | Server) -> None:
    """Rejects a file that is missing or empty, before a connection would create one."""
    if isinstance(location, File):
        if not location.is_there():
            moved = "" if location.path.is_absolute() else _RELATIVE
            raise _refused(location, f"is missing{moved}: {_REMEDY}")
        if not location.path.stat().st_size:
            raise _refused(location, f"is empty: {_REMEDY}")


def _check_of_place(location: File | Server) -> Callable[[], None]:
    """Raises OSError once the opened file was replaced or is empty."""
    if not isinstance(location, File):
        return lambda: None
    path, opened = location.path, location.path.stat()

    def check() -> None:
        found = path.stat()
        if not os.path.samestat(found, opened):
            raise OSError(errno.ESTALE, "another file has taken its place", str(path))
        if not found.st_size:
            raise OSError(errno.ENODATA, "the file is empty", str(path))

    return check


async def _prepare(engine: AsyncEngine, location: File | Server, missing: Missing) -> None:
    try:
        if missing is Missing.REJECT and not await has_tables(engine):
            raise _refused(location, f"has no tables: {_REMEDY}")
        await bring_up_to_date(engine)
    except UnknownRevision as error:
        known = f"this opserve supports {REVISIONS[0]} to {REVISIONS[-1]}"
        raise _refused(location, f"has revision {error} of a later opserve; {known}") from None
    except (SQLAlchemyError, OSError, ValueError) as error:
        raise _refused(location, f"cannot be used: {reason(error)}") from None


def _refused(location: File | Server, why: str) -> SettingRefused:
    return SettingRefused(f"store_url {location} {why}. Set it by {where_set('store_url')}.")
