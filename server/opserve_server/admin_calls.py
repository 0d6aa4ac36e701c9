"""The calls of administration as values: what each asks and answers, on every wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opserve_server.core.audit import AuditEntry
from opserve_server.core.infos import DeviceInfo, ResourceUse, SessionInfo
from opserve_server.core.tenants import Quota, Tenant

# What a request does not say is at its default on every wire; None is what may be absent.


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTenant:
    """Adds a tenant."""

    tenant: str = ""
    weight: int | None = None
    priority_limit: int | None = None
    quota: Quota | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTenants:
    """Lists tenants by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTenant:
    """Tells of one tenant, and of what it uses now."""

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTenant:
    """Changes what is given of a tenant, and leaves the rest."""

    tenant: str = ""
    weight: int | None = None
    priority_limit: int | None = None
    disabled: bool | None = None
    quota: Quota | None = None
    unlimited: tuple[str, ...] = ()
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTenant:
    """Ends a tenant, its keys and its sessions; nobody else gets its name."""

    tenant: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateKey:
    """Makes an API key, whose text is told this once."""

    tenant: str = ""
    principal: str = ""
    scopes: tuple[str, ...] = ()
    lifetime_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListKeys:
    """Lists keys of a tenant or of all, also revoked and expired ones."""

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeKey:
    """Ends a key for good."""

    key: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCertificate:
    """Says whose a client certificate is."""

    subject: str = ""
    tenant: str = ""
    principal: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCertificates:
    """Lists the certificates of a tenant, or of all."""

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveCertificate:
    """Forgets a client certificate."""

    subject: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListUsage:
    """Lists device time by day, tenant and profile."""

    tenant: str = ""
    first_day: str = ""
    last_day: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAudit:
    """Lists calls of administration and refused callers, the newest first."""

    tenant: str | None = None
    outcome: str | None = None
    since: float | None = None
    until: float | None = None
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSessions:
    """Tells who has which session: those of a tenant, or of all."""

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSession:
    """Ends a session; one that works only with force."""

    id: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GetActivity:
    """Tells what devices and tenants do now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """There is nothing to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTenant:
    """A tenant."""

    tenant: Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class AllTenants:
    """Every tenant."""

    tenants: Sequence[Tenant]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAtWork:
    """A tenant, and what it uses now."""

    tenant: Tenant
    uses: Sequence[ResourceUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyInfo:
    """A key as an administrator sees it; see opserve.v1.Key."""

    id: str
    tenant: str
    principal: str
    scopes: Sequence[str]
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key and its text, a secret."""

    key: KeyInfo
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneKey:
    """A key."""

    key: KeyInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeKeys:
    """Keys in the order they were made."""

    keys: Sequence[KeyInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateInfo:
    """A client certificate, and whose it is."""

    subject: str
    tenant: str
    principal: str
    scopes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCertificate:
    """A certificate."""

    certificate: CertificateInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeCertificates:
    """Certificates by subject."""

    certificates: Sequence[CertificateInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What a tenant used in a day, in UTC, on the devices of a profile."""

    tenant: str
    day: str
    profile: str
    device_s: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRows:
    """Device time by day, tenant and profile."""

    rows: Sequence[UsageRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntries:
    """Some entries, the newest first; the cursor asks for the next, and is empty where none is."""

    entries: Sequence[AuditEntry]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeSessions:
    """Sessions, the oldest first."""

    sessions: Sequence[SessionInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantActivity:
    """What a tenant does now; calls are those since the service started."""

    tenant: str
    weight: int
    calls: int
    uses: Sequence[ResourceUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What devices and tenants do at a moment, seconds since 1970."""

    at: float
    devices: Sequence[DeviceInfo]
    tenants: Sequence[TenantActivity]


ANSWERS: Mapping[type, type] = {
    CreateTenant: OneTenant,
    ListTenants: AllTenants,
    GetTenant: TenantAtWork,
    UpdateTenant: OneTenant,
    DeleteTenant: Nothing,
    CreateKey: NewKey,
    ListKeys: SomeKeys,
    RevokeKey: OneKey,
    AddCertificate: OneCertificate,
    ListCertificates: SomeCertificates,
    RemoveCertificate: Nothing,
    ListUsage: UsageRows,
    ListAudit: AuditEntries,
    ListSessions: SomeSessions,
    ReleaseSession: Nothing,
    GetActivity: Activity,
}
"""Every call, by its request, and what it answers."""
