"""Requests of administration calls, the same for every API."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_server.admin_answers import (
    Activity,
    AllTenants,
    AuditEntries,
    NewKey,
    Nothing,
    OneCertificate,
    OneIdentity,
    OneKey,
    OneTenant,
    SomeCertificates,
    SomeIdentities,
    SomeKeys,
    SomeSessions,
    TenantAtWork,
    UsageRows,
)
from opserve_server.core.principal import Scope
from opserve_server.core.tenants import Quota

SCOPE = Scope.ADMIN
"""The scope that each of these calls requires."""

# A field that a request omits has its default on every wire; None stands for an optional value.


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTenant:
    """Adds a tenant.

    Attributes:
        tenant: Name: 1 to 63 lower case letters, digits and hyphens.
        weight: Share of a device beside that of others with work, 1 to 1000; None: 1.
        priority_limit: Greatest priority of its session requests; None: 0.
        quota: Its limits; None: the limits of the service.
    """

    tenant: str = ""
    weight: int | None = None
    priority_limit: int | None = None
    quota: Quota | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTenants:
    """Lists tenants by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTenant:
    """Returns one tenant and its current use.

    Attributes:
        tenant: Name of the tenant.
    """

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTenant:
    """Changes the given fields of a tenant, and leaves the rest.

    Attributes:
        tenant: Name of the tenant.
        weight: New weight; None: as before.
        priority_limit: New limit; None: as before.
        disabled: Whether its keys are rejected and its sessions closed; None: as before.
        quota: Limits that change.
        unlimited: Resources whose limit is removed, by the names of the quota's fields.
        force: Whether to change it even if no caller could administer the service afterwards.
    """

    tenant: str = ""
    weight: int | None = None
    priority_limit: int | None = None
    disabled: bool | None = None
    quota: Quota | None = None
    unlimited: tuple[str, ...] = ()
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTenant:
    """Ends a tenant, its keys and its sessions; its name is never used again.

    Attributes:
        tenant: Name of the tenant.
        force: Whether to end it even if no caller could administer the service afterwards.
    """

    tenant: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateKey:
    """Makes an API key, whose text is returned only once.

    Attributes:
        tenant: Name of its tenant.
        principal: Name of the caller within the tenant.
        scopes: What the caller may do: operate, metrics, admin.
        lifetime_s: Seconds after which it expires; None: never.
    """

    tenant: str = ""
    principal: str = ""
    scopes: tuple[str, ...] = ()
    lifetime_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListKeys:
    """Lists keys of a tenant or of all, also revoked and expired ones.

    Attributes:
        tenant: Name of the tenant; empty: all.
    """

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeKey:
    """Ends a key for good.

    Attributes:
        key: Id of the key.
        force: Whether to end it even if no caller could administer the service afterwards.
    """

    key: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCertificate:
    """Registers a client certificate for a principal.

    Attributes:
        subject: Subject or name in the certificate, as the service reads it.
        tenant: Name of its tenant.
        principal: Name of the caller within the tenant.
        scopes: What the caller may do: operate, metrics, admin.
    """

    subject: str = ""
    tenant: str = ""
    principal: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCertificates:
    """Lists the certificates of a tenant, or of all.

    Attributes:
        tenant: Name of the tenant; empty: all.
    """

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveCertificate:
    """Removes a client certificate.

    Attributes:
        subject: Subject or name in the certificate.
        force: Whether to remove it even if no caller could administer the service afterwards.
    """

    subject: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddIdentity:
    """Trusts tokens of an issuer, such as those of a CI system, for a principal.

    Attributes:
        issuer: Claim iss of the tokens; one of the setting OPSERVE_IDENTITY_ISSUERS.
        audience: Claim aud of the tokens, or one of its values.
        claims: Claims that a token must have, as "name=value", 1 to 16; one of them names the
            repository, project, owner or subject.
        tenant: Name of its tenant.
        principal: Name of the caller within the tenant.
        scopes: What the caller may do: operate, metrics, admin.
    """

    issuer: str = ""
    audience: str = ""
    claims: tuple[str, ...] = ()
    tenant: str = ""
    principal: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListIdentities:
    """Lists the trusted identities of a tenant, or of all.

    Attributes:
        tenant: Name of the tenant; empty: all.
    """

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveIdentity:
    """Removes a trusted identity.

    Attributes:
        id: Id of the identity.
    """

    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListUsage:
    """Lists device time by day, tenant and profile.

    Attributes:
        tenant: Name of the tenant; empty: all.
        first_day: First day, YYYY-MM-DD in UTC; empty: as early as the last day allows.
        last_day: Last day, YYYY-MM-DD in UTC; empty: today.
    """

    tenant: str = ""
    first_day: str = ""
    last_day: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAudit:
    """Lists calls of administration and refused callers, the newest first.

    Attributes:
        tenant: Only entries of this tenant; empty: of unknown callers; None: all.
        outcome: Only entries with this outcome, such as OK or 401; None: all.
        since: Only entries from this moment on, seconds since 1970; None: all.
        until: Only entries before this moment, seconds since 1970; None: all.
        cursor: Cursor of the previous page; empty: the newest entries.
        limit: Most entries of the page; 0: the default.
    """

    tenant: str | None = None
    outcome: str | None = None
    since: float | None = None
    until: float | None = None
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSessions:
    """Lists the open sessions of a tenant or of all.

    Attributes:
        tenant: Name of the tenant; empty: all.
    """

    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSession:
    """Ends a session; one with work only with force.

    Attributes:
        id: Id of the session, as in the list of sessions.
        force: Whether to end it while it has work.
    """

    id: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GetActivity:
    """Returns the current activity of devices and tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainService:
    """Begins the end of the service, as SIGTERM does: it accepts no new work."""


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
    AddIdentity: OneIdentity,
    ListIdentities: SomeIdentities,
    RemoveIdentity: Nothing,
    ListUsage: UsageRows,
    ListAudit: AuditEntries,
    ListSessions: SomeSessions,
    ReleaseSession: Nothing,
    GetActivity: Activity,
    DrainService: Nothing,
}
"""Every call: the class of its request, and that of its answer."""
