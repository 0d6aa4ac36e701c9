"""Who may call: a snapshot of tenants, keys and certificates, looked up without waiting."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from opserve_server.core.principal import Principal
from opserve_server.core.tenants import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """An API key as it is known; its text is not.

    Attributes:
        id: Public: eight hexadecimal digits.
        sha256: Of the key's text; no part of any answer, log or repr.
        principal: Whose it is.
        created_at: Seconds since 1970.
        expires_at: The same; None: never.
        revoked_at: The same; None: it is not revoked.
        last_used_at: The same, to about a minute; None: it was not used yet.
    """

    id: str
    sha256: bytes = field(repr=False)
    principal: Principal
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A snapshot; whoever changes the store takes a new one.

    Attributes:
        tenants: By name.
        keys: By the SHA-256 of their text; those that are revoked or expired too, so that a
            service whose last key went is not taken for one that never had any.
        certificates: Principals by the subject of their certificate, as RFC 4514 writes it, or by
            a name in its subjectAltName: "URI:spiffe://farm/ci", "DNS:ci.farm".
    """

    tenants: Mapping[str, Tenant]
    keys: Mapping[bytes, KeyRecord]
    certificates: Mapping[str, Principal]

    @property
    def keyless(self) -> bool:
        """Whether nobody was ever given a key or a certificate, so that everybody is LOCAL."""
        return not self.keys and not self.certificates


KEYLESS = Directory(tenants={}, keys={}, certificates={})
"""Of a service without a store."""
