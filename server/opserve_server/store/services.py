"""Directory of a farm in the store: one row for each name of a service.

Leases end by the clock of the database. Each registration of a name has a greater epoch, so that a
process that lost its name or its lease changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Double, RowMapping, cast, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_server.store.database import Database
from opserve_server.store.tables import SERVICES

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


class Services:
    """The table of services, on PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, row: ServiceRow, *, lease_s: float) -> int:
        """Takes a name, also from a live process; returns the new epoch."""
        new = insert(SERVICES).values(**row.values(), epoch=1, lease_until=NOW + lease_s)
        again = row.values() | {"epoch": SERVICES.c.epoch + 1, "lease_until": NOW + lease_s}
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
            .values(**row.values(), epoch=SERVICES.c.epoch + 1, lease_until=NOW + lease_s)
        )
        async with self._database.append() as connection:
            found = await connection.execute(again.returning(SERVICES.c.epoch))
            epoch: int | None = found.scalar_one_or_none()
            return epoch

    async def renew(
        self, row: ServiceRow, *, epoch: int, lease_s: float
    ) -> Sequence[ServiceRow] | None:
        """Renews a lease, and returns the other live services.

        Returns:
            None where the lease has ended or the epoch is not the latest; then nothing changes.
        """
        renewed = (
            update(SERVICES)
            .where(*held_by(row.name, epoch))
            .values(**row.values(), lease_until=NOW + lease_s)
        )
        async with self._database.append() as connection:
            if not (await connection.execute(renewed)).rowcount:
                return None
            return [one for one in await _live(connection) if one.name != row.name]

    async def live(self) -> Sequence[ServiceRow]:
        """All live services, by name."""
        async with self._database.read() as connection:
            return await _live(connection)

    async def leave(self, name: str, *, epoch: int) -> None:
        """Ends a lease at once; the row stays, so that epochs of the name grow."""
        ended = update(SERVICES).where(*held_by(name, epoch)).values(lease_until=0.0)
        async with self._database.append() as connection:
            await connection.execute(ended)


def held_by(name: str, epoch: int) -> tuple[ColumnElement[bool], ...]:
    """Conditions on a service: its epoch is the latest, and its lease has not ended."""
    return SERVICES.c.name == name, SERVICES.c.epoch == epoch, SERVICES.c.lease_until > NOW


async def _live(connection: AsyncConnection) -> Sequence[ServiceRow]:
    query = select(SERVICES).where(SERVICES.c.lease_until > NOW).order_by(SERVICES.c.name)
    return [_row_of(row) for row in (await connection.execute(query)).mappings()]


def _row_of(row: RowMapping) -> ServiceRow:
    return ServiceRow(**{name: row[name] for name in ServiceRow.__slots__})
