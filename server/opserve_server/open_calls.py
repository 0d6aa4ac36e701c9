"""Open calls: how many each tenant and all strangers together have, and what their messages take.

A call takes a place once its caller is recognised and returns it when its answer is sent. A tenant
without a free place is refused. A stranger, who may call what needs no key, is not: the eldest call
of the address with most of them ends, so that probes are answered when all places are taken.

A call whose client reads nothing does not end, because gRPC sends the end behind the answer. Such
calls count until they end, and an address with many of them is refused.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from opserve_kernels.status import Status
from opserve_server.call_shares import (
    CallLimits,
    MessageT,
    Receive,
    Strangers,
    StrangerShare,
    TenantCalls,
    TenantShare,
)
from opserve_server.core.accounts import Accounts
from opserve_server.core.errors import LimitExceeded, OpserveError, service_ends
from opserve_server.core.tenants import Resource

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
