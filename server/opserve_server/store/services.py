"""Directory of a farm in the store: one row for each name of a service.

Leases end by the clock of the database. Each registration of a name has a greater epoch, so that a
process that lost its name or its lease changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Double,
    RowMapping,
    case,
    cast,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_server.store.database import Database
from opserve_server.store.tables import SERVICES

_MARGIN_S = 1.0
"""Longest time of a transaction whose change a reading finds that asks for later ones."""
NOW: ColumnElement[float] = cast(func.extract("epoch", func.clock_timestamp()), Double)
"""The clock of the database, seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRow:
    """A row of the directory: name, addresses and devices of a service.

    Attributes:
        name: Its name in the farm.
        instance: A random text of its process.
        grpc_address: Address of its gRPC API.
        http_address: Address of its Connect and REST APIs.
        version: Its version.
        contract: Digest of its descriptions of operators.
        kernel_variant: Kernel variant of its machine.
        drains: Whether it accepts no new work.
        devices: Its devices, in JSON.
        uses: Use of resources by tenant, in JSON.
    """

    name: str
    instance: str
    grpc_address: str
    http_address: str
    version: str
    contract: str
    kernel_variant: str
    drains: bool
    devices: str
    uses: str = "{}"

    def values(self) -> dict[str, object]:
        """The columns."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The directory, as far as it changed.

    Attributes:
        live: Names of all live services, in alphabetical order.
        changed: The live services that changed since a time, and maybe others.
        now_s: The time for the next reading.
    """

    live: Sequence[str]
    changed: Sequence[ServiceRow]
    now_s: float


class Services:
    """The table of services, on PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, row: ServiceRow, *, lease_s: float) -> int:
        """Takes a name, also from a live process; returns the new epoch."""
        times = {"lease_until": NOW + lease_s, "changed_at": NOW}
        new = insert(SERVICES).values(**row.values(), epoch=1, **times)
        again = row.values() | {"epoch": SERVICES.c.epoch + 1} | times
        taken = new.on_conflict_do_update(index_elements=[SERVICES.c.name], set_=again)
        async with self._database.append() as connection:
            found = await connection.execute(taken.returning(SERVICES.c.epoch))
            epoch: int = found.scalar_one()
            return epoch

    async def register_again(self, row: ServiceRow, *, lease_s: float) -> int | None:
        """Registers a process whose lease ended; returns the new epoch, None without its name."""
        again = (
            update(SERVICES)
            .where(SERVICES.c.name == row.name, SERVICES.c.instance == row.instance)
            .values(**row.values(), epoch=SERVICES.c.epoch + 1)
            .values(lease_until=NOW + lease_s, changed_at=NOW)
        )
        async with self._database.append() as connection:
            found = await connection.execute(again.returning(SERVICES.c.epoch))
            epoch: int | None = found.scalar_one_or_none()
            return epoch

    async def renew(
        self, row: ServiceRow, *, epoch: int, lease_s: float, since_s: float = 0.0
    ) -> Reading | None:
        """Renews a lease, and reads what changed since a time; 0: everything.

        Returns:
            None where the lease has ended or the epoch is not the latest; then nothing changes.
        """
        values = row.values()
        differs = or_(*(SERVICES.c[name].is_distinct_from(one) for name, one in values.items()))
        changed_at = case((differs, NOW), else_=SERVICES.c.changed_at)
        renewed = (
            update(SERVICES)
            .where(*held_by(row.name, epoch))
            .values(**values, lease_until=NOW + lease_s, changed_at=changed_at)
        )
        async with self._database.append() as connection:
            if not (await connection.execute(renewed)).rowcount:
                return None
            return await _read(connection, since_s)

    async def read(self) -> Reading:
        """All live services."""
        async with self._database.read() as connection:
            return await _read(connection, 0.0)

    async def leave(self, name: str, *, epoch: int) -> None:
        """Ends a lease at once; the row stays, so that epochs of the name grow."""
        ended = update(SERVICES).where(*held_by(name, epoch)).values(lease_until=0.0)
        async with self._database.append() as connection:
            await connection.execute(ended)


def held_by(name: str, epoch: int) -> tuple[ColumnElement[bool], ...]:
    """Conditions on a service: its epoch is the latest, and its lease has not ended."""
    return SERVICES.c.name == name, SERVICES.c.epoch == epoch, SERVICES.c.lease_until > NOW


async def _read(connection: AsyncConnection, since_s: float) -> Reading:
    lives = SERVICES.c.lease_until > NOW
    names = func.array_agg(SERVICES.c.name).filter(lives)
    live, now_s = (await connection.execute(select(names, NOW).select_from(SERVICES))).one()
    recent = SERVICES.c.changed_at > since_s - _MARGIN_S if since_s else true()
    query = select(SERVICES).where(lives, recent).order_by(SERVICES.c.name)
    changed = [_row_of(row) for row in (await connection.execute(query)).mappings()]
    return Reading(live=sorted(live or ()), changed=changed, now_s=now_s)


def _row_of(row: RowMapping) -> ServiceRow:
    return ServiceRow(**{name: row[name] for name in ServiceRow.__slots__})
