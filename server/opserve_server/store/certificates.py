"""Client certificates in the store, with their principals."""

from collections.abc import Mapping

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_kernels.errors import VALUE_CHARACTERS, shortened
from opserve_kernels.status import Status
from opserve_server.core.audit import AuditEntry
from opserve_server.core.errors import HandleNotFound, WrongState
from opserve_server.core.principal import Principal
from opserve_server.store.database import Database
from opserve_server.store.principals import columns_of, principal_of
from opserve_server.store.tables import CERTIFICATES
from opserve_server.store.tenants import locked_tenant


class Certificates:
    """The table of certificates."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, subject: str, *, principal: Principal, audit: AuditEntry) -> None:
        """Adds a certificate by its subject, or by a name as in Directory.

        Raises:
            HandleNotFound: The tenant does not exist.
            WrongState: The subject belongs to a principal already.
        """
        row = {"subject": subject, **columns_of(principal)}
        async with self._database.change(audit) as connection:
            await locked_tenant(connection, principal.tenant)
            try:
                await connection.execute(insert(CERTIFICATES).values(row))
            except IntegrityError:
                raise _subject_taken(subject) from None

    async def of(self, tenant: str) -> Mapping[str, Principal]:
        """Principals of a tenant by the subjects of their certificates."""
        async with self._database.read() as connection:
            everybody = await read_certificates(connection)
        return {subject: who for subject, who in everybody.items() if who.tenant == tenant}

    async def remove(self, subject: str, *, audit: AuditEntry) -> None:
        """Deletes a certificate.

        Raises:
            HandleNotFound: There is none with that subject.
        """
        row = delete(CERTIFICATES).where(CERTIFICATES.c.subject == subject)
        async with self._database.change(audit) as connection:
            if (await connection.execute(row)).rowcount == 0:
                raise HandleNotFound("certificate", subject, allowed="a subject that is known")


async def read_certificates(connection: AsyncConnection) -> Mapping[str, Principal]:
    """All principals by the subjects of their certificates."""
    rows = await connection.execute(select(CERTIFICATES).order_by(CERTIFICATES.c.subject))
    return {row["subject"]: principal_of(row) for row in rows.mappings()}


def _subject_taken(subject: str) -> WrongState:
    return WrongState(
        Status.ACL_ERROR_RT_PARAM_INVALID,
        f"{shortened(subject, VALUE_CHARACTERS)} has a principal already: remove it first with "
        "`opserve certificate remove`.",
        parameter="certificate",
        given=subject,
        allowed="a subject that is not in use: remove it first",
    )
