"""Guard: authenticates and authorises every call of every API."""

import asyncio
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TypeVar

from opserve_server.core.accounts import Accounts
from opserve_server.core.directory import KEYLESS, Directory, KeyRecord
from opserve_server.core.errors import (
    PermissionDenied,
    TooManyUnknownKeys,
    Unauthenticated,
    Unavailable,
    no_credentials,
    unknown_certificate,
)
from opserve_server.core.keys import LENGTH, is_well_formed, sha256_of
from opserve_server.core.observations import Call
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.time_slices import admit_slices_by
from opserve_server.open_calls import CallLimits, CallSlot, OpenCalls
from opserve_server.tokens import Tokens, is_token
from opserve_server.unknown_keys import UnknownKeyLimits, UnknownKeys

AUTHORIZATION = "authorization"
"""The header on both wires that no observer sees."""
_COUNTED_LATER = frozenset({"CloseSession", "closeSession"})
"""Methods of both APIs whose calls `calls.close_session` counts, once it has found the session."""
_SCHEME = "bearer"

Part = TypeVar("Part")
UNAUTHENTICATED = Principal(tenant="", name="", scopes=frozenset())
"""The principal of unauthenticated callers of methods without a scope."""


def _no_names() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials of a call; expensive ones are computed on demand.

    Attributes:
        authorization: The header of that name, a secret; None without one.
        certificate: Subject and names of the verified client certificate, as in Directory.
        peer: The caller's address without a port.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: Callable[[], Sequence[str]] = _no_names
    peer: Callable[[], str]


class KeyPolicy(Enum):
    """Conditions under which callers need a key."""

    ALWAYS = auto()
    FROM_THE_FIRST_KEY = auto()
    NEVER = auto()


class Guard:
    """Authenticates callers and admits their calls.

    Args:
        accounts: Accounts of the tenants; they count calls.
        unknown_keys: Bounds on unknown keys.
        calls: Bounds on open calls.
        tokens: Verifies tokens of CI systems; None: no token is accepted.
        keys: Condition under which callers need a key.
        clock: Seconds since 1970.

    Attributes:
        open_calls: The slots of all calls.
        keyless: Whether every caller is LOCAL; false for good once a key exists.
    """

    def __init__(
        self,
        accounts: Accounts,
        *,
        unknown_keys: UnknownKeyLimits,
        calls: CallLimits,
        tokens: Tokens | None = None,
        keys: KeyPolicy = KeyPolicy.ALWAYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._accounts = accounts
        self.open_calls = OpenCalls(accounts, calls)
        self._directory = KEYLESS
        self._unknown_keys = UnknownKeys(unknown_keys)
        self._tokens = tokens
        self._clock = clock
        self._admission = FairAdmission()
        self._used: dict[str, float] = {}
        self._waiting: dict[asyncio.Timeout, Callable[[], None]] = {}
        self._keys = keys
        self.keyless = keys is not KeyPolicy.ALWAYS

    def refresh(self, directory: Directory) -> None:
        """Replaces the directory; ends the answers of callers that are no longer permitted."""
        self._directory = directory
        if self._tokens is not None:
            self._tokens.refresh(directory.identities)
        if not directory.keyless:
            self.note_keys()
        # Answers that wait for their next part are checked here; all others check before each part.
        for waiting, recheck in list(self._waiting.items()):
            try:
                recheck()
            except (Unauthenticated, TooManyUnknownKeys, Unavailable):
                del self._waiting[waiting]
                waiting.reschedule(0.0)

    def note_keys(self) -> None:
        """Requires a key from now on, unless the policy is to require none."""
        # One way only: a store that loses its keys must not open the service to callers without a
        # key.
        self.keyless = self._keys is KeyPolicy.NEVER

    def enter(
        self, call: Call, credentials: Credentials, scope: Scope | None, *, is_watch: bool = False
    ) -> CallSlot:
        """Authenticates the caller and takes a slot, before anything else of the call is received.

        Args:
            call: The call.
            credentials: Its credentials.
            scope: The required scope; None admits every caller.
            is_watch: Whether it is a watch.

        Raises:
            Unauthenticated: The caller is not authenticated.
            TooManyUnknownKeys: The address has sent too many unknown keys.
            LimitExceeded: The caller's tenant has too many open calls.
            Unavailable: The service ends, or does not have the keys of a token's issuer.
        """
        # Order of the checks: credentials, slot, message, fair admission, scope. A caller without
        # valid credentials costs neither a tenant's slot nor the reading of a message.
        principal = UNAUTHENTICATED if scope is None else self._caller(credentials)
        call.principal = principal
        if principal is UNAUTHENTICATED:
            # Per wire: an address that leaves answers unread over one is still answered over the
            # other.
            peer = f"{call.api} {credentials.peer()}"
            return self.open_calls.take_unauthenticated(peer, is_watch=is_watch)
        # A key outlives the disabling of its tenant.
        self._check_tenant(principal)
        return self.open_calls.take(principal.tenant)

    async def admit(self, call: Call, scope: Scope | None) -> None:
        """Admits a call with a slot when fair admission lets its tenant pass.

        Raises:
            PermissionDenied: The caller lacks the scope.
            QuotaExceeded: Its tenant has made too many calls in a second.
        """
        assert call.principal is not None, "enter comes first"
        # Before the check of the scope, so that rejected calls take turns like all others.
        await self.turn(call)
        admit_slices_by(partial(self._admission.admitted, call.principal.tenant, object()))
        if scope is not None:
            self._check_scope(call.principal, scope)
            if call.method not in _COUNTED_LATER:
                self._accounts.of(call.principal.tenant).admit_call()

    async def turn(self, call: Call) -> None:
        """Waits for fair admission of the call's tenant, before the call and before each answer."""
        tenant = None if call.principal is None else call.principal.tenant
        await self._admission.admitted(tenant, call)

    def _caller(self, credentials: Credentials) -> Principal:
        return LOCAL if self.keyless else self._authenticated(credentials)

    def check(self, principal: Principal, scope: Scope) -> None:
        """Rejects a principal without the scope, or no longer valid; raises as admit does."""
        self._check_scope(principal, scope)
        self._accounts.of(principal.tenant).admit_call()

    def _check_scope(self, principal: Principal, scope: Scope) -> None:
        self._check_tenant(principal)
        if scope not in principal.scopes:
            raise PermissionDenied(principal, scope=f"the scope {scope.value}")

    def _check_tenant(self, principal: Principal) -> None:
        tenant = self._directory.tenants.get(principal.tenant)
        if not self.keyless and (tenant is None or tenant.disabled):
            raise Unauthenticated("the tenant is disabled", principal=principal)

    def recheck(self, call: Call, credentials: Credentials) -> None:
        """Rejects a caller whose key became invalid after admission; a long answer ends then."""
        principal = call.principal
        if self.keyless or principal in {UNAUTHENTICATED, LOCAL}:
            return
        if self._authenticated(credentials) != principal:
            raise Unauthenticated("a key that has another principal now", principal=principal)

    async def while_allowed(
        self, parts: AsyncIterable[Part], call: Call, credentials: Credentials
    ) -> AsyncGenerator[Part]:
        """The parts of a long answer, each after fair admission of its tenant.

        Raises:
            Unauthenticated: The caller's key became invalid, also while no part is sent.
            TooManyUnknownKeys: The same, and its address has sent too many unknown keys.
        """
        each, recheck = aiter(parts), partial(self.recheck, call, credentials)
        while (part := await self._next(each, recheck)) is not None:
            await self.turn(call)
            recheck()
            yield part

    async def _next(self, parts: AsyncIterator[Part], recheck: Callable[[], None]) -> Part | None:
        recheck()  # from here on each refresh of the directory does it
        waiting = asyncio.timeout(None)
        self._waiting[waiting] = recheck
        try:
            async with waiting:
                return await anext(parts, None)
        except TimeoutError:
            if waiting.expired():
                recheck()
            raise
        finally:
            self._waiting.pop(waiting, None)

    def end_with_key(self, waiting: asyncio.Timeout, call: Call, credentials: Credentials) -> None:
        """Expires a timeout when the caller's key becomes invalid, until `forget`."""
        self._waiting[waiting] = partial(self.recheck, call, credentials)

    def forget(self, waiting: asyncio.Timeout) -> None:
        """Stops watching a timeout."""
        self._waiting.pop(waiting, None)

    def take_uses(self) -> Mapping[str, float]:
        """Time of the last use of keys by id, seconds since 1970, since the previous call."""
        used, self._used = self._used, {}
        return used

    def _authenticated(self, credentials: Credentials) -> Principal:
        authorization = credentials.authorization
        if authorization is not None:
            scheme, _, text = authorization.partition(" ")
            if self._tokens is not None and scheme.lower() == _SCHEME and is_token(text):
                return self._principal_of_token(self._tokens, text, credentials.peer)
            return self._principal_of_key(authorization, credentials.peer)
        certificates, names = self._directory.certificates, credentials.certificate()
        for name in names:
            if name in certificates:
                return certificates[name]
        raise unknown_certificate(names[0]) if names else no_credentials()

    def _principal_of_token(self, tokens: Tokens, text: str, peer: Callable[[], str]) -> Principal:
        now = self._clock()
        try:
            return tokens.principal_of(text, now)
        except Unauthenticated:
            self._unknown_keys.take(peer(), now)
            raise

    def _principal_of_key(self, authorization: str, peer: Callable[[], str]) -> Principal:
        scheme, _, text = authorization.partition(" ")
        # A text of another length is no key; hashing a longer one would cost time.
        well_formed = scheme.lower() == _SCHEME and len(text) == LENGTH
        record = self._directory.keys.get(sha256_of(text)) if well_formed else None
        now = self._clock()
        if record is None:
            self._unknown_keys.take(peer(), now)
            if scheme.lower() != _SCHEME:
                raise _without_scheme()
            raise Unauthenticated(
                "an unknown key" if is_well_formed(text) else "a key with a typo, or none"
            )
        _check_valid(record, now)
        self._used[record.id] = now
        return record.principal


def _without_scheme() -> Unauthenticated:
    return Unauthenticated(
        "a header without Bearer",
        given="another scheme",
        message="The header authorization does not begin with 'Bearer ': put it before the key.",
    )


def _check_valid(record: KeyRecord, now: float) -> None:
    if record.revoked_at is not None:
        raise Unauthenticated(f"key {record.id} is revoked", principal=record.principal)
    if record.expires_at is not None and record.expires_at <= now:
        raise Unauthenticated(f"key {record.id} has expired", principal=record.principal)


_Waiting = tuple[object, asyncio.Future[None]]


@dataclass(slots=True)
class _TenantQueue:
    """Calls of a tenant, from an admission until an iteration of the loop without one.

    Attributes:
        admitted: The latest admitted call, while it may pass once more: a short call is answered in
            the iteration of its admission.
        waiting: The other calls, each with a future that is done at its admission.
    """

    admitted: object | None
    waiting: deque[_Waiting] = field(default_factory=deque[_Waiting])


class FairAdmission:
    """Fair admission: at most one call per tenant and loop iteration, in the order of arrival.

    Many calls of one tenant that arrive or resume at once then delay a call of another tenant by
    one call, not by all of them. A tenant that is alone never waits. The queues hold no more than
    the open calls.
    """

    def __init__(self) -> None:
        self._queues: dict[str | None, _TenantQueue] = {}

    async def admitted(self, tenant: str | None, call: object) -> None:
        """Waits until the call is admitted.

        Args:
            tenant: The tenant; None for all unauthenticated callers, which share one queue.
            call: The call.
        """
        loop = asyncio.get_running_loop()
        queue = self._queues.get(tenant)
        if queue is None:
            self._queues[tenant] = _TenantQueue(call)
            # The queue lives until the next iteration without a waiting call, so that a second call
            # of the tenant in this iteration has to wait.
            loop.call_soon(self._admit_next, tenant)
        elif queue.admitted is call:
            # A short call passes twice, before its begin and before its answer: both in one
            # iteration if it is the admitted one.
            queue.admitted = None
        else:
            turn = loop.create_future()
            queue.waiting.append((call, turn))
            await turn

    def _admit_next(self, tenant: str | None) -> None:
        queue = self._queues[tenant]
        while queue.waiting:
            call, turn = queue.waiting.popleft()
            if not turn.done():  # its call was cancelled
                queue.admitted = call
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._admit_next, tenant)
                return
        del self._queues[tenant]
