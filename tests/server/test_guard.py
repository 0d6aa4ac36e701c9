"""The guard: recognised callers, their allowed calls, and the cost of a guess."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace

import pytest
from jwt import PyJWK
from typing_extensions import override

from opserve_kernels.status import Status
from opserve_server.core.accounts import Accounts
from opserve_server.core.directory import KEYLESS, Directory, KeyRecord
from opserve_server.core.errors import (
    LimitExceeded,
    OpserveError,
    PermissionDenied,
    TooManyUnknownKeys,
    Unauthenticated,
    Unavailable,
)
from opserve_server.core.keys import new_key, sha256_of
from opserve_server.core.observations import Call
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.tenants import Tenant
from opserve_server.guard import UNAUTHENTICATED, Credentials, Guard, KeyPolicy
from opserve_server.tokens import Tokens
from opserve_server.unknown_keys import UnknownKeyLimits
from server import guards
from server.token_issuer import ISSUER, FixedKeys, token

ALICE = Principal(tenant="lab", name="alice", scopes=frozenset({Scope.OPERATE}))
PROBE = Principal(tenant="lab", name="probe", scopes=frozenset({Scope.METRICS}))
GONE = Principal(tenant="gone", name="carol", scopes=frozenset({Scope.OPERATE}))
NOBODY = Principal(tenant="never", name="dora", scopes=frozenset({Scope.OPERATE}))
TENANTS = {"lab": Tenant(name="lab"), "gone": Tenant(name="gone", disabled=True)}
ACCOUNTS = Accounts()
ACCOUNTS.renew(TENANTS.values())
SPIFFE = "URI:spiffe://farm/ci"


class Clock:
    """Seconds, set by the test."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(key: str, principal: Principal, **known: float) -> KeyRecord:
    digest = sha256_of(key)
    return KeyRecord(
        id=digest.hex()[:8], sha256=digest, principal=principal, created_at=0.0, **known
    )


def directory(
    *records: KeyRecord, certificates: Mapping[str, Principal] | None = None
) -> Directory:
    return Directory(
        tenants=TENANTS,
        keys={known.sha256: known for known in records},
        certificates=certificates or {},
    )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guard(clock: Clock) -> Guard:
    unknown_keys = UnknownKeyLimits(per_s=0.5, at_once=3, peers=2)
    policy, calls = KeyPolicy.FROM_THE_FIRST_KEY, guards.CALLS
    return Guard(ACCOUNTS, unknown_keys=unknown_keys, calls=calls, keys=policy, clock=clock)


def shown(authorization: str | None = None, *, peer: str = "192.0.2.1") -> Credentials:
    return Credentials(authorization=authorization, peer=lambda: peer)


def admitted(guard: Guard, credentials: Credentials, scope: Scope | None) -> Principal:
    return asyncio.run(guards.admitted(guard, credentials, scope))


def refused(call: Callable[[], object]) -> OpserveError:
    with pytest.raises(OpserveError) as caught:
        call()
    return caught.value


def test_a_key_without_its_scheme_has_an_error_of_its_own(
    guard: Guard,
) -> None:
    key = new_key()
    guard.refresh(directory(record(key, ALICE)))
    for given in (shown(key), shown(f"Basic {key}", peer="192.0.2.2")):
        error = refused(lambda given=given: admitted(guard, given, Scope.OPERATE))  # type: ignore[misc]  # one of these
        assert error.message == (
            "The header authorization does not begin with 'Bearer ': put it before the key."
        )


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_key_identifies_the_caller(guard: Guard, scheme: str) -> None:
    key = new_key()
    guard.refresh(directory(record(key, ALICE)))
    assert admitted(guard, shown(f"{scheme} {key}"), Scope.OPERATE) is ALICE


def test_every_wrong_key_gets_the_same_answer(guard: Guard, clock: Clock) -> None:
    keys = {name: new_key() for name in ("alice", "expired", "revoked", "disabled", "no tenant")}
    guard.refresh(
        directory(
            record(keys["alice"], ALICE),
            record(keys["expired"], ALICE, expires_at=clock.now),
            record(keys["revoked"], ALICE, revoked_at=clock.now - 1),
            record(keys["disabled"], GONE),
            record(keys["no tenant"], NOBODY),
        )
    )
    given = [
        shown(f"Bearer {new_key()}", peer="192.0.2.3"),
        shown(f"Bearer {keys['alice'][:-1]}", peer="192.0.2.4"),
        *(shown(f"Bearer {keys[name]}") for name in keys if name != "alice"),
    ]
    errors = [refused(lambda one=one: admitted(guard, one, Scope.OPERATE)) for one in given]  # type: ignore[misc]  # one of these
    assert {type(error) for error in errors} == {Unauthenticated}
    assert len({(error.message, error.status, error.given, error.allowed) for error in errors}) == 1
    reasons = {error.reason for error in errors if isinstance(error, Unauthenticated)}
    assert len(reasons) == 5, reasons
    assert not any(key in f"{error!r}{vars(error)}" for key in keys.values() for error in errors)


def test_a_caller_without_a_key_is_sent_to_the_ways_to_get_one(guard: Guard) -> None:
    guard.refresh(directory(record(new_key(), ALICE)))
    none = refused(lambda: admitted(guard, shown(None), Scope.OPERATE))
    unknown = refused(lambda: admitted(guard, shown(f"Bearer {new_key()}"), Scope.OPERATE))
    assert none.message.startswith("No API key was sent, and this service has keys: ")
    for remedy in ("OPSERVE_API_KEY", "--api-key", "api_key=", "key create", "bootstrap --force"):
        assert remedy in none.message
    assert unknown.message.startswith(
        "This API key is unknown, expired or revoked, or its tenant is disabled: "
    )
    assert "opserve key create" in unknown.message


def test_a_certificate_that_is_not_registered_is_named_with_the_command_that_registers_it(
    guard: Guard,
) -> None:
    guard.refresh(directory(record(new_key(), ALICE)))
    names = ("CN=ci,O=Farm", SPIFFE)
    given = Credentials(authorization=None, certificate=lambda: names, peer=lambda: "192.0.2.1")
    error = refused(lambda: admitted(guard, given, Scope.OPERATE))
    assert isinstance(error, Unauthenticated)
    assert error.message.startswith("The client certificate CN=ci,O=Farm is not registered")
    assert "opserve certificate add" in error.message


def test_administration_of_a_service_without_keys_leads_to_bootstrap(guard: Guard) -> None:
    error = refused(lambda: admitted(guard, shown(None), Scope.ADMIN))
    assert isinstance(error, PermissionDenied)
    assert "run `opserve bootstrap`, then set OPSERVE_API_KEY" in error.message


async def test_an_answer_ends_although_its_key_expired_while_unread(guard: Guard) -> None:
    async def parts() -> AsyncGenerator[bytes]:
        yield b"before"
        await asyncio.Event().wait()

    key = new_key()
    guard.refresh(directory(record(key, ALICE)))
    credentials = shown(f"Bearer {key}")
    call = Call(api="grpc", method="WatchStream", request_id="", headers={})
    guard.enter(call, credentials, Scope.OPERATE).leave()
    await guard.admit(call, Scope.OPERATE)
    async with aclosing(guard.while_allowed(parts(), call, credentials)) as answers:
        assert await anext(answers) == b"before"
        guard.refresh(directory(record(key, ALICE, revoked_at=1.0)))
        with pytest.raises(Unauthenticated):
            await anext(answers)


def test_a_key_expires_at_its_moment(guard: Guard, clock: Clock) -> None:
    key = new_key()
    guard.refresh(directory(record(key, ALICE, expires_at=clock.now + 1)))
    assert admitted(guard, shown(f"Bearer {key}"), Scope.OPERATE) is ALICE
    clock.now += 1
    assert isinstance(
        refused(lambda: admitted(guard, shown(f"Bearer {key}"), Scope.OPERATE)), Unauthenticated
    )


def test_a_missing_scope_is_named_and_the_caller_only_in_the_audit(guard: Guard) -> None:
    key = new_key()
    guard.refresh(directory(record(key, PROBE)))
    assert admitted(guard, shown(f"Bearer {key}"), Scope.METRICS) is PROBE
    error = refused(lambda: admitted(guard, shown(f"Bearer {key}"), Scope.OPERATE))
    assert isinstance(error, PermissionDenied)
    assert error.message == (
        "This caller lacks the scope operate: use a key that has it, which an administrator makes "
        "with `opserve key create`."
    )
    assert error.principal is PROBE


@pytest.mark.parametrize("with_key", [False, True])
def test_a_scope_admits_callers_that_have_it_and_none_admits_every_caller(
    guard: Guard, *, with_key: bool
) -> None:
    key = new_key()
    every = Principal(tenant="lab", name="root", scopes=frozenset(Scope))
    guard.refresh(directory(record(key, every)) if with_key else KEYLESS)
    given = shown(f"Bearer {key}")
    for scope in (Scope.OPERATE, Scope.METRICS):
        assert admitted(guard, given, scope) is (every if with_key else LOCAL)
    assert admitted(guard, shown(None), None) is UNAUTHENTICATED
    if with_key:
        assert admitted(guard, given, Scope.ADMIN) is every
    else:
        assert isinstance(refused(lambda: admitted(guard, given, Scope.ADMIN)), PermissionDenied)


def test_every_caller_is_local_until_the_first_key_exists(guard: Guard) -> None:
    key = new_key()
    assert admitted(guard, shown(), Scope.OPERATE) is LOCAL
    guard.refresh(directory(record(key, ALICE, revoked_at=1.0)))
    assert not guard.keyless
    assert isinstance(refused(lambda: admitted(guard, shown(), Scope.OPERATE)), Unauthenticated)
    guard.refresh(KEYLESS)
    assert isinstance(refused(lambda: admitted(guard, shown(), Scope.OPERATE)), Unauthenticated)
    assert isinstance(refused(lambda: guard.check(LOCAL, Scope.OPERATE)), Unauthenticated)


def test_a_certificate_identifies_the_caller_unless_there_is_a_key(guard: Guard) -> None:
    key = new_key()
    guard.refresh(directory(record(key, PROBE), certificates={SPIFFE: ALICE}))

    def given(authorization: str | None, *names: str) -> Credentials:
        return Credentials(
            authorization=authorization, certificate=lambda: names, peer=lambda: "192.0.2.1"
        )

    assert admitted(guard, given(None, "CN=ci", SPIFFE), Scope.OPERATE) is ALICE
    assert admitted(guard, given(f"Bearer {key}", SPIFFE), Scope.METRICS) is PROBE
    for wrong in (given(None, "CN=ci"), given("Bearer x", SPIFFE)):
        assert isinstance(refused(lambda: admitted(guard, wrong, Scope.OPERATE)), Unauthenticated)  # noqa: B023


def test_unknown_keys_are_counted_by_address_and_stop_no_known_key(
    guard: Guard, clock: Clock
) -> None:
    key = new_key()
    guard.refresh(directory(record(key, ALICE)))

    def guess(peer: str) -> type[OpserveError]:
        return type(
            refused(lambda: admitted(guard, shown(f"Bearer {new_key()}", peer=peer), Scope.OPERATE))
        )

    assert [guess("a") for _ in range(5)] == [Unauthenticated] * 3 + [TooManyUnknownKeys] * 2
    assert guess("b") is Unauthenticated
    assert admitted(guard, shown(f"Bearer {key}", peer="a"), Scope.OPERATE) is ALICE
    clock.now += 2.0
    assert [guess("a") for _ in range(2)] == [Unauthenticated, TooManyUnknownKeys]
    clock.now += 3600.0
    assert [guess("a") for _ in range(4)] == [Unauthenticated] * 3 + [TooManyUnknownKeys]


def test_addresses_that_guess_are_remembered_within_a_limit(guard: Guard) -> None:
    guard.refresh(directory(record(new_key(), ALICE)))
    for number in range(1000):
        credentials = shown(f"Bearer {new_key()}", peer=f"2001:db8::{number:x}")
        with pytest.raises(Unauthenticated):
            admitted(guard, credentials, Scope.OPERATE)
    assert len(guard._unknown_keys._buckets) == 2


def test_unaccepted_tokens_are_counted_by_address_and_stop_no_accepted_one() -> None:
    clock, keys = Clock(), FixedKeys()
    limits = UnknownKeyLimits(per_s=0.5, at_once=3, peers=2)
    tokens = Tokens(keys, limit=2)
    guard = Guard(ACCOUNTS, unknown_keys=limits, calls=guards.CALLS, tokens=tokens, clock=clock)
    guard.refresh(replace(directory(), identities=[guards.identity("lab", "", ALICE)]))
    good = token(ISSUER, now=clock.now)
    assert admitted(guard, shown(f"Bearer {good}"), Scope.OPERATE) is ALICE
    looked_up = keys.used
    faults: set[type[OpserveError]] = set()
    for number in range(300):
        foreign = token("https://gitlab.com", now=clock.now, jti=f"{number}")
        for given in (foreign, f"{number}.{number}.{number}", "." * 40_000):
            credentials = shown(f"Bearer {given}")
            faults.add(type(refused(lambda: admitted(guard, credentials, Scope.OPERATE))))  # noqa: B023
    assert faults == {Unauthenticated, TooManyUnknownKeys}
    assert keys.used == looked_up, "none of them reached a key"
    assert admitted(guard, shown(f"Bearer {good}"), Scope.OPERATE) is ALICE
    assert (len(guard._unknown_keys._buckets), len(tokens._verified)) == (1, 1)


async def test_an_answer_ends_with_its_token_and_with_its_identity() -> None:
    async def parts() -> AsyncGenerator[bytes]:
        while True:
            yield b"part"

    clock = Clock()
    limits = UnknownKeyLimits(per_s=1.0, at_once=100, peers=2)
    tokens = Tokens(FixedKeys(), limit=2)
    guard = Guard(ACCOUNTS, unknown_keys=limits, calls=guards.CALLS, tokens=tokens, clock=clock)
    trusted = replace(directory(), identities=[guards.identity("lab", "", ALICE)])
    for end in ("token", "identity"):
        guard.refresh(trusted)
        credentials = shown(f"Bearer {token(ISSUER, now=clock.now)}")
        call = Call(api="grpc", method="WatchStream", request_id="", headers={})
        guard.enter(call, credentials, Scope.OPERATE).leave()
        await guard.admit(call, Scope.OPERATE)
        async with aclosing(guard.while_allowed(parts(), call, credentials)) as answers:
            assert await anext(answers) == b"part"
            if end == "token":
                clock.now += 331
            else:
                guard.refresh(directory())
            with pytest.raises(Unauthenticated):
                await anext(answers)


def test_a_directory_is_taken_while_the_keys_of_an_issuer_are_missing() -> None:
    class NoKeys(FixedKeys):
        @override
        def key(self, issuer: str, key_id: str) -> PyJWK:
            if self.used:
                raise Unavailable(Status.ACL_ERROR_RT_SOCKET_CLOSE, "away")
            return super().key(issuer, key_id)

    async def watched() -> None:
        clock = Clock()
        tokens = Tokens(NoKeys(), limit=1)
        guard = Guard(
            ACCOUNTS, unknown_keys=guards.GUESSES, calls=guards.CALLS, tokens=tokens, clock=clock
        )
        trusted = replace(directory(), identities=[guards.identity("lab", "", ALICE)])
        guard.refresh(trusted)
        credentials = shown(f"Bearer {token(ISSUER, now=clock.now)}")
        call = Call(api="grpc", method="WatchStream", request_id="", headers={})
        guard.enter(call, credentials, Scope.OPERATE).leave()
        async with asyncio.timeout(None) as waiting:
            guard.end_with_key(waiting, call, credentials)
            tokens._verified.clear()  # another token has taken its place
            guard.refresh(replace(trusted, certificates={"CN=x": PROBE}))
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(watched())


async def test_unauthenticated_calls_over_one_api_leave_their_address_places_at_the_other(
    guard: Guard,
) -> None:
    async def enter(api: str) -> None:
        call = Call(api=api, method="", request_id="", headers={})
        with guard.enter(call, Credentials(authorization=None, peer=lambda: "192.0.2.7"), None):
            pass  # answered, and not read

    for _ in range(guards.CALLS.unauthenticated_calls):
        await enter("grpc")
    with pytest.raises(LimitExceeded):
        await enter("grpc")
    await enter("rest")


def test_last_uses_are_reported_once(guard: Guard, clock: Clock) -> None:
    key = new_key()
    known = record(key, ALICE)
    guard.refresh(directory(known))
    admitted(guard, shown(f"Bearer {key}"), Scope.OPERATE)
    clock.now += 5
    admitted(guard, shown(f"Bearer {key}"), Scope.OPERATE)
    assert guard.take_uses() == {known.id: clock.now}
    assert guard.take_uses() == {}


def test_credentials_are_in_no_repr() -> None:
    key = new_key()
    assert key not in repr(shown(f"Bearer {key}"))
    assert sha256_of(key).hex() not in repr(record(key, ALICE))
    assert repr(sha256_of(key)) not in repr(record(key, ALICE))
