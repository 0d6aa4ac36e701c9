"""The ledger: what tenants used, as it is kept."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date

from sqlalchemy import RowMapping, select
from sqlalchemy.dialects import postgresql, sqlite

from opserve_server.core.ledger import LedgerRow
from opserve_server.store.database import Database
from opserve_server.store.tables import USAGE


class Ledger:
    """The table of usage."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, rows: Sequence[LedgerRow]) -> None:
        """Adds usage to what is there of the same tenant, day and profile; all rows or none."""
        # In one order for all, so that two who add to the same rows never wait for each other.
        added = sorted((asdict(row) for row in rows), key=_key)
        if not added:
            return
        async with self._database.append() as connection:
            dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
            new = dialect.insert(USAGE)
            total = {name: USAGE.c[name] + new.excluded[name] for name in ("device_s", "calls")}
            upsert = new.on_conflict_do_update(index_elements=USAGE.primary_key, set_=total)
            await connection.execute(upsert, added)

    async def of(
        self, tenant: str | None, *, first_day: date, last_day: date
    ) -> Sequence[LedgerRow]:
        """Usage of a tenant, or of all, by day, tenant and profile; both days are in it."""
        rows = (
            select(USAGE)
            .where(USAGE.c.day.between(first_day, last_day))
            .order_by(USAGE.c.day, USAGE.c.tenant, USAGE.c.profile)
        )
        if tenant is not None:
            rows = rows.where(USAGE.c.tenant == tenant)
        async with self._database.read() as connection:
            return [_row_of(row) for row in (await connection.execute(rows)).mappings()]


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
