"""Guards for tests: of a service without keys, and of one with some."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_server.core.accounts import Accounts
from opserve_server.core.directory import Directory, KeyRecord
from opserve_server.core.keys import new_key, sha256_of
from opserve_server.core.observations import Call
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.tenants import Tenant
from opserve_server.guard import Credentials, Guard, KeyPolicy
from opserve_server.open_calls import CallLimits
from opserve_server.unknown_keys import UnknownKeyLimits

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
    """

    guard: Guard
    lab: str
    mill: str
    metrics: str
    operate: str
    closed: Mapping[str, str]


def service_with_keys(
    *,
    accounts: Accounts | None = None,
    certificates: Mapping[str, Principal] | None = None,
    unknown_keys: UnknownKeyLimits = GUESSES,
) -> ServiceWithKeys:
    """A guard whose directory has keys, at the time NOW."""
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
    accounts = accounts or Accounts()
    accounts.renew(TENANTS.values())
    guard = Guard(accounts, unknown_keys=unknown_keys, calls=CALLS, clock=lambda: NOW)
    guard.refresh(
        Directory(
            tenants=TENANTS,
            keys={known.sha256: known for known in records},
            certificates=certificates or {},
        )
    )
    closed = {name: keys[name] for name in ("expired", "revoked", "disabled", "unknown")}
    closed["malformed"] = keys["lab"][:-1]
    return ServiceWithKeys(
        guard, keys["lab"], keys["mill"], keys["metrics"], keys["operate"], closed
    )
