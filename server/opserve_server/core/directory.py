"""Directory: a snapshot of tenants and of what authenticates callers, read without waiting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opserve_server.core.principal import Principal
from opserve_server.core.tenants import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A stored API key; its text is not stored.

    Attributes:
        id: Public id: eight hexadecimal digits.
        sha256: SHA-256 of the key's text; never in an answer, log or repr.
        principal: The caller that the key authenticates.
        created_at: Seconds since 1970.
        expires_at: Seconds since 1970; None: never.
        revoked_at: Seconds since 1970; None: not revoked.
        last_used_at: Seconds since 1970, to about a minute; None: never used.
    """

    id: str
    sha256: bytes = field(repr=False)
    principal: Principal
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedIdentity:
    """Tokens of an issuer (OpenID Connect) that authenticate a principal.

    Attributes:
        id: Public id: eight hexadecimal digits, derived from issuer, audience and claims.
        issuer: Claim `iss` of the tokens.
        audience: Claim `aud` of the tokens, or one of its values.
        claims: Claims that a token must have, as "name=value".
        principal: The caller that such a token authenticates.
        created_at: Seconds since 1970.
    """

    id: str
    issuer: str
    audience: str
    claims: tuple[str, ...]
    principal: Principal
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A snapshot; every change of the store makes a new one.

    Attributes:
        tenants: By name.
        keys: By the SHA-256 of their text. Revoked and expired keys stay, so that a service that
            lost its last key is not mistaken for one that never had a key.
        certificates: Principals by the subject of their certificate in RFC 4514 form, or by a
            subjectAltName: "URI:spiffe://farm/ci", "DNS:ci.farm".
        identities: Trusted identities, the oldest first.
    """

    tenants: Mapping[str, Tenant]
    keys: Mapping[bytes, KeyRecord]
    certificates: Mapping[str, Principal]
    identities: Sequence[TrustedIdentity] = ()

    @property
    def keyless(self) -> bool:
        """Whether no key, certificate or identity exists, so that every caller is LOCAL."""
        return not (self.keys or self.certificates or self.identities)


KEYLESS = Directory(tenants={}, keys={}, certificates={})
"""The directory of a service without a store."""
