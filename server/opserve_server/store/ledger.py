"""Ledger in the store: device time of tenants."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date

from sqlalchemy import RowMapping, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_server.core.ledger import Flush, LedgerRow
from opserve_server.store.database import Database
from opserve_server.store.tables import FLUSHES, USAGE

WRITERS_KEPT_S = 30 * 86_400.0
"""Seconds for which the last flush of a process is recorded: longer than it retries one."""


class Ledger:
    """The table of usage."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, flush: Flush) -> None:
        """Adds usage to the rows of the same tenant, day and profile; all rows or none.

        A flush in the table is not added again: its writer missed the answer, and sends it once
        more.
        """
        # In a common order, so that two writers of the same rows cannot deadlock.
        added = sorted((asdict(row) for row in flush.rows), key=_key)
        if not added:
            return
        async with self._database.append() as connection:
            dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
            if not await _is_new(connection, flush, dialect.insert(FLUSHES)):
                return
            new = dialect.insert(USAGE)
            total = {name: USAGE.c[name] + new.excluded[name] for name in ("device_s", "calls")}
            upsert = new.on_conflict_do_update(index_elements=USAGE.primary_key, set_=total)
            await connection.execute(upsert, added)

    async def of(
        self, tenant: str | None, *, first_day: date, last_day: date
    ) -> Sequence[LedgerRow]:
        """Usage of a tenant, or of all, by day, tenant and profile; both days are included."""
        rows = (
            select(USAGE)
            .where(USAGE.c.day.between(first_day, last_day))
            .order_by(USAGE.c.day, USAGE.c.tenant, USAGE.c.profile)
        )
        if tenant is not None:
            rows = rows.where(USAGE.c.tenant == tenant)
        async with self._database.read() as connection:
            return [_row_of(row) for row in (await connection.execute(rows)).mappings()]


async def _is_new(
    connection: AsyncConnection, flush: Flush, insert: postgresql.Insert | sqlite.Insert
) -> bool:
    """Records a flush; returns whether it is new. Deletes records of old writers."""
    new = insert.values(writer=flush.writer, number=flush.number, at=flush.at)
    noted = new.on_conflict_do_update(
        index_elements=FLUSHES.primary_key,
        set_={"number": new.excluded.number, "at": new.excluded.at},
        where=FLUSHES.c.number < new.excluded.number,
    )
    if flush.number == 1:
        gone = FLUSHES.c.at < flush.at - WRITERS_KEPT_S
        await connection.execute(delete(FLUSHES).where(gone))
    return (await connection.execute(noted)).rowcount > 0


def _row_of(row: RowMapping) -> LedgerRow:
    return LedgerRow(
        tenant=row["tenant"],
        day=row["day"],
        profile=row["profile"],
        device_s=row["device_s"],
        calls=row["calls"],
    )


def _key(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[column.name] for column in USAGE.primary_key)
