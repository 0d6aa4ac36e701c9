"""Open calls: how many each tenant and all strangers together have, and what their messages take.

A call takes a place once its caller is recognised and returns it when its answer is sent. A tenant
without a free place is refused. A stranger, who may call what needs no key, is not: the eldest call
of the address with most of them ends, so that probes are answered when all places are taken.
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
_TAKES = 8
"""Memory that a stranger's message may take, in its own sizes: its frames, which a hostile client
makes small, and what the allocator keeps of those that ended."""
_LAST_WORDS_S = 1.0
"""Time in which calls that the service ended leave, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Bounds on open calls.

    Attributes:
        of_tenant: Open calls of one tenant.
        of_strangers: Open calls of all strangers; half of them may be watches.
        strangers_bytes: Bytes that messages of all strangers may take while they arrive.
        message_bytes: Bytes of the largest message over gRPC.
        silence_s: Seconds within which a message arrives once its call waits for it.
    """

    of_tenant: int
    of_strangers: int
    strangers_bytes: int
    message_bytes: int
    silence_s: float


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
        self._tenants: dict[str, _Tenant] = {}
        watches = max(limits.of_strangers // 2, 1)
        self._watches = _Crowd(watches)
        self._probes = _Crowd(max(limits.of_strangers - watches, 1))
        largest = limits.message_bytes * _TAKES
        self._messages = _Crowd(max(limits.strangers_bytes // largest, 1))
        self._share_bytes = max(limits.strangers_bytes // _TAKES // limits.of_strangers, 1)
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
        its = self._tenants.setdefault(tenant, _Tenant())
        if its.calls >= self._limits.of_tenant:
            raise _too_many(self._limits.of_tenant)
        return self._place(_OfTenant(its, holding, self._limits.message_bytes))

    def take_for_stranger(self, peer: str, *, lasts: bool) -> "Place":
        """A place of a stranger, for which the call of another may end.

        Args:
            peer: The address that it calls from.
            lasts: Whether the call is a watch.

        Raises:
            Unavailable: 507901, the service ends.
        """
        crowd = self._watches if lasts else self._probes
        return self._place(_OfStranger(crowd, self._messages, peer, self._share_bytes))

    def _place(self, room: "_Room") -> "Place":
        if self._ending:
            raise service_ends()
        return Place(room, silence_s=self._limits.silence_s, among=self._places, left=self._left)

    async def end(self, *, within_s: float) -> None:
        """Refuses new calls, waits for open ones, and ends those that take longer.

        A cancellation ends the wait, and no call stays without an answer.
        """
        self._ending = True
        try:
            await self._all_left(within_s)
        finally:
            for place in list(self._places):
                place.end(service_ends())
            await self._all_left(_LAST_WORDS_S)

    async def _all_left(self, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                while self._places:
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            pass


class Place:
    """The place of one call. In its `with` block the service may end the call with an error.

    Args:
        room: What the call takes of its class.
        silence_s: Seconds within which a message arrives.
        among: All places.
        left: Set when the call leaves.
    """

    def __init__(
        self, room: "_Room", *, silence_s: float, among: "set[Place]", left: asyncio.Event
    ) -> None:
        self._room = room
        self._silence_s = silence_s
        self._among = among
        self._left = left
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._error: OpserveError | None = None
        room.enter(self)
        among.add(self)

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
        if task is None or self._error is None:
            return
        # A client that hung up at the same time has cancelled the task too; see asyncio.Timeout.
        if task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise self._error from None

    def end(self, error: OpserveError) -> None:
        """Ends the call with an error; does nothing outside its `with` block."""
        if self._task is not None and self._error is None:
            self._error = error
            self._task.cancel()

    def begin_answer(self) -> None:
        """Keeps the service from ending a call whose answer has begun."""
        if self._error is None:
            self._task = None

    def leave(self) -> None:
        """Returns the place."""
        self._among.remove(self)
        self._room.leave(self)
        self._left.set()

    def keep(self, size_bytes: int) -> None:
        """Counts the bytes of messages that the call keeps from now on.

        Raises:
            LimitExceeded: 207012, a stranger's share is less.
        """
        self._room.keep(size_bytes)

    async def received(self, receive: Callable[[], Awaitable[MessageT]]) -> MessageT:
        """A message, which counts as the largest that may come while it arrives.

        Raises:
            LimitExceeded: 207012, it did not arrive in time.
        """
        try:
            async with asyncio.timeout(self._silence_s):
                await self._room.make_room(self)
                try:
                    return await receive()
                finally:
                    self._room.give_room_back(self)
        except TimeoutError:
            raise _too_slow(self._silence_s) from None


@dataclass(slots=True)
class _Tenant:
    """Open calls of a tenant, of which one at a time receives a message beyond its quota."""

    calls: int = 0
    beyond: asyncio.Lock = field(default_factory=asyncio.Lock)


class _OfTenant:
    """What a tenant's call takes: a message counts among the bytes in flight."""

    def __init__(self, tenant: _Tenant, holding: Holding, message_bytes: int) -> None:
        self._tenant = tenant
        self._holding = holding
        self._message_bytes = message_bytes
        self._is_beyond = False

    def enter(self, _: Place) -> None:
        self._tenant.calls += 1

    def leave(self, _: Place) -> None:
        self._tenant.calls -= 1
        self._holding.hold(0)

    def keep(self, size_bytes: int) -> None:
        self._holding.hold(size_bytes)

    async def make_room(self, _: Place) -> None:
        # A tenant that is at its quota can still free something, one call after the other.
        if self._holding.room < self._message_bytes:
            await self._tenant.beyond.acquire()
            self._is_beyond = True
        else:
            self._holding.hold(self._message_bytes)

    def give_room_back(self, _: Place) -> None:
        if self._is_beyond:
            self._is_beyond = False
            self._tenant.beyond.release()
        self._holding.hold(0)


class _Crowd:
    """Places of strangers by their addresses, the eldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[Place, str] = {}

    def enter(self, place: Place, peer: str) -> None:
        if len(self._peers) >= self._limit:
            ((most, _),) = Counter(self._peers.values()).most_common(1)
            eldest = next(other for other, its in self._peers.items() if its == most)
            self.leave(eldest)
            eldest.end(_crowded(self._limit))
        self._peers[place] = peer

    def leave(self, place: Place) -> None:
        self._peers.pop(place, None)


class _OfStranger:
    """What a stranger's call takes: a place in a crowd, and one in another while it receives."""

    def __init__(self, crowd: _Crowd, messages: _Crowd, peer: str, share_bytes: int) -> None:
        self._crowd = crowd
        self._messages = messages
        self._peer = peer
        self._share_bytes = share_bytes

    def enter(self, place: Place) -> None:
        self._crowd.enter(place, self._peer)

    def leave(self, place: Place) -> None:
        self._crowd.leave(place)

    def keep(self, size_bytes: int) -> None:
        # All of them may wait for their turn with their messages.
        if size_bytes > self._share_bytes:
            raise _too_large(size_bytes, self._share_bytes)

    async def make_room(self, place: Place) -> None:
        self._messages.enter(place, self._peer)

    def give_room_back(self, place: Place) -> None:
        self._messages.leave(place)


_Room = _OfTenant | _OfStranger


def _too_many(limit: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"calls: given one more of this tenant, allowed {limit} at once",
        parameter="calls",
        given="one more of this tenant",
        allowed=f"{limit} at once",
    )


def _crowded(limit: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"calls: given one more without a key, allowed {limit} at once; the eldest ends",
        parameter="calls",
        given="one more without a key",
        allowed=f"{limit} at once",
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
