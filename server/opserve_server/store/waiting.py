"""The waiting line of a farm in the store: a row for each session request that waits.

The service where a request waits writes its row anew at each exchange. Another service with a free
device claims the first row that it can meet, for a while, and the first service sends the client
there. All times are those of the clock of the database.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import (
    JSON,
    Boolean,
    ColumnClause,
    ColumnElement,
    Delete,
    Double,
    Integer,
    RowMapping,
    Select,
    Subquery,
    Text,
    and_,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_server.core.device_queue import RequestKey
from opserve_server.core.farm import WaitingRecord
from opserve_server.core.session_request import SessionRequest
from opserve_server.store.database import Database
from opserve_server.store.services import NOW, held_by
from opserve_server.store.tables import SERVICES, WAITING

CLAIM_S = 5.0
"""Seconds for which a service keeps a device for a request of another one."""
ROW_S = 30.0
"""Seconds for which the place of a request is kept that its service does not write any more."""
READ_LIMIT = 128
"""Requests of other services that a service reads, first those that it may claim."""
_KEY_COLUMNS = WAITING.c.tenant, WAITING.c.request
_KEY = tuple_(*_KEY_COLUMNS)
_EXPIRED = select(*_KEY_COLUMNS).where(WAITING.c.until < NOW).with_for_update(skip_locked=True)
_CLEARING = delete(WAITING).where(_KEY.in_(_EXPIRED))
_COLUMNS = {
    "tenant": Text,
    "request": Text,
    "rank": Double,
    "priority": Integer,
    "profile": Text,
    "tags": Text,
    "exclusive": Boolean,
    "connected": Boolean,
    "stays": Boolean,
}
"""The columns that a service writes for the requests that wait there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """The line as a service finds it.

    Attributes:
        now_s: The clock of the database, seconds since 1970.
        waiting: Requests at other services for profiles of this one, the first to serve first.
        moved: The services that keep a device for requests of this one, or where they wait now.
        ranks: The ranks of the requests of this service.
    """

    now_s: float
    waiting: Sequence[WaitingRecord]
    moved: Mapping[RequestKey, str] = field(default_factory=dict[RequestKey, str])
    ranks: Mapping[RequestKey, float] = field(default_factory=dict[RequestKey, float])


class WaitingLine:
    """The table of waiting requests, on PostgreSQL.

    Args:
        database: Makes transactions.
        service: Name of this service in the farm.
    """

    def __init__(self, database: Database, service: str) -> None:
        self._database = database
        self._service = service

    async def exchange(
        self,
        own: Collection[WaitingRecord],
        ended: Collection[RequestKey],
        *,
        epoch: int,
        profiles: Collection[str],
    ) -> Exchanged | None:
        """Writes the requests of this service, removes those that ended, and reads the others.

        Returns:
            None where the service's lease has ended or its epoch is not the latest; then nothing
            changes.
        """
        async with self._database.append() as connection:
            held = select(NOW).where(*held_by(self._service, epoch))
            now_s: float | None = (await connection.execute(held)).scalar_one_or_none()
            if now_s is None:
                return None
            # Rows are locked in one order by all services, and no lock is held while it waits.
            if ended:
                await connection.execute(self._removal(ended))
            rows = await self._write(connection, own, epoch) if own else ()
            moved = await self._moved(connection, own, rows)
            if own:
                await connection.execute(_CLEARING)
            found = await connection.execute(self._others(epoch, profiles))
            waiting = [_record_of(row) for row in found.mappings()]
        return Exchanged(
            now_s=now_s,
            waiting=sorted(waiting, key=lambda one: one.rank),
            moved=moved,
            ranks={_key_of(row): row["rank"] for row in rows},
        )

    async def claim(self, keys: Collection[RequestKey], *, epoch: int) -> set[RequestKey]:
        """Keeps devices of this service for requests; returns those that no other one claimed."""
        free = (
            select(*_KEY_COLUMNS)
            .where(_KEY.in_(list(keys)), WAITING.c.claimed_by == "")
            .where(WAITING.c.connected, ~WAITING.c.stays)
            .where(exists().where(*held_by(self._service, epoch)))
            .order_by(*_KEY_COLUMNS)
            .with_for_update()
        )
        claimed = (
            update(WAITING)
            .where(_KEY.in_(free))
            .values(claimed_by=self._service, claimed_until=NOW + CLAIM_S)
            .returning(*_KEY_COLUMNS)
        )
        async with self._database.append() as connection:
            return {(row.tenant, row.request) for row in await connection.execute(claimed)}

    async def release(self, *, epoch: int) -> None:
        """Keeps no device any more."""
        mine = (
            select(*_KEY_COLUMNS)
            .where(WAITING.c.claimed_by == self._service, WAITING.c.claimed_until > NOW)
            .where(exists().where(*held_by(self._service, epoch)))
        )
        locked = mine.order_by(*_KEY_COLUMNS).with_for_update()
        async with self._database.append() as connection:
            await connection.execute(
                update(WAITING).where(_KEY.in_(locked)).values(claimed_by="", claimed_until=0.0)
            )

    async def _write(
        self, connection: AsyncConnection, own: Collection[WaitingRecord], epoch: int
    ) -> Sequence[RowMapping]:
        """Writes requests, at least one; returns the rows of this service."""
        given = _given(own)
        new = insert(WAITING).from_select(
            [*_COLUMNS, "service", "epoch", "until", "claimed_by", "claimed_until"],
            select(
                *(given.c[name] for name in _COLUMNS),
                *(literal(self._service), literal(epoch), NOW + ROW_S, literal(""), literal(0.0)),
            ).order_by(given.c.tenant, given.c.request),
        )
        # This service has the client now, or the client must stay.
        is_over = or_(WAITING.c.claimed_by == self._service, new.excluded.stays)
        written = new.on_conflict_do_update(
            index_elements=_KEY_COLUMNS,
            set_={
                name: new.excluded[name]
                for name in ("service", "epoch", "until", *_COLUMNS)
                if name not in {"tenant", "request", "rank"}
            }
            | {"claimed_by": case((is_over, ""), else_=WAITING.c.claimed_by)},
            # The last service that the client called has the request.
            where=or_(WAITING.c.service == self._service, _KEY.in_(_arrived(own))),
        ).returning(*_KEY_COLUMNS, WAITING.c.rank, _claimed_by().label("claimed_by"))
        return (await connection.execute(written)).mappings().all()

    async def _moved(
        self,
        connection: AsyncConnection,
        own: Collection[WaitingRecord],
        rows: Sequence[RowMapping],
    ) -> dict[RequestKey, str]:
        """The services where requests belong that are not, or not any more, of this one."""
        moved = {_key_of(row): row["claimed_by"] for row in rows if row["claimed_by"]}
        written = {_key_of(row) for row in rows}
        lost = {(one.tenant, one.request) for one in own} - written
        if lost:
            query = select(*_KEY_COLUMNS, WAITING.c.service)
            found = await connection.execute(query.where(_KEY.in_(list(lost))))
            moved |= {(row.tenant, row.request): row.service for row in found}
        return moved

    def _removal(self, ended: Collection[RequestKey]) -> Delete:
        mine = or_(WAITING.c.service == self._service, WAITING.c.claimed_by == self._service)
        keys = select(*_KEY_COLUMNS).where(_KEY.in_(list(ended)), mine).order_by(*_KEY_COLUMNS)
        return delete(WAITING).where(_KEY.in_(keys.with_for_update()))

    def _others(self, epoch: int, profiles: Collection[str]) -> Select[tuple[object, ...]]:
        """The first requests that do not wait here: of other services, and those that moved."""
        its_service = and_(
            SERVICES.c.name == WAITING.c.service,
            SERVICES.c.epoch == WAITING.c.epoch,
            SERVICES.c.lease_until > NOW,
        )
        is_own = WAITING.c.service == self._service
        lives = SERVICES.c.name.is_not(None)
        claimable = and_(lives, WAITING.c.connected, ~WAITING.c.stays, WAITING.c.claimed_by == "")
        return (
            select(WAITING, claimable.label("claimable"), _claimed_by().label("claiming"))
            .outerjoin(SERVICES, its_service)
            .where(~and_(is_own, WAITING.c.epoch == epoch, WAITING.c.claimed_by == ""))
            .where(WAITING.c.profile.in_(list(profiles)), WAITING.c.until > NOW)
            .order_by(claimable.desc(), WAITING.c.rank)
            .limit(READ_LIMIT)
        )


def _claimed_by() -> ColumnElement[str]:
    """The service whose claim lasts; empty without one."""
    return case((WAITING.c.claimed_until > NOW, WAITING.c.claimed_by), else_="")


def _key_of(row: RowMapping) -> RequestKey:
    return row["tenant"], row["request"]


def _arrived(own: Collection[WaitingRecord]) -> list[RequestKey]:
    return [(one.tenant, one.request) for one in own if one.arrived]


def _given(own: Collection[WaitingRecord]) -> Subquery:
    """Requests as rows, from one parameter."""
    rows = [
        {
            "tenant": one.tenant,
            "request": one.request,
            "rank": one.rank,
            "priority": one.terms.priority,
            "profile": one.terms.profile,
            "tags": json.dumps(one.terms.tags),
            "exclusive": one.terms.exclusive,
            "connected": one.connected,
            "stays": one.terms.here,
        }
        for one in own
    ]
    columns: list[ColumnClause[object]] = [column(name, type_) for name, type_ in _COLUMNS.items()]
    given = func.json_to_recordset(cast(literal(json.dumps(rows), Text), JSON))
    return select(given.table_valued(*columns).render_derived(with_types=True)).subquery()


def _record_of(row: RowMapping) -> WaitingRecord:
    return WaitingRecord(
        tenant=row["tenant"],
        request=row["request"],
        rank=row["rank"],
        terms=SessionRequest(
            profile=row["profile"],
            tags=tuple(json.loads(row["tags"])),
            exclusive=row["exclusive"],
            priority=row["priority"],
            here=row["stays"],
        ),
        service=row["service"],
        connected=row["connected"],
        claimable=row["claimable"],
        claimed_by=row["claiming"],
    )
