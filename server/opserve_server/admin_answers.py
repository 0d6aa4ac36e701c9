"""Answers of the calls of administration, as values."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from opserve_server.core.audit import AuditEntry
from opserve_server.core.info import DeviceInfo, ResourceUse, SessionInfo
from opserve_server.core.tenants import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTenant:
    """One tenant.

    Attributes:
        tenant: The tenant.
    """

    tenant: Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class AllTenants:
    """Every tenant.

    Attributes:
        tenants: The tenants, by name.
        deleted: Names of deleted tenants, which no tenant can have again.
    """

    tenants: Sequence[Tenant]
    deleted: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAtWork:
    """A tenant with its current use.

    Attributes:
        tenant: The tenant.
        uses: Limit and use of each resource.
    """

    tenant: Tenant
    uses: Sequence[ResourceUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyInfo:
    """A key as an administrator sees it; see opserve.v1.Key.

    Attributes:
        id: Its public id, 8 hexadecimal digits.
        tenant: Name of its tenant.
        principal: Name of the caller within the tenant.
        scopes: What the caller may do: operate, metrics, admin.
        created_at: When it was made, seconds since 1970.
        expires_at: When it expires, seconds since 1970; None: never.
        revoked_at: When it was revoked, seconds since 1970; None: it was not.
        last_used_at: When it was last used, to about a minute, seconds since 1970; None: never.
    """

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
    """A key and its text, a secret.

    Attributes:
        key: The key.
        text: Its text, a secret that the service returns this once.
    """

    key: KeyInfo
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneKey:
    """A key.

    Attributes:
        key: The key.
    """

    key: KeyInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeKeys:
    """Keys in the order they were made.

    Attributes:
        keys: The keys.
    """

    keys: Sequence[KeyInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateInfo:
    """A client certificate and its principal.

    Attributes:
        subject: Subject or name in the certificate.
        tenant: Name of its tenant.
        principal: Name of the caller within the tenant.
        scopes: What the caller may do: operate, metrics, admin.
    """

    subject: str
    tenant: str
    principal: str
    scopes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCertificate:
    """A certificate.

    Attributes:
        certificate: The certificate.
    """

    certificate: CertificateInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeCertificates:
    """Certificates by subject.

    Attributes:
        certificates: The certificates.
    """

    certificates: Sequence[CertificateInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityInfo:
    """A trusted identity and its principal.

    Attributes:
        id: Its id, 8 hexadecimal digits.
        issuer: Claim iss of its tokens.
        audience: Claim aud of its tokens, or one of its values.
        claims: Claims that a token must have, as "name=value".
        tenant: Name of its tenant.
        principal: Name of the caller within the tenant.
        scopes: What the caller may do: operate, metrics, admin.
        created_at: When it was added, seconds since 1970.
    """

    id: str
    issuer: str
    audience: str
    claims: Sequence[str]
    tenant: str
    principal: str
    scopes: Sequence[str]
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OneIdentity:
    """A trusted identity.

    Attributes:
        identity: The identity.
    """

    identity: IdentityInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeIdentities:
    """Trusted identities, the oldest first.

    Attributes:
        identities: The identities.
        issuers: Issuers that an identity may name: the setting OPSERVE_IDENTITY_ISSUERS.
    """

    identities: Sequence[IdentityInfo]
    issuers: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Use of a tenant in one day, in UTC, on the devices of a profile.

    Attributes:
        tenant: Name of the tenant.
        day: The day, YYYY-MM-DD in UTC.
        profile: Profile of the devices.
        device_s: Device time, seconds.
        calls: Number of operator calls.
    """

    tenant: str
    day: str
    profile: str
    device_s: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRows:
    """Device time by day, tenant and profile.

    Attributes:
        rows: The rows.
    """

    rows: Sequence[UsageRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntries:
    """One page of audit entries, the newest first.

    Attributes:
        entries: The entries.
        cursor: Cursor of the next page; empty: there is none.
    """

    entries: Sequence[AuditEntry]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeSessions:
    """Sessions, the oldest first.

    Attributes:
        sessions: The sessions.
    """

    sessions: Sequence[SessionInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantActivity:
    """Current activity of a tenant.

    Attributes:
        tenant: Name of the tenant.
        weight: Its share of a device relative to other tenants with work.
        calls: Calls since the service started.
        uses: Limit and use of each resource.
    """

    tenant: str
    weight: int
    calls: int
    uses: Sequence[ResourceUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Current activity of devices and tenants.

    Attributes:
        at: Time of the snapshot, seconds since 1970.
        devices: The devices.
        tenants: The tenants.
    """

    at: float
    devices: Sequence[DeviceInfo]
    tenants: Sequence[TenantActivity]
