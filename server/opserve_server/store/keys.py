"""API keys in the store: their hashes, never their text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import RowMapping, Select, bindparam, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_kernels.status import Status
from opserve_server.core.audit import AuditEntry
from opserve_server.core.directory import KeyRecord
from opserve_server.core.errors import HandleNotFound, WrongState
from opserve_server.store.database import Database
from opserve_server.store.principals import columns_of, principal_of
from opserve_server.store.tables import KEYS
from opserve_server.store.tenants import locked_tenant

LIVE_KEYS_LIMIT = 2
"""Live keys of one principal: the current one, and the next one during a rotation."""


class Keys:
    """The table of keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: KeyRecord, *, audit: AuditEntry) -> None:
        """Adds a key.

        Raises:
            HandleNotFound: Its tenant does not exist.
            WrongState: Its principal has two live keys already, or another key has its id.
        """
        async with self._database.change(audit) as connection:
            await locked_tenant(connection, key.principal.tenant)
            if await _live_keys(connection, key) >= LIVE_KEYS_LIMIT:
                owner = f"{key.principal.tenant}/{key.principal.name}"
                raise _wrong(
                    f"{owner} already has {LIVE_KEYS_LIMIT} active keys; revoke one first.",
                    given=f"another key of {owner}",
                    allowed=f"{LIVE_KEYS_LIMIT} live keys: revoke one first",
                )
            try:
                await connection.execute(insert(KEYS).values(_columns_of(key)))
            except IntegrityError:
                raise _wrong(
                    f"Another key has the id {key.id}; create the key again.",
                    given=key.id,
                    allowed="a key with an id of its own: make another",
                ) from None

    async def of(self, tenant: str) -> Sequence[KeyRecord]:
        """Keys of a tenant, also revoked and expired ones, in the order they were made."""
        async with self._database.read() as connection:
            return await _read(connection, _in_order().where(KEYS.c.tenant == tenant))

    async def revoke(self, key_id: str, *, audit: AuditEntry) -> KeyRecord:
        """Ends a key; a key revoked before keeps its first time of revocation.

        Raises:
            HandleNotFound: There is no key of that id.
        """
        async with self._database.change(audit) as connection:
            one = _in_order().where(KEYS.c.id == key_id).with_for_update()
            for key in await _read(connection, one):
                if key.revoked_at is not None:
                    return key
                row = update(KEYS).where(KEYS.c.id == key_id)
                await connection.execute(row.values(revoked_at=audit.at))
                return replace(key, revoked_at=audit.at)
            raise HandleNotFound("key", key_id, allowed="the id of a key")

    async def touch(self, used_at: Mapping[str, float]) -> None:
        """Records the last uses of keys by id; an older time than the recorded one changes nothing.

        Args:
            used_at: Seconds since 1970.
        """
        if not used_at:
            return
        older = or_(KEYS.c.last_used_at.is_(None), KEYS.c.last_used_at < bindparam("used_at"))
        row = update(KEYS).where(KEYS.c.id == bindparam("key_id"), older)
        async with self._database.append() as connection:
            # In a common order, so that two writers of the same rows cannot deadlock.
            await connection.execute(
                row.values(last_used_at=bindparam("used_at")),
                [{"key_id": key, "used_at": at} for key, at in sorted(used_at.items())],
            )


async def read_keys(connection: AsyncConnection) -> Sequence[KeyRecord]:
    """All keys, also revoked and expired ones, in the order they were made."""
    return await _read(connection, _in_order())


async def _live_keys(connection: AsyncConnection, new: KeyRecord) -> int:
    """Live keys of a principal at the time of its new key."""
    unexpired = or_(KEYS.c.expires_at.is_(None), KEYS.c.expires_at > new.created_at)
    live = select(func.count()).where(
        KEYS.c.tenant == new.principal.tenant,
        KEYS.c.principal == new.principal.name,
        KEYS.c.revoked_at.is_(None),
        unexpired,
    )
    return await connection.scalar(live) or 0


def _in_order() -> Select[*tuple[Any, ...]]:
    return select(KEYS).order_by(KEYS.c.created_at, KEYS.c.id)


async def _read(
    connection: AsyncConnection, statement: Select[*tuple[Any, ...]]
) -> Sequence[KeyRecord]:
    return [_key_of(row) for row in (await connection.execute(statement)).mappings()]


def _columns_of(key: KeyRecord) -> dict[str, Any]:
    return columns_of(key.principal) | {
        "id": key.id,
        "sha256": key.sha256,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


def _key_of(row: RowMapping) -> KeyRecord:
    return KeyRecord(
        id=row["id"],
        sha256=row["sha256"],
        principal=principal_of(row),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )


def _wrong(message: str, *, given: str, allowed: str) -> WrongState:
    return WrongState(
        Status.ACL_ERROR_RT_PARAM_INVALID,
        message,
        parameter="key",
        given=given,
        allowed=allowed,
    )
