"""The one guard: who calls, and whether it may. Every door asks it before every call."""

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
from opserve_server.core.errors import PermissionDenied, TooManyUnknownKeys, Unauthenticated
from opserve_server.core.keys import LENGTH, is_well_formed, sha256_of
from opserve_server.core.observations import Call
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.time_slices import admit_slices_by
from opserve_server.open_calls import CallLimits, CallSlot, OpenCalls
from opserve_server.unknown_keys import UnknownKeyLimits, UnknownKeys

AUTHORIZATION = "authorization"
"""The header, on both wires, that no observer sees."""
_SCHEME = "bearer"

Part = TypeVar("Part")
UNAUTHENTICATED = Principal(tenant="", name="", scopes=frozenset())
"""Whoever calls what everybody may."""


def _no_names() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What came with a call; what costs time is asked for when it is needed.

    Attributes:
        authorization: The header of that name, a secret; None where there is none.
        certificate: Subject and names of the verified client certificate, as Directory has them.
        peer: The address it came from, without a port.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: Callable[[], Sequence[str]] = _no_names
    peer: Callable[[], str]


class KeyPolicy(Enum):
    """When callers need a key."""

    ALWAYS = auto()
    FROM_THE_FIRST_KEY = auto()
    NEVER = auto()


class Guard:
    """Knows who may call.

    Args:
        accounts: Of the tenants; they count calls.
        guesses: Bounds on unknown keys.
        calls: Bounds on open calls.
        keys: When callers need a key.
        clock: Seconds since 1970.

    Attributes:
        open_calls: The places of all calls.
        keyless: Whether everybody is LOCAL; never again once there was a key.
    """

    def __init__(
        self,
        accounts: Accounts,
        *,
        unknown_keys: UnknownKeyLimits,
        calls: CallLimits,
        keys: KeyPolicy = KeyPolicy.ALWAYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._accounts = accounts
        self.open_calls = OpenCalls(accounts, calls)
        self._directory = KEYLESS
        self._unknown_keys = UnknownKeys(unknown_keys)
        self._clock = clock
        self._admission = FairAdmission()
        self._used: dict[str, float] = {}
        self._waiting: dict[asyncio.Timeout, Callable[[], None]] = {}
        self._keys = keys
        self.keyless = keys is not KeyPolicy.ALWAYS

    def refresh(self, directory: Directory) -> None:
        """Knows from now on what is in a new snapshot; answers of those who may not call end."""
        self._directory = directory
        if not directory.keyless:
            self.note_keys()
        for waiting, recheck in list(self._waiting.items()):
            try:
                recheck()
            except (Unauthenticated, TooManyUnknownKeys):
                del self._waiting[waiting]
                waiting.reschedule(0.0)

    def note_keys(self) -> None:
        """Requires a key from now on, unless the policy is that none ever is."""
        self.keyless = self._keys is KeyPolicy.NEVER

    def enter(
        self, call: Call, credentials: Credentials, scope: Scope | None, *, is_watch: bool = False
    ) -> CallSlot:
        """Recognises the caller and takes a place, before anything else of the call is received.

        Args:
            call: The call.
            credentials: What came with it.
            scope: The scope that it requires; None admits everybody.
            is_watch: Whether it is a watch.

        Raises:
            Unauthenticated: It is not known who calls.
            TooManyGuesses: The address has shown too many unknown keys.
            LimitExceeded: The caller's tenant has too many open calls.
            Unavailable: The service ends.
        """
        principal = UNAUTHENTICATED if scope is None else self._caller(credentials)
        call.principal = principal
        if principal is UNAUTHENTICATED:
            # An address that leaves answers unread over one wire is still answered over the other.
            peer = f"{call.api} {credentials.peer()}"
            return self.open_calls.take_unauthenticated(peer, is_watch=is_watch)
        self._check_tenant(principal)
        return self.open_calls.take(principal.tenant)

    async def admit(self, call: Call, scope: Scope | None) -> None:
        """Lets a call that has a place begin when it is the turn of its tenant.

        Raises:
            PermissionDenied: The caller lacks the scope.
            QuotaExceeded: Its tenant has made too many calls in a second.
        """
        assert call.principal is not None, "it has a place"
        await self.turn(call)
        admit_slices_by(partial(self._admission.admitted, call.principal.tenant, object()))
        if scope is not None:
            self.check(call.principal, scope)

    async def turn(self, call: Call) -> None:
        """Waits until it is the turn of the call's tenant: before its begin, and each answer."""
        tenant = None if call.principal is None else call.principal.tenant
        await self._admission.admitted(tenant, call)

    def _caller(self, credentials: Credentials) -> Principal:
        return LOCAL if self.keyless else self._authenticated(credentials)

    def check(self, principal: Principal, scope: Scope) -> None:
        """Refuses a principal without a scope, or with none any more; raises as admit does."""
        self._check_tenant(principal)
        if scope not in principal.scopes:
            raise PermissionDenied(principal, scope=f"the scope {scope.value}")
        self._accounts.of(principal.tenant).admit_call()

    def _check_tenant(self, principal: Principal) -> None:
        tenant = self._directory.tenants.get(principal.tenant)
        if not self.keyless and (tenant is None or tenant.disabled):
            raise Unauthenticated("the tenant is disabled", principal=principal)

    def recheck(self, call: Call, credentials: Credentials) -> None:
        """Refuses a caller whose key has ended since it was admitted; a long answer ends then."""
        principal = call.principal
        if self.keyless or principal in {UNAUTHENTICATED, LOCAL}:
            return
        if self._authenticated(credentials) != principal:
            raise Unauthenticated("a key that is another's by now", principal=principal)

    async def while_allowed(
        self, parts: AsyncIterable[Part], call: Call, credentials: Credentials
    ) -> AsyncGenerator[Part]:
        """The parts of a long answer, each in the turn of its tenant.

        Raises:
            Unauthenticated: The caller's key has ended, also while no part comes.
            TooManyGuesses: So it has, and its address has shown too many unknown keys.
        """
        each, recheck = aiter(parts), partial(self.recheck, call, credentials)
        while (part := await self._next(each, recheck)) is not None:
            await self.turn(call)
            recheck()
            yield part

    async def _next(self, parts: AsyncIterator[Part], recheck: Callable[[], None]) -> Part | None:
        recheck()  # from here on each look at the store asks
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
        """Lets a timeout expire when the caller's key ends; `forget` ends that."""
        self._waiting[waiting] = partial(self.recheck, call, credentials)

    def forget(self, waiting: asyncio.Timeout) -> None:
        """Leaves a timeout alone from now on."""
        self._waiting.pop(waiting, None)

    def take_uses(self) -> Mapping[str, float]:
        """When keys were used last, by id, in seconds since 1970; each is told once."""
        used, self._used = self._used, {}
        return used

    def _authenticated(self, credentials: Credentials) -> Principal:
        authorization = credentials.authorization
        if authorization is not None:
            return self._principal_of_key(authorization, credentials.peer)
        certificates = self._directory.certificates
        for name in credentials.certificate():
            if name in certificates:
                return certificates[name]
        raise Unauthenticated("neither a key nor a known certificate")

    def _principal_of_key(self, authorization: str, peer: Callable[[], str]) -> Principal:
        scheme, _, text = authorization.partition(" ")
        # What has another length is no key; a longer text would cost the time of its hash.
        well_formed = scheme.lower() == _SCHEME and len(text) == LENGTH
        record = self._directory.keys.get(sha256_of(text)) if well_formed else None
        now = self._clock()
        if record is None:
            self._unknown_keys.take(peer(), now)
            raise Unauthenticated(
                "an unknown key" if is_well_formed(text) else "a key with a typo, or none"
            )
        _check_valid(record, now)
        self._used[record.id] = now
        return record.principal


def _check_valid(record: KeyRecord, now: float) -> None:
    if record.revoked_at is not None:
        raise Unauthenticated(f"key {record.id} is revoked", principal=record.principal)
    if record.expires_at is not None and record.expires_at <= now:
        raise Unauthenticated(f"key {record.id} has expired", principal=record.principal)


_Waiting = tuple[object, asyncio.Future[None]]


@dataclass(slots=True)
class _TenantQueue:
    """Of a tenant, from when a call passed until a turn of the loop in which none did.

    Attributes:
        passed: The call that did, while it may once more: a short one is answered in its turn.
        waiting: The others, with what tells each that it is their turn.
    """

    admitted: object | None
    waiting: deque[_Waiting] = field(default_factory=deque[_Waiting])


class FairAdmission:
    """Lets one call of each tenant pass in each turn of the event loop, in the order they come.

    Many calls of one tenant that come at once, or whose waits end at once, then stand beside a call
    of another and not before it. A tenant that is alone waits for nothing. There are no more in
    line than calls at work.
    """

    def __init__(self) -> None:
        self._queues: dict[str | None, _TenantQueue] = {}

    async def admitted(self, tenant: str | None, call: object) -> None:
        """Waits for one's turn.

        Args:
            tenant: In whose line; None for all of whom nobody knows who they are.
            call: Who passes.
        """
        loop = asyncio.get_running_loop()
        queue = self._queues.get(tenant)
        if queue is None:
            self._queues[tenant] = _TenantQueue(call)
            loop.call_soon(self._admit_next, tenant)
        elif queue.admitted is call:
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
