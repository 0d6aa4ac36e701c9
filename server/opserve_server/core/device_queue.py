"""Device queue: session requests that no device can meet now, in the order of their service.

The rank of a request is its time. Each step of priority moves it ahead by priority_step_s, and each
request of its tenant that already waits for the profile moves it back by that over the tenant's
weight, so that many requests of one tenant do not delay the others. Ranks never change, so no
request starves.

In a farm the ranks are times of the store's clock, and the requests that wait at other services
have their places in the queue: this service keeps a device for one whose turn it is, and the other
service sends its client here.
"""

import asyncio
import secrets
from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import merge
from itertools import count

from opserve_kernels.errors import CHOICES_CHARACTERS, shortened
from opserve_kernels.status import Status
from opserve_server.core.accounts import Account
from opserve_server.core.capacity import Capacity
from opserve_server.core.devices import Device
from opserve_server.core.errors import (
    HandleNotFound,
    LimitExceeded,
    Moved,
    OpserveError,
    Unavailable,
    WaitTimedOut,
)
from opserve_server.core.farm import Farm, WaitingRecord, service_named
from opserve_server.core.info import WaitingInfo
from opserve_server.core.limits import Limits
from opserve_server.core.session import IdleTimer, LoopStalls, Session
from opserve_server.core.session_request import Requirements, SessionRequest

POLL_INTERVAL_S = 0.25
"""Seconds between two checks for devices that have become ready, while requests wait."""

RequestKey = tuple[str, str]
"""A tenant and its request id."""


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request in the queue.

    Attributes:
        account: The account of the requesting tenant.
        requirements: The requested device and terms.
        key: Key under which a client can repeat the request; None without a request id.
        requested_at: Time of the request, seconds of the event loop's clock.
        time_s: Its time in the line without its priority, which its tenant's requests move back.
        order: Sort key: its rank, then the order of arrival; the least is served first.
        granted: The session, or the error.
        disconnected: Whether its client is disconnected: the request keeps its position for a while
            and blocks no other request.
        listed: Whether other services may know of it.
        arrived: Whether its client has called since the exchange before.
        timers: Its deadline, and the time by which its client must reconnect.
        id: 8 random hexadecimal digits, which the tenant may see.
    """

    account: Account
    requirements: Requirements
    key: RequestKey | None
    requested_at: float
    time_s: float
    order: tuple[float, int]
    granted: "asyncio.Future[Session]"
    disconnected: bool = False
    listed: bool = False
    arrived: bool = True
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict[str, asyncio.TimerHandle])
    id: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def tenant(self) -> str:
        """Name of the requesting tenant."""
        return self.account.tenant.name

    @property
    def profile(self) -> str:
        """Name of the requested profile."""
        return self.requirements.profile

    @property
    def priority(self) -> int:
        """Its priority."""
        return self.requirements.priority

    @property
    def can_be_granted(self) -> bool:
        """Whether the request can be granted a device."""
        return not self.disconnected and not self.granted.done()


@dataclass(slots=True, eq=False)
class _RemoteRequest:
    """A request that waits at another service, and that a device of this one can meet.

    Attributes:
        record: The request.
        requirements: The devices of this service that can meet it.
        time_s: Its time in the line without its priority.
        can_be_granted: Whether this service may keep a device for it.
        kept: Whether this service keeps one.
    """

    record: WaitingRecord
    requirements: Requirements
    time_s: float
    can_be_granted: bool
    kept: bool = False

    @property
    def tenant(self) -> str:
        return self.record.tenant

    @property
    def profile(self) -> str:
        return self.requirements.profile

    @property
    def priority(self) -> int:
        return self.record.terms.priority

    @property
    def order(self) -> tuple[float, int]:
        return self.record.rank, -1


_AnyRequest = QueuedRequest | _RemoteRequest


class DeviceQueue:
    """Session requests that wait for a device.

    Args:
        limits: Bounds.
        farm: Farm of the service.
        capacity: Returns the capacity left now.
        open_on: Opens the session of a request on a device; raises an error, or returns None for a
            later try.
        close: Ends a session whose request was cancelled.
        loop_stalls: Stalls of the event loop.

    Attributes:
        ended: Requests that other services may know of, and that do not wait any more.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        farm: Farm,
        capacity: Callable[[], Capacity],
        open_on: Callable[[Account, Requirements, Device], Session | None],
        close: Callable[[Session], object],
        loop_stalls: LoopStalls,
    ) -> None:
        self._limits = limits
        self._farm = farm
        self._capacity = capacity
        self._open_on = open_on
        self._close = close
        self._loop_stalls = loop_stalls
        self._requests: list[QueuedRequest] = []
        self._remote: list[_RemoteRequest] = []
        self.ended: set[RequestKey] = set()
        self._numbers = count()
        self._waiting_calls: Counter[RequestKey] = Counter()
        self._poll_timer: asyncio.TimerHandle | None = None

    @property
    def has_requests(self) -> bool:
        """Whether requests wait."""
        return bool(self._requests)

    async def session(
        self, account: Account, requirements: Requirements, key: RequestKey | None
    ) -> Session:
        """A session that meets the requirements, at once or after a wait.

        Raises:
            LimitExceeded: 207005, no capacity is left and the request does not wait; 207014, too
                many requests wait; QuotaExceeded, of the tenant when the request was served.
            Moved: 207005, another service of the farm keeps a device for the request.
            Unavailable: 207004, no device is ready and the request does not wait; 507901, the
                service drains, or the client did not reconnect.
            WaitTimedOut: 507046, the wait is over.
        """
        request = self._enter(account, requirements, key)
        try:
            capacity = self._serve()
            if not request.granted.done():
                self._check_may_wait(request, capacity)
                self._begin_wait(request)
            return await request.granted
        except asyncio.CancelledError:
            # The session may have been granted in the same iteration of the loop as the
            # cancellation. No client will ever get it, so it must end.
            granted = request.granted
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self._close(granted.result())
            raise
        finally:
            self._leave(request)

    def advance(self) -> None:
        """Opens the sessions of all requests that can be met."""
        if self._requests or self._remote:
            self._serve()

    # What other services of the farm know of this queue, and this one of theirs

    @property
    def is_shared(self) -> bool:
        """Whether other services have something to learn: requests, or a device that is kept."""
        return bool(self._requests or self.ended) or any(one.kept for one in self._remote)

    def own(self) -> list[WaitingRecord]:
        """The requests that wait here, as the other services see them."""
        found = [self._shown(request) for request in self.waiting()]
        for request in self._requests:
            request.listed, request.arrived = True, False
        return found

    def _shown(self, request: QueuedRequest) -> WaitingRecord:
        requirements = request.requirements
        return WaitingRecord(
            tenant=request.tenant,
            request=self._key_of(request)[1],
            rank=request.order[0],
            terms=SessionRequest(
                profile=request.profile,
                tags=requirements.tags,
                exclusive=requirements.exclusive_s is not None,
                priority=request.priority,
                # Without an id of its client it would lose its place by a move.
                here=requirements.here or request.key is None,
            ),
            service=self._farm.name,
            connected=not request.disconnected,
            arrived=request.arrived,
        )

    def rank(self, ranks: Mapping[RequestKey, float]) -> None:
        """Gives requests the ranks that they had at other services."""
        for request in self._requests:
            rank = ranks.get(self._key_of(request), request.order[0])
            request.time_s += rank - request.order[0]
            request.order = rank, request.order[1]
        self._requests.sort(key=lambda request: request.order)

    def meet(self, waiting: Sequence[tuple[WaitingRecord, Requirements, bool]]) -> None:
        """Replaces the requests of other services that devices of this one can meet, in order.

        Args:
            waiting: Each with its requirements, and whether its tenant may have a session now.
        """
        own, step_s = self._farm.name, self._limits.priority_step_s
        self._remote = [
            _RemoteRequest(
                one,
                requirements,
                time_s=one.rank + one.terms.priority * step_s,
                can_be_granted=admitted and (one.claimable or one.claimed_by == own),
            )
            for one, requirements, admitted in waiting
        ]
        self.advance()

    def wanted(self) -> list[RequestKey]:
        """Requests at other services for which this one keeps a device without a claim."""
        return [
            (one.tenant, one.record.request)
            for one in self._remote
            if one.kept and not one.record.claimed_by
        ]

    def forget(self, keys: Collection[RequestKey]) -> None:
        """Keeps no device for some requests of other services: others claimed them first."""
        self._remote = [one for one in self._remote if (one.tenant, one.record.request) not in keys]
        self.advance()

    def send_on(self, key: RequestKey, service: str) -> None:
        """Sends a waiting request to the service that keeps a device for it, or where it waits."""
        request = next((one for one in self.waiting() if self._key_of(one) == key), None)
        other = service_named(self._farm, service)
        if request is not None and other is not None and not request.requirements.here:
            self._reject(request, Moved(other.address))

    def _key_of(self, request: QueuedRequest) -> RequestKey:
        if request.key is not None:
            return _storable(request.key)
        # No id of a client has these characters when it is stored: each backslash is doubled.
        return request.tenant, f"\\/{self._farm.name}/{request.id}"

    def _serve(self) -> Capacity:
        """Advances; returns the remaining capacity."""
        capacity = self._capacity()
        if not self._farm.accepts:
            return capacity
        # In queue order: a request takes or reserves capacity before any later one is considered.
        # The list is copied, since an error of `_grant` can complete a request.
        for request in [request for request in self._in_order() if request.can_be_granted]:
            device = capacity.device_for(request.requirements)
            if isinstance(request, _RemoteRequest):
                # No reservation: an exclusive one would empty a device of every service.
                request.kept = device is not None
                if device is not None:
                    capacity.take(device, exclusive=request.requirements.exclusive_s is not None)
            elif device is None:
                capacity.reserve(request.requirements, tenant=request.tenant)
            elif self._grant(request, device):
                capacity.take(device, exclusive=request.requirements.exclusive_s is not None)
        return capacity

    @contextmanager
    def connected(self, key: RequestKey) -> Generator[None]:
        """Marks the request with a key as connected inside the block.

        After the last connection the request stays queued for a while. If the block ended well it
        can still be granted; after an error, such as a broken connection, it is passed over.
        """
        # Counted, since a retry may connect before the previous connection has ended.
        self._waiting_calls[key] += 1
        self._note_reconnection(self._request_of(key))
        disconnected = True
        try:
            yield
            disconnected = False
        finally:
            self._waiting_calls[key] -= 1
            if not self._waiting_calls[key]:
                del self._waiting_calls[key]
                self._await_reconnection(self._request_of(key), disconnected=disconnected)

    def infos(self, where: Callable[[QueuedRequest], bool]) -> list[WaitingInfo]:
        """Information on selected requests, in queue order."""
        capacity = self._capacity()
        found: list[WaitingInfo] = []
        for request in self.waiting():
            if where(request):
                found.append(self._info(request, capacity))
            if request.can_be_granted:  # in the same order as advance
                capacity.reserve(request.requirements, tenant=request.tenant)
        return found

    def waiting(self) -> list[QueuedRequest]:
        """The requests that wait at this service, in queue order."""
        return [request for request in self._requests if not request.granted.done()]

    def end(
        self, error: Callable[[], OpserveError], *, where: Callable[[QueuedRequest], bool]
    ) -> None:
        """Ends selected requests with an error each."""
        for request in [request for request in self._requests if where(request)]:
            self._reject(request, error())

    def cancel(self, tenant: str, request_id: str) -> None:
        """Ends a waiting request of a tenant, by its public id, with an error.

        Raises:
            HandleNotFound: 107017, none of the tenant's requests has the id.
        """
        found = (one for one in self.waiting() if (one.tenant, one.id) == (tenant, request_id))
        request = next(found, None)
        if request is None:
            allowed = "the id of a waiting request"
            raise HandleNotFound("request", request_id[:64], allowed=allowed)
        cancelled = WaitTimedOut(
            Status.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
            "The session request was cancelled by its tenant: make it again if it is still needed.",
            parameter="session",
            given="cancelled",
            allowed="a new request",
        )
        self._reject(request, cancelled)

    def _grant(self, request: QueuedRequest, device: Device) -> bool:
        """Opens a session; returns whether the device has one more."""
        try:
            session = self._open_on(request.account, request.requirements, device)
        except OpserveError as error:
            request.granted.set_exception(error)
            return False
        if session is not None:
            request.granted.set_result(session)
        return session is not None

    def _enter(
        self, account: Account, requirements: Requirements, key: RequestKey | None
    ) -> QueuedRequest:
        loop = asyncio.get_running_loop()
        remote = self._take_over(key, requirements)
        time_s = self._time_of(account, requirements) if remote is None else remote.time_s
        rank = time_s - requirements.priority * self._limits.priority_step_s
        request = QueuedRequest(
            account=account,
            requirements=requirements,
            key=key,
            requested_at=loop.time(),
            time_s=time_s,
            order=(rank, next(self._numbers)),
            granted=loop.create_future(),
            listed=remote is not None,
        )
        insort(self._requests, request, key=lambda request: request.order)
        return request

    def _take_over(
        self, key: RequestKey | None, requirements: Requirements
    ) -> _RemoteRequest | None:
        """The request as it waited elsewhere until now; None where it did not."""
        own = None if key is None else _storable(key)
        found = (one for one in self._remote if (one.tenant, one.record.request) == own)
        remote = next(found, None)
        if remote is not None:
            claiming = service_named(self._farm, remote.record.claimed_by)
            if claiming is not None and not claiming.drains and not requirements.here:
                raise Moved(claiming.address)
            self._remote.remove(remote)
        return remote

    def _time_of(self, account: Account, requirements: Requirements) -> float:
        tenant = account.tenant
        ahead = [
            one.time_s + self._limits.priority_step_s / tenant.weight
            for one in self._in_order()
            if (one.tenant, one.profile) == (tenant.name, requirements.profile)
            # An urgent request does not stand behind all others of its own tenant.
            and one.priority >= requirements.priority
        ]
        return max([asyncio.get_running_loop().time() + self._farm.ahead_s, *ahead])

    def _in_order(self) -> Iterator[_AnyRequest]:
        both: tuple[Sequence[_AnyRequest], ...] = (self.waiting(), self._remote)
        return merge(*both, key=lambda one: one.order)

    def _leave(self, request: QueuedRequest) -> None:
        self._requests.remove(request)
        # Another service may take over one whose service drains, and one that moves.
        sent_on = request.granted.done() and isinstance(_error_of(request), Moved | Unavailable)
        if request.listed and not sent_on:
            self.ended.add(self._key_of(request))
        for timer in request.timers.values():
            timer.cancel()
        self.advance()  # its reservation is free now
        if not self._requests and self._poll_timer is not None:
            self._poll_timer.cancel()
            self._poll_timer = None

    def _check_may_wait(self, request: QueuedRequest, capacity: Capacity) -> None:
        if not request.requirements.wait_s:
            raise capacity.refusal(request.requirements)
        others = [other for other in self.waiting() if other is not request]
        everywhere = [other for other in self._in_order() if other is not request]
        same_tenant = [other for other in everywhere if other.tenant == request.tenant]
        limits = self._limits
        if len(others) >= limits.waiting_limit:
            raise _queue_is_full(limits.waiting_limit, owner="the service's")
        if len(same_tenant) >= limits.tenant_waiting_limit:
            raise _queue_is_full(limits.tenant_waiting_limit, owner="each tenant's")

    def _begin_wait(self, request: QueuedRequest) -> None:
        loop = asyncio.get_running_loop()
        request.timers["deadline"] = loop.call_later(
            request.requirements.wait_s, self._time_out, request
        )
        if request.key is not None and not self._waiting_calls[request.key]:
            self._await_reconnection(
                request, disconnected=True
            )  # the client disconnected before the wait began
        if self._poll_timer is None:
            self._poll_timer = loop.call_later(POLL_INTERVAL_S, self._poll)

    def _poll(self) -> None:
        # Workers report readiness to their devices only, so the queue polls. The next poll is
        # scheduled first: it must follow even if `advance` raises.
        self._poll_timer = asyncio.get_running_loop().call_later(POLL_INTERVAL_S, self._poll)
        self.advance()

    def _note_reconnection(self, request: QueuedRequest | None) -> None:
        if request is None:
            return
        request.arrived = True
        timer = request.timers.pop("return", None)
        if timer is not None:
            timer.cancel()
        # While it was disconnected, others may have passed it.
        if request.disconnected:
            request.disconnected = False
            self.advance()

    def _await_reconnection(self, request: QueuedRequest | None, *, disconnected: bool) -> None:
        if request is None:
            return
        self._schedule_expiry(request, IdleTimer(self._loop_stalls, self._limits.waiting_return_s))
        request.disconnected = disconnected
        if disconnected:
            self.advance()  # its reservation is free meanwhile

    def _schedule_expiry(self, request: QueuedRequest, idle: IdleTimer) -> None:
        loop = asyncio.get_running_loop()
        request.timers["return"] = loop.call_at(idle.ends_at, self._expire, request, idle)

    def _expire(self, request: QueuedRequest, idle: IdleTimer) -> None:
        # A stall of the loop meanwhile has moved the limit.
        if idle.ends_at > asyncio.get_running_loop().time():
            self._schedule_expiry(request, idle)
            return
        if request.listed:
            self.ended.add(self._key_of(request))
        expired = Unavailable(
            Status.ACL_ERROR_RT_SOCKET_CLOSE,
            "The session request ended, because its client was gone for "
            f"{self._limits.waiting_return_s:g} s: make it again.",
            parameter="session",
            given="no sign of life",
            allowed="a request that is made again in time",
        )
        self._reject(request, expired)

    def _time_out(self, request: QueuedRequest) -> None:
        (found,) = self.infos(lambda other: other is request)
        waited = f"{found.waited_s:.3g}"
        self._reject(
            request,
            WaitTimedOut(
                Status.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                f"The wait_s of {request.requirements.wait_s:g} is over: after {waited} s the "
                f"request is at position {found.position} and waits for "
                f"{shortened(found.waits_for, CHOICES_CHARACTERS)}. Retry with a longer one.",
                parameter="wait_s",
                given=f"{request.requirements.wait_s:g}",
                allowed="a longer wait",
            ),
        )

    def _reject(self, request: QueuedRequest, error: OpserveError) -> None:
        if not request.granted.done():
            request.granted.set_exception(error)

    def _request_of(self, key: RequestKey) -> QueuedRequest | None:
        found = (other for other in self._requests if other.key == key and not other.granted.done())
        return next(found, None)

    def _info(self, request: QueuedRequest, capacity: Capacity) -> WaitingInfo:
        waited_s = asyncio.get_running_loop().time() - request.requested_at
        devices = {device.name for device in request.requirements.devices}
        earlier = [other for other in self._in_order() if other.order < request.order]
        ahead = [other for other in earlier if other.can_be_granted]
        # Only requests that could take one of the same devices delay this one.
        competing = [
            other for other in ahead if any(d.name in devices for d in other.requirements.devices)
        ]
        return WaitingInfo(
            id=request.id,
            request_id="" if request.key is None else request.key[1],
            tenant=request.tenant,
            profile=request.requirements.profile,
            tags=request.requirements.tags,
            exclusive=request.requirements.exclusive_s is not None,
            priority=request.requirements.priority,
            position=len(competing) + 1,
            waits_for=capacity.waits_for(request.requirements) or "those before it",
            waited_s=waited_s,
            left_s=max(request.requirements.wait_s - waited_s, 0.0),
        )


def _storable(key: RequestKey) -> RequestKey:
    """A key without characters of a client that a store rejects: NUL and lone surrogates."""
    tenant, request_id = key
    return tenant, request_id.encode("unicode_escape").decode("ascii")


def _error_of(request: QueuedRequest) -> BaseException | None:
    granted = request.granted
    return asyncio.CancelledError() if granted.cancelled() else granted.exception()


def _queue_is_full(limit: int, *, owner: str) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_QUEUE_FULL,
        f"{limit} session requests wait already, {owner} limit: retry later.",
        parameter="session",
        given=limit + 1,
        allowed=limit,
    )
