"""Tenants and their quotas in the store."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import RowMapping, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_kernels.status import Status
from opserve_server.core.audit import AuditEntry
from opserve_server.core.errors import HandleNotFound, WrongState
from opserve_server.core.tenants import Quota, Resource, Tenant
from opserve_server.store.database import Database
from opserve_server.store.tables import (
    CERTIFICATES,
    CONFORMANCE_BASELINES,
    CONFORMANCE_RUNS,
    IDENTITIES,
    KEYS,
    TENANTS,
)


class Tenants:
    """The table of tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, tenant: Tenant, *, audit: AuditEntry) -> None:
        """Adds a tenant.

        Raises:
            WrongState: Its name is, or was, in use.
        """
        async with self._database.change(audit) as connection:
            try:
                await connection.execute(insert(TENANTS).values(_columns_of(tenant)))
            except IntegrityError:
                raise _name_taken(tenant.name) from None

    async def all(self) -> Sequence[Tenant]:
        """All tenants by name."""
        async with self._database.read() as connection:
            return await read_tenants(connection)

    async def deleted(self) -> Sequence[str]:
        """Names of deleted tenants."""
        gone = select(TENANTS.c.name).where(TENANTS.c.deleted_at.is_not(None))
        async with self._database.read() as connection:
            return (await connection.scalars(gone.order_by(TENANTS.c.name))).all()

    async def get(self, name: str) -> Tenant:
        """One tenant.

        Raises:
            HandleNotFound: There is none of that name.
        """
        async with self._database.read() as connection:
            return await _only(connection, _named(name), name)

    async def update(
        self, name: str, *, change: Callable[[Tenant], Tenant], audit: AuditEntry
    ) -> Tenant:
        """Replaces a tenant by the result of `change`, and returns the new one.

        Raises:
            HandleNotFound: There is none with that name.
        """
        async with self._database.change(audit) as connection:
            changed = change(await locked_tenant(connection, name))
            assert changed.name == name, "a tenant keeps its name"
            values = _columns_of(changed)
            await connection.execute(update(TENANTS).where(TENANTS.c.name == name).values(values))
        return changed

    async def delete(self, name: str, *, audit: AuditEntry) -> None:
        """Ends a tenant: revokes its keys, deletes its certificates, identities and runs.

        Its usage and audit stay, and its name is never used again, so that they remain unambiguous.

        Raises:
            HandleNotFound: There is none with that name.
        """
        async with self._database.change(audit) as connection:
            await locked_tenant(connection, name)
            row = update(TENANTS).where(TENANTS.c.name == name)
            await connection.execute(row.values(deleted_at=audit.at))
            live_keys = update(KEYS).where(KEYS.c.tenant == name, KEYS.c.revoked_at.is_(None))
            await connection.execute(live_keys.values(revoked_at=audit.at))
            for table in (CERTIFICATES, IDENTITIES, CONFORMANCE_BASELINES, CONFORMANCE_RUNS):
                await connection.execute(delete(table).where(table.c.tenant == name))


async def read_tenants(connection: AsyncConnection) -> Sequence[Tenant]:
    """All tenants by name."""
    live = select(TENANTS).where(TENANTS.c.deleted_at.is_(None)).order_by(TENANTS.c.name)
    return [_tenant_of(row) for row in (await connection.execute(live)).mappings()]


async def locked_tenant(connection: AsyncConnection, name: str) -> Tenant:
    """A tenant, locked against other changes until this transaction ends.

    Raises:
        HandleNotFound: There is none with that name.
    """
    return await _only(connection, _named(name).with_for_update(), name)


def _named(name: str) -> Select[*tuple[Any, ...]]:
    return select(TENANTS).where(TENANTS.c.name == name, TENANTS.c.deleted_at.is_(None))


async def _only(
    connection: AsyncConnection, statement: Select[*tuple[Any, ...]], name: str
) -> Tenant:
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise HandleNotFound("tenant", name, allowed="the name of a tenant")
    return _tenant_of(row)


def _columns_of(tenant: Tenant) -> dict[str, Any]:
    columns = asdict(tenant)
    quota: dict[str, Any] = columns.pop("quota")
    return columns | quota


def _tenant_of(row: RowMapping) -> Tenant:
    return Tenant(
        name=row["name"],
        quota=Quota(**{resource.value: row[resource.value] for resource in Resource}),
        weight=row["weight"],
        priority_limit=row["priority_limit"],
        disabled=row["disabled"],
    )


def _name_taken(name: str) -> WrongState:
    allowed = "a name that no tenant has or had"
    return WrongState(
        Status.ACL_ERROR_RT_PARAM_INVALID,
        f"Tenant {name} exists or existed before: choose {allowed}.",
        parameter="tenant",
        given=name,
        allowed=allowed,
    )
