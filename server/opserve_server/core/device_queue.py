"""The device queue: requests for a device that cannot be met now, in the order they will be.

A request comes before another when it was made earlier, where a step of priority counts as some
seconds of waiting. Both wait equally fast, so their order never changes, and whoever waits is
passed only by what comes within its steps of priority: nobody starves.
"""

import asyncio
from bisect import insort
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from opserve_kernels.status import Status
from opserve_server.core.accounts import Account
from opserve_server.core.capacity import Room
from opserve_server.core.devices import Device
from opserve_server.core.errors import LimitExceeded, OpserveError, Unavailable, WaitTimedOut
from opserve_server.core.infos import WaitingInfo
from opserve_server.core.limits import Limits
from opserve_server.core.session import Session, Silence, Standstills
from opserve_server.core.session_request import Wanted

LOOKS_S = 0.25
"""Seconds between two looks at devices that may have become ready, while anybody waits."""

PlaceKey = tuple[str, str]
"""A tenant and a request id of it."""


@dataclass(slots=True, eq=False)
class Place:
    """A request in the line.

    Attributes:
        account: Of who asks.
        wanted: What for.
        key: By which it is asked for again; None where that cannot be.
        asked_at: When, seconds of the event loop's clock.
        order: What comes first is the least.
        granted: The session, or why there is none.
        away: Whether its client went away: it keeps its place for a while, and holds up nobody.
        timers: Its deadline, and until when its client has to come back.
    """

    account: Account
    wanted: Wanted
    key: PlaceKey | None
    asked_at: float
    order: tuple[float, int]
    granted: "asyncio.Future[Session]"
    away: bool = False
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict[str, asyncio.TimerHandle])

    @property
    def tenant(self) -> str:
        """Name of who asks."""
        return self.account.tenant.name

    @property
    def waits(self) -> bool:
        """Whether it may be granted."""
        return not self.away and not self.granted.done()


class DeviceQueue:
    """Those who wait for a device.

    Args:
        limits: Bounds.
        room: What is free now.
        open_on: Opens the session of a place on a device; may refuse, or ask for a later try.
        close: Ends a session that was granted to nobody.
        standstills: Of the event loop.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        room: Callable[[], Room],
        open_on: Callable[[Account, Wanted, Device], Session | None],
        close: Callable[[Session], object],
        standstills: Standstills,
    ) -> None:
        self._limits = limits
        self._room = room
        self._open_on = open_on
        self._close = close
        self._standstills = standstills
        self._places: list[Place] = []
        self._numbers = count()
        self._callers: Counter[PlaceKey] = Counter()
        self._look: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether anybody waits."""
        return bool(self._places)

    async def session(self, account: Account, wanted: Wanted, key: PlaceKey | None) -> Session:
        """A session as it is wanted, at once or after a wait.

        Raises:
            LimitExceeded: 207005, there is no room and it does not wait; 207014, too many wait;
                QuotaExceeded, of its tenant when its turn came.
            Unavailable: 207004, no device is ready and it does not wait; 507901, the service
                drains, or its client did not come back.
            WaitTimedOut: 507046, its wait is over.
        """
        place = self._enter(account, wanted, key)
        try:
            room = self.advance()
            if not place.granted.done():
                self._check_may_wait(place, room)
                self._begin_wait(place)
            return await place.granted
        except asyncio.CancelledError:
            granted = place.granted
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self._close(granted.result())
            raise
        finally:
            self._leave(place)

    def advance(self) -> Room:
        """Opens the sessions of all whose turn it is; what is free after them."""
        room = self._room()
        for place in [place for place in self._places if place.waits]:
            device = room.device_for(place.wanted)
            if device is None:
                room.keep(place.wanted, tenant=place.tenant)
            elif self._grant(place, device):
                room.take(device, exclusive=place.wanted.exclusive_s is not None)
        return room

    @contextmanager
    def attended(self, key: PlaceKey) -> Generator[None]:
        """Somebody asks for a place by its key, inside the block.

        Where nobody does any more, the place is kept for a while: in its turn still, if the block
        ended well, and passed over if it was left by an error, such as that of a broken connection.
        """
        self._callers[key] += 1
        self._welcome_back(self._place_of(key))
        away = True
        try:
            yield
            away = False
        finally:
            self._callers[key] -= 1
            if not self._callers[key]:
                del self._callers[key]
                self._expect_back(self._place_of(key), away=away)

    def infos(self, where: Callable[[Place], bool]) -> list[WaitingInfo]:
        """What is told of some that wait, in their order."""
        room = self._room()
        told: list[WaitingInfo] = []
        for place in self._places:
            if place.granted.done():
                continue
            if where(place):
                told.append(self._info(place, room))
            if place.waits:  # as advance goes through them
                room.keep(place.wanted, tenant=place.tenant)
        return told

    def end(self, error: Callable[[], OpserveError], *, where: Callable[[Place], bool]) -> None:
        """Ends the waits of some with an error of each."""
        for place in [place for place in self._places if where(place)]:
            self._refuse(place, error())

    def _grant(self, place: Place, device: Device) -> bool:
        """Whether there is one more session on the device."""
        try:
            session = self._open_on(place.account, place.wanted, device)
        except OpserveError as error:
            place.granted.set_exception(error)
            return False
        if session is not None:
            place.granted.set_result(session)
        return session is not None

    def _enter(self, account: Account, wanted: Wanted, key: PlaceKey | None) -> Place:
        loop = asyncio.get_running_loop()
        now = loop.time()
        turn = now - wanted.priority * self._limits.priority_step_s
        place = Place(
            account=account,
            wanted=wanted,
            key=key,
            asked_at=now,
            order=(turn, next(self._numbers)),
            granted=loop.create_future(),
        )
        insort(self._places, place, key=lambda place: place.order)
        return place

    def _leave(self, place: Place) -> None:
        self._places.remove(place)
        for timer in place.timers.values():
            timer.cancel()
        if self._places:
            self.advance()  # what was kept for it is free now
        elif self._look is not None:
            self._look.cancel()
            self._look = None

    def _check_may_wait(self, place: Place, room: Room) -> None:
        if not place.wanted.wait_s:
            raise room.refusal(place.wanted)
        waiting = [other for other in self._places if not other.granted.done()]
        others = [other for other in waiting if other is not place]
        of_tenant = [other for other in others if other.tenant == place.tenant]
        limits = self._limits
        if len(others) >= limits.waiting_limit:
            raise _line_is_full(limits.waiting_limit, whose="the service's")
        if len(of_tenant) >= limits.tenant_waiting_limit:
            raise _line_is_full(limits.tenant_waiting_limit, whose="each tenant's")

    def _begin_wait(self, place: Place) -> None:
        loop = asyncio.get_running_loop()
        place.timers["deadline"] = loop.call_later(place.wanted.wait_s, self._give_up, place)
        if place.key is not None and not self._callers[place.key]:
            self._expect_back(place, away=True)  # its client went before it began to wait
        if self._look is None:
            self._look = loop.call_later(LOOKS_S, self._look_again)

    def _look_again(self) -> None:
        self._look = asyncio.get_running_loop().call_later(LOOKS_S, self._look_again)
        self.advance()

    def _welcome_back(self, place: Place | None) -> None:
        if place is None:
            return
        timer = place.timers.pop("return", None)
        if timer is not None:
            timer.cancel()
        if place.away:
            place.away = False
            self.advance()

    def _expect_back(self, place: Place | None, *, away: bool) -> None:
        if place is None:
            return
        self._watch_return(place, Silence(self._standstills, self._limits.waiting_return_s))
        place.away = away
        if away:
            self.advance()  # what was kept for it is free meanwhile

    def _watch_return(self, place: Place, silence: Silence) -> None:
        loop = asyncio.get_running_loop()
        place.timers["return"] = loop.call_at(silence.ends_at, self._end_silence, place, silence)

    def _end_silence(self, place: Place, silence: Silence) -> None:
        if silence.ends_at > asyncio.get_running_loop().time():
            self._watch_return(place, silence)
            return
        gone = Unavailable(
            Status.ACL_ERROR_RT_SOCKET_CLOSE,
            f"session: given no sign of life for {self._limits.waiting_return_s:g} s, allowed a "
            "request that is made again in time",
            parameter="session",
            given="no sign of life",
            allowed="a request that is made again in time",
        )
        self._refuse(place, gone)

    def _give_up(self, place: Place) -> None:
        (told,) = self.infos(lambda other: other is place)
        waited = f"{told.waited_s:.3g}"
        self._refuse(
            place,
            WaitTimedOut(
                Status.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                f"wait_s: given {place.wanted.wait_s:g}, and after {waited} s the request is at "
                f"position {told.position}, waiting for {told.waits_for}",
                parameter="wait_s",
                given=f"{place.wanted.wait_s:g}",
                allowed="a longer wait",
            ),
        )

    def _refuse(self, place: Place, error: OpserveError) -> None:
        if not place.granted.done():
            place.granted.set_exception(error)

    def _place_of(self, key: PlaceKey) -> Place | None:
        found = (p for p in self._places if p.key == key and not p.granted.done())
        return next(found, None)

    def _info(self, place: Place, room: Room) -> WaitingInfo:
        waited_s = asyncio.get_running_loop().time() - place.asked_at
        devices = {device.name for device in place.wanted.devices}
        ahead = [p for p in self._places if p.waits and p.order < place.order]
        rivals = [p for p in ahead if any(d.name in devices for d in p.wanted.devices)]
        return WaitingInfo(
            request_id="" if place.key is None else place.key[1],
            tenant=place.tenant,
            profile=place.wanted.profile,
            tags=place.wanted.tags,
            exclusive=place.wanted.exclusive_s is not None,
            priority=place.wanted.priority,
            position=len(rivals) + 1,
            waits_for=room.waits_for(place.wanted) or "those before it",
            waited_s=waited_s,
            left_s=max(place.wanted.wait_s - waited_s, 0.0),
        )


def _line_is_full(limit: int, *, whose: str) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_QUEUE_FULL,
        f"session: given one more than {limit} requests that wait, {whose} limit, allowed {limit}",
        parameter="session",
        given=limit + 1,
        allowed=limit,
    )
