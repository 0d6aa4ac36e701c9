"""Open calls: bounds on their number and messages, per tenant and for all unauthenticated callers.

A call takes a slot once its caller is authenticated and returns it after its answer is sent. A
tenant without a free slot is rejected. An unauthenticated caller of a method without a scope is
not: the oldest call of the address with most of them is evicted, so that probes are answered when
all slots are taken.

A call whose client reads nothing does not end, because gRPC sends the status after the answer. Such
calls count until they end, and an address with many of them is rejected.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from opserve_kernels.status import Status
from opserve_server.core.accounts import Accounts, Reservation
from opserve_server.core.errors import CallTooLarge, LimitExceeded, OpserveError, service_ends
from opserve_server.core.tenants import Resource

MessageT = TypeVar("MessageT")
Receive = Callable[[], Awaitable[MessageT]]
_MEMORY_FACTOR = 8
"""Memory of an unauthenticated caller's message as a multiple of its size: its frames, which a
hostile client makes small, and memory that the allocator keeps of earlier ones."""
_FRAMES_FACTOR = 3
"""Memory of an arriving message as a multiple of its size: frames of 24 bytes need 2.9."""
_SMALL_BYTES = 64 * 2**10
"""Largest message that a call beyond the quota of its tenant may keep, bytes; a command that frees
resources is smaller."""
_BEYOND_QUOTA_S = 3.0
"""Seconds in which a message beyond the quota must arrive while another call waits to receive
one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Bounds on open calls.

    Attributes:
        of_tenant: Open calls of one tenant.
        unauthenticated_calls: Open calls of all unauthenticated callers; half of them may be
            watches.
        unauthenticated_bytes: Bytes of all arriving messages of unauthenticated callers.
        message_bytes: Bytes of the largest message over gRPC and JSON body over REST.
        silence_s: Seconds within which an awaited message must arrive.
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
        calls: Number of open calls.
        beyond: Lock of the call that receives beyond the quota.
        waiting: Calls that wait for the lock.
        deadline: Deadline of the receiving call.
    """

    calls: int = 0
    beyond: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    deadline: asyncio.Timeout | None = None


class TenantShare:
    """Share of a tenant's call: its message counts towards the bytes in flight."""

    def __init__(self, tenant: TenantCalls, reservation: Reservation, limits: CallLimits) -> None:
        self._tenant = tenant
        self._reservation = reservation
        self._arriving_bytes = limits.message_bytes * _FRAMES_FACTOR
        self._silence_s = limits.silence_s

    def enter(self, _: "CallSlot") -> None:
        """Counts the call."""
        self._tenant.calls += 1

    def leave(self, _: "CallSlot") -> None:
        """Releases the call."""
        self._tenant.calls -= 1
        self._reservation.update(0)

    def keep(self, size_bytes: int) -> None:
        """Counts the message that the call keeps; see CallSlot.keep."""
        self._reservation.update(0)
        if size_bytes > _SMALL_BYTES:
            self._reservation.check(size_bytes)
        self._reservation.update(size_bytes)

    async def received(self, _: "CallSlot", receive: Receive[MessageT]) -> MessageT:
        """Receives a message; see CallSlot.received."""
        self._reservation.update(0)
        if self._reservation.available < self._arriving_bytes:
            return await self._received_beyond(receive)
        self._reservation.update(self._arriving_bytes)
        try:
            return await _in_time(receive, self._silence_s)
        finally:
            self._reservation.update(0)

    async def _received_beyond(self, receive: Receive[MessageT]) -> MessageT:
        # A tenant at its quota must still be able to free resources, one call after the other.
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
    """Unauthenticated calls that have not ended, including those answered or ended by the service.

    An address may have at most as many as there are slots left, so that some are left for other
    addresses.
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
    """Slots of unauthenticated callers with their addresses, the oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[CallSlot, str] = {}

    def enter(self, call: "CallSlot", peer: str) -> None:
        if len(self._peers) >= self._limit:
            ((busiest, _),) = Counter(self._peers.values()).most_common(1)
            oldest = next(other for other, its_peer in self._peers.items() if its_peer == busiest)
            # Its slot is free at once; the call itself may take a while to end.
            self.leave(oldest)
            oldest.end(_evicted(self._limit))
        self._peers[call] = peer

    def leave(self, call: "CallSlot") -> None:
        self._peers.pop(call, None)


class UnauthenticatedSlots:
    """Slots of all unauthenticated calls, and bounds on their messages.

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
        # All calls together may keep their messages while they wait for admission.
        self.kept_bytes = max(
            limits.unauthenticated_bytes // _MEMORY_FACTOR // limits.unauthenticated_calls, 1
        )
        self.silence_s = limits.silence_s


class UnauthenticatedShare:
    """Share of an unauthenticated call: a watch or probe slot, and one to receive a message.

    Args:
        slots: The slots.
        peer: The wire and the caller's address.
        is_watch: Whether it is a watch.

    Raises:
        LimitExceeded: 207012, too many calls from the address have not ended.
    """

    def __init__(self, slots: UnauthenticatedSlots, peer: str, *, is_watch: bool) -> None:
        slots.unfinished.check(peer)
        self._unauthenticated = slots
        self._pool = slots.watches if is_watch else slots.probes
        self._peer = peer

    def enter(self, call: "CallSlot") -> None:
        """Takes a slot; may evict another call."""
        self._unauthenticated.unfinished.enter(self._peer)
        self._pool.enter(call, self._peer)

    def leave(self, call: "CallSlot") -> None:
        """Returns the slot."""
        self._unauthenticated.unfinished.leave(self._peer)
        self._pool.leave(call)

    def keep(self, size_bytes: int) -> None:
        """Rejects a message larger than the share; see CallSlot.keep."""
        if size_bytes > self._unauthenticated.kept_bytes:
            raise _too_large(size_bytes, self._unauthenticated.kept_bytes)

    async def received(self, call: "CallSlot", receive: Receive[MessageT]) -> MessageT:
        """Receives a message; may evict another receiving call. See CallSlot.received."""
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
        f"A newer call without a key took the place of this one: {limit} run at once. Send a key, "
        "or retry later.",
        parameter="calls",
        given="one more without a key",
        allowed=f"{limit} at once",
    )


def _unread(calls: int) -> LimitExceeded:
    given = f"one more beside {calls} of this address without a key that have not ended"
    allowed = "fewer; read their answers, or end them"
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"This address has {calls} calls without a key that have not ended: read their answers, or "
        "end them.",
        parameter="calls",
        given=given,
        allowed=allowed,
    )


def _too_large(size_bytes: int, limit_bytes: int) -> CallTooLarge:
    return CallTooLarge(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"This message has {size_bytes} bytes, and {limit_bytes} are the limit without a key: send "
        "a smaller one, or a key.",
        parameter="message",
        given=f"{size_bytes} bytes without a key",
        allowed=f"{limit_bytes}",
    )


def _too_slow(limit_s: float) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"No complete message came within {limit_s:g} s: send the call again.",
        parameter="message",
        given=f"none, or a part of one, within {limit_s:g} s",
        allowed="a whole message",
    )


_END_GRACE_S = 1.0
"""Seconds in which calls that the service has ended return their slots."""


class OpenCalls:
    """The slots of all calls.

    Args:
        accounts: Accounts of the tenants; messages count towards their bytes in flight.
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
        """Takes a slot of a tenant.

        Raises:
            LimitExceeded: 207012, the tenant has none left.
            Unauthenticated: 207006, the tenant is deleted or disabled.
            Unavailable: 507901, the service ends.
        """
        reservation = self._accounts.of(tenant).reserve(Resource.BYTES_IN_FLIGHT)
        calls = self._tenants.setdefault(tenant, TenantCalls())
        if calls.calls >= self._limits.of_tenant:
            raise _too_many(self._limits.of_tenant)
        return self._slot(TenantShare(calls, reservation, self._limits))

    def take_unauthenticated(self, peer: str, *, is_watch: bool) -> "CallSlot":
        """Takes a slot of an unauthenticated caller; may evict another call.

        Args:
            peer: The wire and the caller's address.
            is_watch: Whether the call is a watch.

        Raises:
            LimitExceeded: 207012, too many calls from the address have not ended.
            Unavailable: 507901, the service ends.
        """
        return self._slot(UnauthenticatedShare(self._unauthenticated, peer, is_watch=is_watch))

    def _slot(self, share: TenantShare | UnauthenticatedShare) -> "CallSlot":
        # From the begin of `end` no call may start, or `end` would never finish.
        if self._ending:
            raise service_ends()
        return CallSlot(share, among=self._slots, left=self._left)

    async def end(self, *, within_s: float) -> None:
        """Rejects new calls, waits for running calls of tenants, and ends those that take longer.

        Unauthenticated calls get one second, and answers in transmission another one. A
        cancellation ends the wait, and every call is answered.
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
    """Slot of one call. Inside its `with` block the service may end the call with an error.

    Args:
        share: Resources of the call.
        among: All slots.
        left: Set when the call's work ends, and when it returns its slot.

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
        """Whether the call belongs to a tenant."""
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
        # A client that disconnects at the same time has cancelled the task too; see
        # asyncio.Timeout.
        if task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise self._error from None

    def end(self, error: OpserveError) -> None:
        """Ends the call with an error; does nothing outside its `with` block."""
        if self._task is not None and self._error is None:
            self._error = error
            # A message in transmission cannot be interrupted, see `sent`.
            if not self._sends:
                self._cancelled = True
                # At its next await; its `with` block turns the cancellation into the error.
                self._task.cancel()

    async def sent(self, part: Awaitable[object]) -> None:
        """Waits until a part of the answer is sent; a call that is being ended ends after it.

        gRPC sends no status while it sends a message: the call would stay open, and no longer be
        counted.
        """
        self._sends = True
        try:
            await part
        finally:
            self._sends = False
        if self._error is not None:
            raise self._error

    def begin_answer(self) -> None:
        """Prevents the service from ending a call whose answer has begun."""
        if self._error is None:
            self._task = None

    def leave(self) -> None:
        """Returns the slot."""
        self._among.remove(self)
        self._share.leave(self)
        self._left.set()

    def keep(self, size_bytes: int) -> None:
        """Counts the message of this size that the call keeps from now on.

        Raises:
            LimitExceeded: 207012, it exceeds the share of an unauthenticated call.
            QuotaExceeded: 207012, it exceeds 64 KiB and the rest of the tenant's quota.
        """
        self._share.keep(size_bytes)

    async def received(self, receive: Receive[MessageT]) -> MessageT:
        """Receives a message, which counts as the largest allowed one while it arrives.

        The call keeps no other message from now on.

        Raises:
            LimitExceeded: 207012, it did not arrive in time.
            QuotaExceeded: 207012, it did not arrive in time beyond the tenant's quota, while other
                calls waited.
        """
        return await self._share.received(self, receive)


def _too_many(limit: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"This tenant has {limit} calls in progress, its limit: retry when one has ended.",
        parameter="calls",
        given="one more of this tenant",
        allowed=f"{limit} at once",
    )
