"""The table of trusted identities."""

import json
from collections.abc import Sequence

from sqlalchemy import RowMapping, delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_kernels.status import Status
from opserve_server.core.audit import AuditEntry
from opserve_server.core.directory import TrustedIdentity
from opserve_server.core.errors import HandleNotFound, WrongState
from opserve_server.store.database import Database
from opserve_server.store.principals import columns_of, principal_of
from opserve_server.store.tables import IDENTITIES
from opserve_server.store.tenants import locked_tenant


class Identities:
    """The table of trusted identities."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, identity: TrustedIdentity, *, audit: AuditEntry) -> None:
        """Adds an identity.

        Raises:
            HandleNotFound: The tenant does not exist.
            WrongState: The same issuer, audience and claims are trusted already.
        """
        row = {
            "id": identity.id,
            "issuer": identity.issuer,
            "audience": identity.audience,
            "claims": json.dumps(identity.claims),
            "created_at": identity.created_at,
            **columns_of(identity.principal),
        }
        async with self._database.change(audit) as connection:
            await locked_tenant(connection, identity.principal.tenant)
            try:
                await connection.execute(insert(IDENTITIES).values(row))
            except IntegrityError:
                raise _already_trusted(identity.id) from None

    async def remove(self, identity_id: str, *, audit: AuditEntry) -> None:
        """Removes an identity.

        Raises:
            HandleNotFound: No identity has this id.
        """
        row = delete(IDENTITIES).where(IDENTITIES.c.id == identity_id)
        async with self._database.change(audit) as connection:
            if (await connection.execute(row)).rowcount == 0:
                raise HandleNotFound("identity", identity_id, allowed="the id of an identity")


async def read_identities(connection: AsyncConnection) -> Sequence[TrustedIdentity]:
    """All trusted identities, the oldest first."""
    in_order = select(IDENTITIES).order_by(IDENTITIES.c.created_at, IDENTITIES.c.id)
    return tuple(_identity_of(row) for row in (await connection.execute(in_order)).mappings())


def _identity_of(row: RowMapping) -> TrustedIdentity:
    return TrustedIdentity(
        id=row["id"],
        issuer=row["issuer"],
        audience=row["audience"],
        claims=tuple(json.loads(row["claims"])),
        principal=principal_of(row),
        created_at=row["created_at"],
    )


def _already_trusted(identity_id: str) -> WrongState:
    return WrongState(
        Status.ACL_ERROR_RT_PARAM_INVALID,
        f"Identity {identity_id} has the same issuer, audience and claims: remove it first with "
        f"`opserve identity remove {identity_id}`.",
        parameter="identity",
        given=f"the issuer, audience and claims of identity {identity_id}",
        allowed="an issuer, audience and claims that no identity has",
    )
