"""Audit log in the store: adds, reads and deletes old entries."""

import base64
import binascii
import struct
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, delete, select, tuple_

from opserve_kernels.status import Status
from opserve_server.core.audit import AuditEntry, AuditPage, AuditQuery
from opserve_server.core.errors import InvalidArgument
from opserve_server.store.database import Database, record
from opserve_server.store.tables import AUDIT

FORGOTTEN_AT_ONCE = 1000
"""Entries deleted in one transaction, so that none takes longer than a statement may."""
_CURSOR = struct.Struct(">dq")
"""Time and number of the last entry of a page."""


class AuditLog:
    """The table of audit entries; no method changes one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Adds entries of calls that changed nothing; all of them or none."""
        if entries:
            async with self._database.append() as connection:
                await record(connection, entries)

    async def page(self, query: AuditQuery, *, cursor: str = "", limit: int) -> AuditPage:
        """At most `limit` entries, the newest first, from a cursor on.

        Raises:
            InvalidArgument: The cursor does not come from a page.
        """
        conditions = _conditions(query)
        if cursor:
            conditions.append(tuple_(AUDIT.c.at, AUDIT.c.id) < tuple_(*_place_of(cursor)))
        newest_first = select(AUDIT).order_by(AUDIT.c.at.desc(), AUDIT.c.id.desc())
        async with self._database.read() as connection:
            found = await connection.execute(newest_first.where(*conditions).limit(limit + 1))
            rows = found.mappings().all()
        names = [field.name for field in fields(AuditEntry)]
        entries = [AuditEntry(**{name: row[name] for name in names}) for row in rows[:limit]]
        if len(rows) <= limit:
            return AuditPage(entries=entries, cursor="")
        last = rows[limit - 1]
        return AuditPage(entries=entries, cursor=_cursor_at(last["at"], last["id"]))

    async def forget(self, *, before: float, now: float) -> int:
        """Deletes entries before a time, seconds since 1970; returns their number.

        If there were any, an entry records it, in the transaction of the last deletion.
        """
        old = select(AUDIT.c.id).where(AUDIT.c.at < before).limit(FORGOTTEN_AT_ONCE)
        forgotten, more = 0, True
        while more:
            async with self._database.append() as connection:
                some = await connection.execute(delete(AUDIT).where(AUDIT.c.id.in_(old)))
                forgotten += some.rowcount
                more = some.rowcount == FORGOTTEN_AT_ONCE
                if forgotten and not more:
                    await record(connection, [_forgotten(forgotten, before=before, now=now)])
        return forgotten


def _forgotten(entries: int, *, before: float, now: float) -> AuditEntry:
    until = datetime.fromtimestamp(before, UTC).isoformat(timespec="seconds")
    return AuditEntry(
        at=now,
        tenant="",
        principal="",
        face="service",
        method="ForgetAudit",
        outcome="OK",
        detail=f"entries={entries} before={until}",
    )


def _conditions(query: AuditQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.tenant is not None:
        conditions.append(AUDIT.c.tenant == query.tenant)
    if query.outcome is not None:
        conditions.append(AUDIT.c.outcome == query.outcome)
    if query.since is not None:
        conditions.append(AUDIT.c.at >= query.since)
    if query.until is not None:
        conditions.append(AUDIT.c.at < query.until)
    return conditions


def _cursor_at(at: float, number: int) -> str:
    return base64.urlsafe_b64encode(_CURSOR.pack(at, number)).decode()


def _place_of(cursor: str) -> tuple[float, int]:
    try:
        at, number = _CURSOR.unpack(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, struct.error, ValueError):
        allowed = "the cursor of a page"
        raise InvalidArgument(
            Status.ACL_ERROR_INVALID_PARAM,
            parameter="cursor",
            given=cursor[:64],
            allowed=allowed,
        ) from None
    return at, number
