"""A plain model of the device queue, which is scanned from its front after every change."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf

from opserve_server.core.device_queue import POLL_INTERVAL_S
from opserve_server.core.limits import Limits


@dataclass(eq=False)
class ModelCaller:
    """A call that requests a place.

    Attributes:
        leaves_at: When it gets its position, and ends.
        notified: The position that it got then.
    """

    leaves_at: float = inf
    notified: int | None = None


@dataclass(eq=False)
class ModelSession:
    """A session; while it ends its device is not free for an exclusive request."""

    tenant: str
    device: str
    alone: bool
    ends_at: float
    ending: bool = False


@dataclass(eq=False)
class ModelWait:
    """A request for a device.

    Attributes:
        id: By which it is asked for again; empty where it cannot be.
        turn: The least is first.
        time: When its turn is, before its priority.
        callers: Calls that request it now.
        away: Whether the last of them was cut off.
        returns_by: The time by which the next must arrive.
        outcome: Name of the device that it got, or of the error; empty while it waits.
    """

    id: str
    tenant: str
    devices: tuple[str, ...]
    priority: int
    alone_s: float | None
    asked_at: float
    gives_up_at: float
    turn: tuple[float, int] = (0.0, 0)
    time: float = 0.0
    callers: list[ModelCaller] = field(default_factory=list[ModelCaller])
    away: bool = False
    returns_by: float = inf
    outcome: str = ""


@dataclass
class ModelQueue:
    """Waiting requests, open sessions and the time.

    Attributes:
        quotas: Sessions that each tenant may have.
        unready: Devices that admit no session.
        closed: Tenants that have left.
        granted: Waits that got a device in the last step.
    """

    limits: Limits
    devices: tuple[str, ...]
    quotas: Mapping[str, float]
    now: float = 0.0
    asked: int = 0
    waits: list[ModelWait] = field(default_factory=list[ModelWait])
    sessions: list[ModelSession] = field(default_factory=list[ModelSession])
    unready: set[str] = field(default_factory=set[str])
    closed: set[str] = field(default_factory=set[str])
    granted: list[tuple[ModelWait, str]] = field(default_factory=list[tuple[ModelWait, str]])
    looks_at: float = inf

    # What happens to it

    def ask(self, wait: ModelWait) -> None:
        """A new request; `gives_up_at` is `asked_at` where it does not wait."""
        self.asked += 1
        if wait.tenant in self.closed:
            wait.outcome = "Unauthenticated"
        elif self._held(wait.tenant) >= self.quotas[wait.tenant]:
            wait.outcome = "QuotaExceeded"
        else:
            self._give_turn(wait)
            self.waits.append(wait)
            self.serve()
            self._refuse_what_may_not_wait(wait)
        if not wait.outcome:
            self.looks_at = min(self.looks_at, self.now + POLL_INTERVAL_S)

    def join(self, wait: ModelWait, caller: ModelCaller) -> None:
        """A repeated request for an existing place."""
        wait.callers.append(caller)
        wait.returns_by = inf
        if wait.away:
            wait.away = False
            self.serve()

    def cut_off(self, wait: ModelWait, caller: ModelCaller) -> None:
        """A caller disconnects without an answer."""
        self._loses(wait, caller)
        if wait.callers:
            return
        if wait.id:
            wait.away = True
            self.serve()
        else:
            self._end(wait, "CancelledError")

    def close(self, *sessions: ModelSession) -> None:
        """Sessions end."""
        for session in sessions:
            session.ending = True
            self.serve()
        for session in sessions:
            self.sessions.remove(session)
            self.serve()

    def tenant_leaves(self, tenant: str) -> None:
        refused = [wait for wait in self.waits if wait.tenant == tenant]
        for wait in refused:
            wait.outcome = "Unauthenticated"
            self.waits.remove(wait)
        self.close(*[session for session in self.sessions if session.tenant == tenant])
        if refused:
            self.serve()
            self._rest()

    def pass_to(self, now: float) -> None:
        """Time passes, and what is due happens in its order."""
        while (due := min(self._events(), key=lambda event: event[0]))[0] <= now:
            self.now, happen = due
            happen()
        self.now = now

    # Answers about it

    def in_order(self) -> list[ModelWait]:
        return sorted(self.waits, key=lambda wait: wait.turn)

    def position(self, wait: ModelWait) -> int:
        """One more than those before it that want one of the same devices."""
        ahead = [one for one in self.waits if not one.away and one.turn < wait.turn]
        return 1 + sum(not set(one.devices).isdisjoint(wait.devices) for one in ahead)

    def serve(self) -> None:
        """Grants devices to the next waits, until no wait can have one.

        Who wants a device alone has the least used one kept, if its tenant has none yet.
        """
        kept: dict[str, str] = {}
        for wait in [wait for wait in self.in_order() if not wait.away]:
            free = [device for device in self._usable(wait, kept) if self._is_free(device, wait)]
            if free:
                self._give(wait, self._least_used(free))
            elif wait.alone_s is not None and wait.tenant not in kept:
                usable = self._usable(wait, kept)
                kept |= {wait.tenant: self._least_used(usable)} if usable else {}

    def _give_turn(self, wait: ModelWait) -> None:
        """A request stands one step behind those of its tenant that are as urgent."""
        step_s = self.limits.priority_step_s
        ahead = [
            other.time + step_s
            for other in self.waits
            if other.tenant == wait.tenant and other.priority >= wait.priority
        ]
        wait.time = max([wait.asked_at, *ahead])
        wait.turn = wait.time - wait.priority * step_s, self.asked

    def _usable(self, wait: ModelWait, kept: Mapping[str, str]) -> list[str]:
        return [
            device
            for device in wait.devices
            if device not in self.unready and device not in kept.values()
        ]

    def _is_free(self, device: str, wait: ModelWait) -> bool:
        there = [session for session in self.sessions if session.device == device]
        open_there = [session for session in there if not session.ending]
        if sum(not session.ending for session in self.sessions) >= self.limits.sessions_limit:
            return False
        if wait.alone_s is not None:
            return not there
        full = len(open_there) >= self.limits.device_sessions_limit
        return not full and not any(session.alone for session in open_there)

    def _least_used(self, devices: list[str]) -> str:
        used = [session.device for session in self.sessions if not session.ending]
        return min(devices, key=used.count)

    def _give(self, wait: ModelWait, device: str) -> None:
        if self._held(wait.tenant) >= self.quotas[wait.tenant]:
            if not any(one.ending for one in self.sessions if one.tenant == wait.tenant):
                wait.outcome = "QuotaExceeded"
        else:
            ends_at = inf if wait.alone_s is None else self.now + wait.alone_s
            alone = wait.alone_s is not None
            self.sessions.append(ModelSession(wait.tenant, device, alone, ends_at))
            self.granted.append((wait, device))
            wait.outcome = device
        if wait.outcome:
            self.waits.remove(wait)
            self._rest()

    def _refuse_what_may_not_wait(self, wait: ModelWait) -> None:
        if wait.outcome:
            return
        of_tenant = sum(one.tenant == wait.tenant for one in self.waits) - 1
        if wait.gives_up_at == wait.asked_at:
            none_ready = self.unready.issuperset(wait.devices)
            self._end(wait, "Unavailable" if none_ready else "LimitExceeded")
        elif (
            len(self.waits) > self.limits.waiting_limit
            or of_tenant >= self.limits.tenant_waiting_limit
        ):
            self._end(wait, "LimitExceeded")

    def _events(self) -> Generator[tuple[float, Callable[[], None]]]:
        yield self.looks_at, self._look
        for wait in self.waits:
            yield wait.gives_up_at, partial(self._end, wait, "WaitTimedOut")
            yield wait.returns_by, partial(self._end, wait, "Unavailable")
            for caller in wait.callers:
                yield caller.leaves_at, partial(self._tell, wait, caller)
        for session in self.sessions:
            yield session.ends_at, partial(self.close, session)

    def _look(self) -> None:
        self.looks_at += POLL_INTERVAL_S
        self.serve()

    def _tell(self, wait: ModelWait, caller: ModelCaller) -> None:
        caller.notified = self.position(wait)
        self._loses(wait, caller)

    def _loses(self, wait: ModelWait, caller: ModelCaller) -> None:
        wait.callers.remove(caller)
        if not wait.callers:
            wait.returns_by = self.now + self.limits.waiting_return_s

    def _end(self, wait: ModelWait, outcome: str) -> None:
        wait.outcome = outcome
        self.waits.remove(wait)
        self.serve()
        self._rest()

    def _rest(self) -> None:
        if not self.waits:
            self.looks_at = inf

    def _held(self, tenant: str) -> int:
        return sum(session.tenant == tenant for session in self.sessions)
