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
from opserve_server.core.accounts import Accounts, Holding
from opserve_server.core.errors import LimitExceeded, OpserveError, service_ends
from opserve_server.core.tenants import Resource

MessageT = TypeVar("MessageT")
Receive = Callable[[], Awaitable[MessageT]]
_TAKES = 8
"""Memory that a stranger's message may take, in its own sizes: its frames, which a hostile client
makes small, and what the allocator keeps of those that ended."""
_FRAMES_TAKE = 3
"""Memory that an arriving message may take, in its own sizes: frames of 24 bytes need 2.9."""
_SMALL_BYTES = 64 * 2**10
"""Largest message that a call beyond the quota of its tenant may keep, bytes: what frees something
is smaller."""
_HURRY_S = 3.0
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
    of_strangers: int
    strangers_bytes: int
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

    def __init__(self, tenant: TenantCalls, holding: Holding, limits: CallLimits) -> None:
        self._tenant = tenant
        self._holding = holding
        self._arriving_bytes = limits.message_bytes * _FRAMES_TAKE
        self._silence_s = limits.silence_s

    def enter(self, _: "Place") -> None:
        """The call begins."""
        self._tenant.calls += 1

    def leave(self, _: "Place") -> None:
        """The call has ended."""
        self._tenant.calls -= 1
        self._holding.hold(0)

    def keep(self, size_bytes: int) -> None:
        """Counts the message that the call keeps; see Place.keep."""
        self._holding.hold(0)
        if size_bytes > _SMALL_BYTES:
            self._holding.check(size_bytes)
        self._holding.hold(size_bytes)

    async def received(self, _: "Place", receive: Receive[MessageT]) -> MessageT:
        """A message; see Place.received."""
        self._holding.hold(0)
        if self._holding.room < self._arriving_bytes:
            return await self._received_beyond(receive)
        self._holding.hold(self._arriving_bytes)
        try:
            return await _in_time(receive, self._silence_s)
        finally:
            self._holding.hold(0)

    async def _received_beyond(self, receive: Receive[MessageT]) -> MessageT:
        # A tenant that is at its quota can still free something, one call after the other.
        await self._first_in_line()
        its = self._tenant
        try:
            hurry_s = min(_HURRY_S, self._silence_s) if its.waiting else None
            async with asyncio.timeout(hurry_s) as its.deadline:
                return await _in_time(receive, self._silence_s)
        except TimeoutError:
            raise self._holding.refusal(self._arriving_bytes) from None
        finally:
            its.deadline = None
            its.beyond.release()

    async def _first_in_line(self) -> None:
        its, now_s = self._tenant, asyncio.get_running_loop().time()
        if its.deadline is not None and its.deadline.when() is None:
            its.deadline.reschedule(now_s + _HURRY_S)
        its.waiting += 1
        try:
            async with asyncio.timeout(self._silence_s):
                await its.beyond.acquire()
        except TimeoutError:
            raise self._holding.refusal(self._arriving_bytes) from None
        finally:
            its.waiting -= 1


class _Unended:
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


class _Crowd:
    """Places of strangers by their addresses, the eldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[Place, str] = {}

    def enter(self, call: "Place", peer: str) -> None:
        if len(self._peers) >= self._limit:
            ((most, _),) = Counter(self._peers.values()).most_common(1)
            eldest = next(other for other, its in self._peers.items() if its == most)
            self.leave(eldest)
            eldest.end(_crowded(self._limit))
        self._peers[call] = peer

    def leave(self, call: "Place") -> None:
        self._peers.pop(call, None)


class Strangers:
    """The places of all calls of strangers, and bounds on their messages.

    Args:
        limits: Bounds.
    """

    def __init__(self, limits: CallLimits) -> None:
        watches = max(limits.of_strangers // 2, 1)
        self.watches = _Crowd(watches)
        self.probes = _Crowd(max(limits.of_strangers - watches, 1))
        self.messages = _Crowd(max(limits.strangers_bytes // (limits.message_bytes * _TAKES), 1))
        self.unended = _Unended(2 * limits.of_strangers)
        # All calls together may keep their messages while they wait for their turn.
        self.kept_bytes = max(limits.strangers_bytes // _TAKES // limits.of_strangers, 1)
        self.silence_s = limits.silence_s


class StrangerShare:
    """The share of a stranger's call: a place among watches or probes, another while it receives.

    Args:
        strangers: The places.
        peer: The wire and the address that it calls from.
        lasts: Whether it is a watch.

    Raises:
        LimitExceeded: 207012, too many calls from the address have not ended.
    """

    def __init__(self, strangers: Strangers, peer: str, *, lasts: bool) -> None:
        strangers.unended.check(peer)
        self._strangers = strangers
        self._crowd = strangers.watches if lasts else strangers.probes
        self._peer = peer

    def enter(self, call: "Place") -> None:
        """The call begins; another may end for it."""
        self._strangers.unended.enter(self._peer)
        self._crowd.enter(call, self._peer)

    def leave(self, call: "Place") -> None:
        """The call has ended."""
        self._strangers.unended.leave(self._peer)
        self._crowd.leave(call)

    def keep(self, size_bytes: int) -> None:
        """Refuses a message that is larger than the share; see Place.keep."""
        if size_bytes > self._strangers.kept_bytes:
            raise _too_large(size_bytes, self._strangers.kept_bytes)

    async def received(self, call: "Place", receive: Receive[MessageT]) -> MessageT:
        """A message, for which another call that receives one may end; see Place.received."""
        self._strangers.messages.enter(call, self._peer)
        try:
            return await _in_time(receive, self._strangers.silence_s)
        finally:
            self._strangers.messages.leave(call)


async def _in_time(receive: Receive[MessageT], limit_s: float) -> MessageT:
    silence = asyncio.timeout(limit_s)
    try:
        async with silence:
            return await receive()
    except TimeoutError:
        if not silence.expired():
            raise
        raise _too_slow(limit_s) from None


def _crowded(limit: int) -> LimitExceeded:
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


_LAST_WORDS_S = 1.0
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
        self._places: set[Place] = set()
        self._tenants: dict[str, TenantCalls] = {}
        self._strangers = Strangers(limits)
        self._ending = False
        self._left = asyncio.Event()

    def take(self, tenant: str) -> "Place":
        """A place of a tenant.

        Raises:
            LimitExceeded: 207012, the tenant has none left.
            Unauthenticated: 207006, the tenant has gone, or is disabled.
            Unavailable: 507901, the service ends.
        """
        holding = self._accounts.of(tenant).holding(Resource.BYTES_IN_FLIGHT)
        its = self._tenants.setdefault(tenant, TenantCalls())
        if its.calls >= self._limits.of_tenant:
            raise _too_many(self._limits.of_tenant)
        return self._place(TenantShare(its, holding, self._limits))

    def take_for_stranger(self, peer: str, *, lasts: bool) -> "Place":
        """A place of a stranger, for which the call of another may end.

        Args:
            peer: The wire and the address that it calls from.
            lasts: Whether the call is a watch.

        Raises:
            LimitExceeded: 207012, too many calls from the address have not ended.
            Unavailable: 507901, the service ends.
        """
        return self._place(StrangerShare(self._strangers, peer, lasts=lasts))

    def _place(self, share: TenantShare | StrangerShare) -> "Place":
        if self._ending:
            raise service_ends()
        return Place(share, among=self._places, left=self._left)

    async def end(self, *, within_s: float) -> None:
        """Refuses new calls, waits for those of tenants at work, and ends what takes longer.

        Calls of strangers get a second, and answers that are being sent another one. A cancellation
        ends the wait, and no call stays without an answer.
        """
        self._ending = True
        try:
            await self._none_left(within_s, lambda place: place.at_work and place.of_tenant)
            await self._none_left(min(within_s, _LAST_WORDS_S), lambda place: place.at_work)
        finally:
            for place in list(self._places):
                place.end(service_ends())
            await self._none_left(_LAST_WORDS_S, lambda _: True)

    async def _none_left(self, within_s: float, which: "Callable[[Place], bool]") -> None:
        try:
            async with asyncio.timeout(within_s):
                while any(map(which, self._places)):
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            pass


class Place:
    """The place of one call. In its `with` block the service may end the call with an error.

    Args:
        share: What the call takes.
        among: All places.
        left: Set when the call's work ends, and when it leaves.

    Attributes:
        at_work: Whether the call's `with` block has not ended.
    """

    def __init__(
        self, share: TenantShare | StrangerShare, *, among: "set[Place]", left: asyncio.Event
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
        kind: type[BaseException] | None,
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
