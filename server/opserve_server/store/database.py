"""Transactions on the store, and the errors of a failing store."""

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict

from sqlalchemy import insert, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from opserve_server.core.audit import AuditEntry
from opserve_server.core.errors import StoreUnavailable
from opserve_server.store.engine import reading, writing
from opserve_server.store.tables import AUDIT, CHANGES

log = logging.getLogger(__name__)


class Database:
    """Transactions on the tables.

    An exception inside a block rolls its transaction back. Failures of the database are raised as
    StoreUnavailable.

    Args:
        engine: Makes connections.
        check_place: Raises OSError where the database was moved or replaced: SQLite continues on a
            file that was removed, and its changes would be lost.
    """

    def __init__(self, engine: AsyncEngine, *, check_place: Callable[[], None]) -> None:
        self._check_place = check_place
        self._reading = reading(engine)
        self._writing = writing(engine)

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection]:
        """Reads a consistent snapshot."""
        with _formatted():
            self._check_place()
            async with self._reading.begin() as connection:
                yield connection

    @asynccontextmanager
    async def append(self) -> AsyncGenerator[AsyncConnection]:
        """Writes records of the service itself: usage, last uses, rejections."""
        with _formatted():
            self._check_place()
            async with self._writing.begin() as connection:
                yield connection

    @asynccontextmanager
    async def change(self, audit: AuditEntry) -> AsyncGenerator[AsyncConnection]:
        """Writes a change by an administrator together with its audit entry, or neither."""
        async with self.append() as connection:
            yield connection
            await record(connection, [audit])
            await connection.execute(update(CHANGES).values(number=CHANGES.c.number + 1))


async def record(connection: AsyncConnection, entries: Sequence[AuditEntry]) -> None:
    """Adds audit entries in the transaction of a connection."""
    rows = [{name: _storable(value) for name, value in asdict(entry).items()} for entry in entries]
    await connection.execute(insert(AUDIT), rows)


def _storable(value: object) -> object:
    """Removes characters that PostgreSQL rejects from texts of callers: NUL and lone surrogates."""
    if not isinstance(value, str):
        return value
    return value.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


@contextmanager
def _formatted() -> Generator[None]:
    """Raises failures of the database as StoreUnavailable, without SQL or values."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        log.error("the store failed: %s", reason(error))  # noqa: TRY400  # a traceback has SQL
        raise StoreUnavailable from None


def reason(error: BaseException) -> str:
    """The database's own description of a failure, without statement, values or passwords."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    said = str(error).partition("\n")[0]  # the server's next line is DETAIL, with values
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
