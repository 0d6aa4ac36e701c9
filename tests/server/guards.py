"""Guards for tests: of a service without keys, and of one with some."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_server.core.accounts import Accounts
from opserve_server.core.directory import Directory, KeyRecord, TrustedIdentity
from opserve_server.core.keys import new_key, sha256_of
from opserve_server.core.observations import Call
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.tenants import Tenant
from opserve_server.guard import Credentials, Guard, KeyPolicy
from opserve_server.open_calls import CallLimits
from opserve_server.tokens import Tokens
from opserve_server.unknown_keys import UnknownKeyLimits
from server.token_issuer import AUDIENCE, ISSUER, REPOSITORY, FixedKeys, token

NOW = 1_000_000.0
TENANTS = {
    "lab": Tenant(name="lab"),
    "mill": Tenant(name="mill"),
    "gone": Tenant(name="gone", disabled=True),
}
GUESSES = UnknownKeyLimits(per_s=1.0, at_once=10_000, peers=16)


CALLS = CallLimits(
    of_tenant=100,
    unauthenticated_calls=8,
    unauthenticated_bytes=2**23,
    message_bytes=2**20,
    silence_s=30.0,
)


def keyless_guard(accounts: Accounts | None = None) -> Guard:
    """Of a service without keys."""
    policy = KeyPolicy.FROM_THE_FIRST_KEY
    return Guard(accounts or Accounts(), unknown_keys=GUESSES, calls=CALLS, keys=policy)


async def admitted(guard: Guard, credentials: Credentials, scope: Scope | None) -> Principal:
    """The principal that a guard recognises."""
    call = Call(api="grpc", method="", request_id="", headers={})
    guard.enter(call, credentials, scope).leave()
    await guard.admit(call, scope)
    assert call.principal is not None
    return call.principal


def principal(tenant: str, *scopes: Scope) -> Principal:
    """A caller of a tenant."""
    return Principal(tenant=tenant, name="tester", scopes=frozenset(scopes))


def record(key: str, principal_of_key: Principal, **known: float) -> KeyRecord:
    """The record of a key in a directory."""
    digest = sha256_of(key)
    return KeyRecord(
        id=digest.hex()[:8], sha256=digest, principal=principal_of_key, created_at=0.0, **known
    )


def identity(
    tenant: str, suffix: str, principal_of_token: Principal | None = None
) -> TrustedIdentity:
    """An identity for a repository."""
    return TrustedIdentity(
        id=sha256_of(suffix).hex()[:8],
        issuer=ISSUER,
        audience=AUDIENCE,
        claims=(f"repository={REPOSITORY}{suffix}",),
        principal=principal_of_token or principal(tenant, *Scope),
        created_at=0.0,
    )


@dataclass(frozen=True, slots=True)
class ServiceWithKeys:
    """A guard with valid keys and invalid ones.

    Attributes:
        guard: Of tenants "lab" and "mill", and of "gone", which is disabled.
        lab: A key of the one with every scope but admin.
        mill: The same of the other.
        metrics: A key of the one that may read metrics alone.
        operate: A key of the one that may do all but that.
        closed: Rejected keys, by their defect.
        job: Token of a CI job, with the principal of `lab`.
        closed_jobs: Rejected tokens, by their defect.
    """

    guard: Guard
    lab: str
    mill: str
    metrics: str
    operate: str
    closed: Mapping[str, str]
    job: str
    closed_jobs: Mapping[str, str]


def service_with_keys(
    *,
    accounts: Accounts | None = None,
    certificates: Mapping[str, Principal] | None = None,
    unknown_keys: UnknownKeyLimits = GUESSES,
) -> ServiceWithKeys:
    """A guard whose directory has keys and a trusted identity, at the time NOW."""
    lab, mill = (principal(name, Scope.OPERATE, Scope.METRICS) for name in ("lab", "mill"))
    names = ("lab", "mill", "metrics", "operate", "expired", "revoked", "disabled", "unknown")
    keys = {name: new_key() for name in names}
    records = [
        record(keys["lab"], lab),
        record(keys["mill"], mill),
        record(keys["metrics"], principal("lab", Scope.METRICS)),
        record(keys["operate"], principal("lab", Scope.OPERATE)),
        record(keys["expired"], lab, expires_at=NOW),
        record(keys["revoked"], lab, revoked_at=NOW - 1),
        record(keys["disabled"], principal("gone", *Scope)),
    ]
    guard = _guard(accounts or Accounts(), unknown_keys)
    guard.refresh(
        Directory(
            tenants=TENANTS,
            keys={known.sha256: known for known in records},
            certificates=certificates or {},
            identities=[identity("lab", "", lab), identity("gone", "-of-a-disabled-tenant")],
        )
    )
    closed = {name: keys[name] for name in ("expired", "revoked", "disabled", "unknown")}
    closed["malformed"] = keys["lab"][:-1]
    return ServiceWithKeys(
        guard=guard,
        lab=keys["lab"],
        mill=keys["mill"],
        metrics=keys["metrics"],
        operate=keys["operate"],
        closed=closed,
        job=token(ISSUER, now=NOW),
        closed_jobs=rejected_tokens(),
    )


def _guard(accounts: Accounts, unknown_keys: UnknownKeyLimits) -> Guard:
    accounts.renew(TENANTS.values())
    tokens = Tokens(FixedKeys(), limit=16)
    return Guard(accounts, unknown_keys=unknown_keys, calls=CALLS, tokens=tokens, clock=lambda: NOW)


def rejected_tokens() -> Mapping[str, str]:
    """Tokens of CI jobs that the guard rejects at the time NOW, by their defect."""
    return {
        "expired": token(ISSUER, now=NOW - 3600),
        "audience": token(ISSUER, now=NOW, aud="another"),
        "issuer": token("https://gitlab.com", now=NOW),
        "repository": token(ISSUER, now=NOW, repository="evil/fork"),
        "disabled": token(ISSUER, now=NOW, repository=f"{REPOSITORY}-of-a-disabled-tenant"),
        "signature": f"{token(ISSUER, now=NOW).rpartition('.')[0]}.{'A' * 86}",
        "malformed": "..",
    }
