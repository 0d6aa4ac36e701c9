"""Values that stores keep in tests, each with something in every field."""

from collections.abc import Sequence
from datetime import date
from itertools import count

from sqlalchemy.ext.asyncio import AsyncEngine

from opserve_server.core.audit import AuditEntry, AuditQuery
from opserve_server.core.directory import KeyRecord, TrustedIdentity
from opserve_server.core.ledger import Flush, LedgerRow
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.tenants import Quota, Tenant
from opserve_server.store.engine import new_engine
from opserve_server.store.location import location_of
from opserve_server.store.store import Store

NOW = 1_800_000_000.0 + 1 / 3
TODAY = date(2027, 1, 15)
_WRITERS = count()
ACME = Tenant(
    name="acme",
    quota=Quota(
        device_memory_bytes=2**62,
        sessions=1,
        buffers=2,
        executors=3,
        streams=4,
        queued_entries=5,
        calls_per_s=0.1,
        bytes_in_flight=2**40,
        device_seconds_per_day=1 / 3,
    ),
    weight=7,
    priority_limit=3,
    disabled=True,
)
UMBRA = Tenant(name="umbra")
CI = Principal(
    tenant="acme", name="ci", scopes=frozenset({Scope.OPERATE, Scope.METRICS, Scope.ADMIN})
)
GUEST = Principal(tenant="umbra", name="guest", scopes=frozenset[Scope]())


def entry(method: str = "test", *, at: float = NOW, tenant: str = "farm") -> AuditEntry:
    return AuditEntry(
        at=at,
        tenant=tenant,
        principal="root",
        face="rest",
        method=method,
        outcome="OK",
        reason="as reported",
        request_id="r-1",
        detail="weight=7",
        count=2,
    )


def key(number: int, principal: Principal = CI, *, expires_at: float | None = None) -> KeyRecord:
    return KeyRecord(
        id=f"{number:08x}",
        sha256=bytes([number]) * 32,
        principal=principal,
        created_at=NOW + number,
        expires_at=expires_at,
    )


def identity(number: int, principal: Principal = CI) -> TrustedIdentity:
    return TrustedIdentity(
        id=f"{number:08x}",
        issuer="https://gitlab.com",
        audience="farm",
        claims=("project_path=farm/kernels", "ref=né =\"main'"),
        principal=principal,
        created_at=NOW - number,
    )


def use(
    tenant: str, *, day: date = TODAY, profile: str = "ascend910b", calls: int = 1
) -> LedgerRow:
    return LedgerRow(tenant=tenant, day=day, profile=profile, device_s=0.25 * calls, calls=calls)


def flush(*rows: LedgerRow, writer: str = "", number: int = 1, at: float = NOW) -> Flush:
    """Usage; that of a writer of its own, unless one is named."""
    return Flush(writer=writer or f"writer {next(_WRITERS)}", number=number, at=at, rows=rows)


async def recorded(store: Store) -> Sequence[AuditEntry]:
    """All that the audit has, the newest first."""
    return (await store.audit.page(AuditQuery(), limit=1000)).entries


def engine_of(url: str) -> AsyncEngine:
    """The database of a store beside the store."""
    return new_engine(location_of(url), timeout_s=20.0, connections_limit=4)
