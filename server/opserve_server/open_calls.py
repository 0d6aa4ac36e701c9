"""Open calls: how many each tenant and all strangers together have, and what their messages take.

A call takes a place once its caller is recognised and returns it when its answer is sent. A tenant
without a free place is refused. A stranger, who may call what needs no key, is not: the eldest call
of the address with most of them ends, so that probes are answered when all places are taken.

A call whose client reads nothing does not end, because gRPC sends the end behind the answer. Such
calls count until they end, and an address with many of them is refused.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from opserve_kernels.status import Status
from opserve_server.core.accounts import Accounts, Reservation
from opserve_server.core.errors import LimitExceeded, OpserveError, service_ends
from opserve_server.core.tenants import Resource

MessageT = TypeVar("MessageT")
Receive = Callable[[], Awaitable[MessageT]]
_MEMORY_FACTOR = 8
"""Memory that a stranger's message may take, in its own sizes: its frames, which a hostile client
makes small, and what the allocator keeps of those that ended."""
_FRAMES_FACTOR = 3
"""Memory that an arriving message may take, in its own sizes: frames of 24 bytes need 2.9."""
_SMALL_BYTES = 64 * 2**10
"""Largest message that a call beyond the quota of its tenant may keep, bytes: what frees something
is smaller."""
_BEYOND_QUOTA_S = 3.0
"""Time in which a message beyond the quota arrives while another call waits to receive one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Bounds on open calls.

    Attributes:
        of_tenant: Open calls of one tenant.
        of_strangers: Open calls of all strangers; half of them may be watches.
        strangers_bytes: Bytes that messages of all strangers may take while they arrive.
        message_bytes: Bytes of the largest message over gRPC and JSON body over REST.
        silence_s: Seconds within which a message arrives once its call waits for it.
    """

    of_tenant: int
    unauthenticated_calls: int
    unauthenticated_bytes: int
    message_bytes: int
    silence_s: float


@dataclass(slots=True)
class TenantCalls:
    """Open calls of a tenant, of which one at a time receives a message beyond its quota.

    Attributes:
        calls: How many there are.
        beyond: The one that receives has it.
        waiting: Calls that wait for it.
        deadline: Of the one that receives.
    """

    calls: int = 0
    beyond: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    deadline: asyncio.Timeout | None = None


class TenantShare:
    """The share of a tenant's call: a message counts among the bytes in flight."""

    def __init__(self, tenant: TenantCalls, reservation: Reservation, limits: CallLimits) -> None:
        self._tenant = tenant
        self._reservation = reservation
        self._arriving_bytes = limits.message_bytes * _FRAMES_FACTOR
        self._silence_s = limits.silence_s

    def enter(self, _: "CallSlot") -> None:
        """The call begins."""
        self._tenant.calls += 1

    def leave(self, _: "CallSlot") -> None:
        """The call has ended."""
        self._tenant.calls -= 1
        self._reservation.update(0)

    def keep(self, size_bytes: int) -> None:
        """Counts the message that the call keeps; see Place.keep."""
        self._reservation.update(0)
        if size_bytes > _SMALL_BYTES:
            self._reservation.check(size_bytes)
        self._reservation.update(size_bytes)

    async def received(self, _: "CallSlot", receive: Receive[MessageT]) -> MessageT:
        """A message; see Place.received."""
        self._reservation.update(0)
        if self._reservation.available < self._arriving_bytes:
            return await self._received_beyond(receive)
        self._reservation.update(self._arriving_bytes)
        try:
            return await _in_time(receive, self._silence_s)
        finally:
            self._reservation.update(0)

    async def _received_beyond(self, receive: Receive[MessageT]) -> MessageT:
        # A tenant that is at its quota can still free something, one call after the other.
        await self._acquire_beyond()
        tenant = self._tenant
        try:
            limit_s = min(_BEYOND_QUOTA_S, self._silence_s) if tenant.waiting else None
            async with asyncio.timeout(limit_s) as tenant.deadline:
                return await _in_time(receive, self._silence_s)
        except TimeoutError:
            raise self._reservation.refusal(self._arriving_bytes) from None
        finally:
            tenant.deadline = None
            tenant.beyond.release()

    async def _acquire_beyond(self) -> None:
        tenant, now_s = self._tenant, asyncio.get_running_loop().time()
        if tenant.deadline is not None and tenant.deadline.when() is None:
            tenant.deadline.reschedule(now_s + _BEYOND_QUOTA_S)
        tenant.waiting += 1
        try:
            async with asyncio.timeout(self._silence_s):
                await tenant.beyond.acquire()
        except TimeoutError:
            raise self._reservation.refusal(self._arriving_bytes) from None
        finally:
            tenant.waiting -= 1


class _UnfinishedCalls:
    """Calls of strangers that have not ended, also those that the service has answered or ended.

    An address has at most as many as there are places left, so that some are left for others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls = Counter[str]()

    def check(self, peer: str) -> None:
        if self._calls[peer] >= self._limit - self._calls.total():
            raise _unread(self._calls[peer])

    def enter(self, peer: str) -> None:
        self._calls[peer] += 1

    def leave(self, peer: str) -> None:
        self._calls[peer] -= 1
        if not self._calls[peer]:
            del self._calls[peer]


class _SlotPool:
    """Places of strangers by their addresses, the eldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[CallSlot, str] = {}

    def enter(self, call: "CallSlot", peer: str) -> None:
        if len(self._peers) >= self._limit:
            ((busiest, _),) = Counter(self._peers.values()).most_common(1)
            oldest = next(other for other, its_peer in self._peers.items() if its_peer == busiest)
            self.leave(oldest)
            oldest.end(_evicted(self._limit))
        self._peers[call] = peer

    def leave(self, call: "CallSlot") -> None:
        self._peers.pop(call, None)


class UnauthenticatedSlots:
    """The places of all calls of strangers, and bounds on their messages.

    Args:
        limits: Bounds.
    """

    def __init__(self, limits: CallLimits) -> None:
        watches = max(limits.unauthenticated_calls // 2, 1)
        self.watches = _SlotPool(watches)
        self.probes = _SlotPool(max(limits.unauthenticated_calls - watches, 1))
        self.messages = _SlotPool(
            max(limits.unauthenticated_bytes // (limits.message_bytes * _MEMORY_FACTOR), 1)
        )
        self.unfinished = _UnfinishedCalls(2 * limits.unauthenticated_calls)
        # All calls together may keep their messages while they wait for their turn.
        self.kept_bytes = max(
            limits.unauthenticated_bytes // _MEMORY_FACTOR // limits.unauthenticated_calls, 1
        )
        self.silence_s = limits.silence_s


class UnauthenticatedShare:
    """The share of a stranger's call: a place among watches or probes, another while it receives.

    Args:
        strangers: The places.
        peer: The wire and the address that it calls from.
        lasts: Whether it is a watch.

    Raises:
        LimitExceeded: 207012, too many calls from the address have not ended.
    """

    def __init__(self, slots: UnauthenticatedSlots, peer: str, *, is_watch: bool) -> None:
        slots.unfinished.check(peer)
        self._unauthenticated = slots
        self._pool = slots.watches if is_watch else slots.probes
        self._peer = peer

    def enter(self, call: "CallSlot") -> None:
        """The call begins; another may end for it."""
        self._unauthenticated.unfinished.enter(self._peer)
        self._pool.enter(call, self._peer)

    def leave(self, call: "CallSlot") -> None:
        """The call has ended."""
        self._unauthenticated.unfinished.leave(self._peer)
        self._pool.leave(call)

    def keep(self, size_bytes: int) -> None:
        """Refuses a message that is larger than the share; see Place.keep."""
        if size_bytes > self._unauthenticated.kept_bytes:
            raise _too_large(size_bytes, self._unauthenticated.kept_bytes)

    async def received(self, call: "CallSlot", receive: Receive[MessageT]) -> MessageT:
        """A message, for which another call that receives one may end; see Place.received."""
        self._unauthenticated.messages.enter(call, self._peer)
        try:
            return await _in_time(receive, self._unauthenticated.silence_s)
        finally:
            self._unauthenticated.messages.leave(call)


async def _in_time(receive: Receive[MessageT], limit_s: float) -> MessageT:
    silence = asyncio.timeout(limit_s)
    try:
        async with silence:
            return await receive()
    except TimeoutError:
        if not silence.expired():
            raise
        raise _too_slow(limit_s) from None


def _evicted(limit: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"calls: given one more without a key, allowed {limit} at once; the eldest ends",
        parameter="calls",
        given="one more without a key",
        allowed=f"{limit} at once",
    )


def _unread(calls: int) -> LimitExceeded:
    given = f"one more beside {calls} of this address without a key that have not ended"
    allowed = "fewer; read their answers, or end them"
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"calls: given {given}, allowed {allowed}",
        parameter="calls",
        given=given,
        allowed=allowed,
    )


def _too_large(size_bytes: int, limit_bytes: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"message: given {size_bytes} bytes without a key, allowed {limit_bytes}",
        parameter="message",
        given=f"{size_bytes} bytes without a key",
        allowed=f"{limit_bytes}",
    )


def _too_slow(limit_s: float) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"message: given none, or a part of one, within {limit_s:g} s, allowed a whole message",
        parameter="message",
        given=f"none, or a part of one, within {limit_s:g} s",
        allowed="a whole message",
    )


_END_GRACE_S = 1.0
"""Time in which calls that the service ended leave, seconds."""


class OpenCalls:
    """The places of all calls.

    Args:
        accounts: Of the tenants; messages count among their bytes in flight.
        limits: Bounds.
    """

    def __init__(self, accounts: Accounts, limits: CallLimits) -> None:
        self._accounts = accounts
        self._limits = limits
        self._slots: set[CallSlot] = set()
        self._tenants: dict[str, TenantCalls] = {}
        self._unauthenticated = UnauthenticatedSlots(limits)
        self._ending = False
        self._left = asyncio.Event()

    def take(self, tenant: str) -> "CallSlot":
        """A place of a tenant.

        Raises:
            LimitExceeded: 207012, the tenant has none left.
            Unauthenticated: 207006, the tenant has gone, or is disabled.
            Unavailable: 507901, the service ends.
        """
        reservation = self._accounts.of(tenant).reserve(Resource.BYTES_IN_FLIGHT)
        calls = self._tenants.setdefault(tenant, TenantCalls())
        if calls.calls >= self._limits.of_tenant:
            raise _too_many(self._limits.of_tenant)
        return self._slot(TenantShare(calls, reservation, self._limits))

    def take_unauthenticated(self, peer: str, *, is_watch: bool) -> "CallSlot":
        """A place of a stranger, for which the call of another may end.

        Args:
            peer: The wire and the address that it calls from.
            is_watch: Whether the call is a watch.

        Raises:
            LimitExceeded: 207012, too many calls from the address have not ended.
            Unavailable: 507901, the service ends.
        """
        return self._slot(UnauthenticatedShare(self._unauthenticated, peer, is_watch=is_watch))

    def _slot(self, share: TenantShare | UnauthenticatedShare) -> "CallSlot":
        if self._ending:
            raise service_ends()
        return CallSlot(share, among=self._slots, left=self._left)

    async def end(self, *, within_s: float) -> None:
        """Refuses new calls, waits for those of tenants at work, and ends what takes longer.

        Calls of strangers get a second, and answers that are being sent another one. A cancellation
        ends the wait, and no call stays without an answer.
        """
        self._ending = True
        try:
            await self._none_left(within_s, lambda slot: slot.at_work and slot.of_tenant)
            await self._none_left(min(within_s, _END_GRACE_S), lambda slot: slot.at_work)
        finally:
            for slot in list(self._slots):
                slot.end(service_ends())
            await self._none_left(_END_GRACE_S, lambda _: True)

    async def _none_left(self, within_s: float, matches: "Callable[[CallSlot], bool]") -> None:
        try:
            async with asyncio.timeout(within_s):
                while any(map(matches, self._slots)):
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            pass


class CallSlot:
    """The place of one call. In its `with` block the service may end the call with an error.

    Args:
        share: What the call takes.
        among: All places.
        left: Set when the call's work ends, and when it leaves.

    Attributes:
        at_work: Whether the call's `with` block has not ended.
    """

    def __init__(
        self,
        share: TenantShare | UnauthenticatedShare,
        *,
        among: "set[CallSlot]",
        left: asyncio.Event,
    ) -> None:
        self.at_work = True
        self._share = share
        self._among = among
        self._left = left
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._error: OpserveError | None = None
        self._sends = self._cancelled = False
        share.enter(self)
        among.add(self)

    @property
    def of_tenant(self) -> bool:
        """Whether the call is a tenant's."""
        return isinstance(self._share, TenantShare)

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None, "each call is a task"
        self._cancelling = self._task.cancelling()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self.at_work = False
        self._left.set()
        if task is None or self._error is None or not self._cancelled:
            return
        # A client that hung up at the same time has cancelled the task too; see asyncio.Timeout.
        if task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise self._error from None

    def end(self, error: OpserveError) -> None:
        """Ends the call with an error; does nothing outside its `with` block."""
        if self._task is not None and self._error is None:
            self._error = error
            if not self._sends:
                self._cancelled = True
                self._task.cancel()

    async def sent(self, part: Awaitable[object]) -> None:
        """Waits until a part of the answer is sent; a call that is to end does so behind it.

        gRPC sends no status while it sends a message: the call would stay open, and count no more.
        """
        self._sends = True
        try:
            await part
        finally:
            self._sends = False
        if self._error is not None:
            raise self._error

    def begin_answer(self) -> None:
        """Keeps the service from ending a call whose answer has begun."""
        if self._error is None:
            self._task = None

    def leave(self) -> None:
        """Returns the place."""
        self._among.remove(self)
        self._share.leave(self)
        self._left.set()

    def keep(self, size_bytes: int) -> None:
        """Counts the message, of so many bytes, that the call keeps from now on.

        Raises:
            LimitExceeded: 207012, a stranger's share is less.
            QuotaExceeded: 207012, it is larger than 64 KiB and than what the tenant's quota leaves.
        """
        self._share.keep(size_bytes)

    async def received(self, receive: Receive[MessageT]) -> MessageT:
        """A message, which counts as the largest that may come while it arrives.

        The call keeps no other message from now on.

        Raises:
            LimitExceeded: 207012, it did not arrive in time.
            QuotaExceeded: 207012, nor did it beyond the tenant's quota, where other calls wait.
        """
        return await self._share.received(self, receive)


def _too_many(limit: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"calls: given one more of this tenant, allowed {limit} at once",
        parameter="calls",
        given="one more of this tenant",
        allowed=f"{limit} at once",
    )
