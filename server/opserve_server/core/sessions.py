"""Open sessions: by name, for their owner, until their lease ends."""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from opserve_kernels.status import Status
from opserve_server.core.accounts import Account, Accounts
from opserve_server.core.capacity import Capacity
from opserve_server.core.device_queue import DeviceQueue, RequestKey
from opserve_server.core.devices import Device
from opserve_server.core.dispatch import Dispatcher
from opserve_server.core.errors import (
    DRAINED,
    HandleNotFound,
    InvalidArgument,
    Moved,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
    WrongState,
    cut_off,
    service_drains,
    session_not_found,
)
from opserve_server.core.farm import (
    Farm,
    WaitingRecord,
    owner_of,
    with_device,
    with_room,
)
from opserve_server.core.info import SessionInfo, WaitingInfo
from opserve_server.core.limits import Limits
from opserve_server.core.observations import LOGGED_CHARACTERS, Observe, concerns_session
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.session import LoopStalls, Session
from opserve_server.core.session_request import Requirements, SessionRequest, requirements_of
from opserve_server.core.tenants import Resource, Tenant

DRAIN_POLL_INTERVAL_S = 0.05
"""Seconds between two checks of sessions while the service drains."""

_NOT_HERE = {Status.ACL_ERROR_RT_INVALID_DEVICEID, Status.ACL_ERROR_RT_SOCKET_CLOSE}
"""Codes that other services of a farm may not return: no such device; a drain or a lost store."""

log = logging.getLogger(__name__)


def random_name() -> str:
    """128 random bits in hexadecimal."""
    return secrets.token_hex(16)


class Sessions:
    """Opens, finds and closes sessions.

    Args:
        devices: Devices of the sessions.
        limits: Bounds.
        accounts: Accounts of the tenants.
        observe: Observer of calls, work and copies.
        farm: Farm of the service.
        new_name: Returns names that cannot be guessed.

    Attributes:
        draining: Whether the service is about to end and accepts no new work.
        device_queue: Session requests that wait for a device.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        *,
        limits: Limits,
        accounts: Accounts,
        observe: Observe,
        farm: Farm,
        new_name: Callable[[], str] = random_name,
    ) -> None:
        self._devices = devices
        self._dispatchers = {device.name: Dispatcher(device) for device in devices}
        self._limits = limits
        self._accounts = accounts
        self._observe = observe
        self._farm = farm
        self._new_name = new_name
        self._sessions: dict[str, Session] = {}
        # Counted at each change: opening one session must not cost a scan of all others.
        self._by_id: dict[str, Session] = {}
        self._counts = {device.name: 0 for device in devices}
        self._exclusive: set[str] = set()
        self._lease_timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: dict[asyncio.Task[None], Session] = {}
        self._ended: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self.draining = False
        self._loop_stalls = LoopStalls(
            needed=lambda: bool(self._sessions) or self.device_queue.has_requests
        )
        self.device_queue = DeviceQueue(
            limits,
            farm=farm,
            capacity=self._capacity,
            open_on=self._open_on,
            close=self._close,
            loop_stalls=self._loop_stalls,
        )

    def count(self, device: Device) -> int:
        """Sessions on a device."""
        return self._counts[device.name]

    def room(self, device: Device, *, exclusive: bool) -> int:
        """Further sessions that a device can take."""
        if self.draining or not device.ready or device.name in self._exclusive:
            return 0
        count, limits = self._counts[device.name], self._limits
        if exclusive and count:
            return 0
        left = limits.sessions_limit - len(self._sessions)
        return max(min(limits.device_sessions_limit - count, left), 0)

    def is_exclusive(self, device: Device) -> bool:
        """Whether one session has a device exclusively."""
        return device.name in self._exclusive

    def dispatcher(self, device: Device) -> Dispatcher:
        """The dispatcher of a device."""
        return self._dispatchers[device.name]

    async def open(
        self,
        principal: Principal,
        request: SessionRequest,
        *,
        key: RequestKey | None,
        wait_limit_s: float,
    ) -> Session:
        """A new session on the least used device that meets a request; see DeviceQueue.session.

        Args:
            principal: Its owner.
            request: The request.
            key: Key under which a client can repeat the request while it waits.
            wait_limit_s: Longest wait; a longer one is cut to it.

        Raises:
            InvalidArgument: 107001, no device of the service can ever meet it; 107000, a number is
                out of bounds.
            QuotaExceeded: 207005 or 207008, of this tenant; requests do not wait for a quota.
            Unauthenticated: 207006, the tenant is deleted or disabled.
            Unavailable: 507901, the service drains, or its lease in the farm has ended.
            Moved: 207005, another service of the farm has room, and this one has none, or keeps a
                device for a request that waited.
        """
        account = self._accounts.of(principal.tenant)
        try:
            self._check_opens()
            requirements = requirements_of(
                request,
                devices=self._devices,
                limits=self._limits,
                priority_limit=account.tenant.priority_limit,
                wait_limit_s=wait_limit_s,
            )
        except (InvalidArgument, Unavailable) as error:
            other = with_device(self._farm, request) if error.status in _NOT_HERE else None
            if other is not None:
                raise Moved(other.address) from error
            raise
        _check_quota(account)
        is_full = self._capacity().device_for(requirements) is None
        other = with_room(self._farm, request) if is_full else None
        if other is not None:
            raise Moved(other.address)
        return await self.device_queue.session(account, requirements, key)

    def meet(self, waiting: Sequence[WaitingRecord]) -> None:
        """Lets requests that wait at other services have devices of this one; see DeviceQueue."""
        opens = not self.draining and self._farm.accepts
        left: dict[str, float] = {}
        found: list[tuple[WaitingRecord, Requirements, bool]] = []
        for one in waiting:
            requirements = self._requirements_of(one.terms)
            if requirements is not None:
                # No device is kept for more sessions than the tenant may open.
                left.setdefault(one.tenant, self._accounts.left(one.tenant, Resource.SESSIONS))
                left[one.tenant] -= 1
                found.append((one, requirements, opens and left[one.tenant] >= 0))
        self.device_queue.meet(found)

    def _requirements_of(self, request: SessionRequest) -> Requirements | None:
        """The requirements of another service's request; None where no device here meets them."""
        try:
            return requirements_of(
                request,
                devices=self._devices,
                limits=self._limits,
                priority_limit=request.priority,
                wait_limit_s=0.0,
            )
        except InvalidArgument:
            return None

    def _check_opens(self) -> None:
        if self.draining:
            raise service_drains("session")
        if not self._farm.accepts:
            raise cut_off()

    def get(self, principal: Principal, name: str) -> Session:
        """A live session of the caller's tenant, with its lease renewed.

        Raises:
            HandleNotFound: 107017, it does not exist or belongs to another tenant: one answer for
                both.
            Moved: 207005, its name is one of another service of the farm.
        """
        session = self._sessions.get(name)
        # One error for both cases: a caller cannot find out whether another tenant's session
        # exists.
        if session is None or session.tenant != principal.tenant:
            other = owner_of(self._farm, name)
            if other is not None:
                raise Moved(other.address)
            tenant, reason = self._ended.get(name, ("", ""))
            raise session_not_found(name, ended=reason if tenant == principal.tenant else "")
        session.renew()
        concerns_session(name=name, device=session.device.name)
        return session

    def owner(self, name: str, *, shared_memory_token: bytes) -> Principal:
        """The owner of a session, for a client that sends its token.

        Raises:
            HandleNotFound: 107017, it does not exist, or the token is not its own.
        """
        session = self._sessions.get(name)
        if session is None or not secrets.compare_digest(
            session.shared_memory_token, shared_memory_token
        ):
            raise session_not_found(name)
        return Principal(tenant=session.tenant, name="", scopes=frozenset({Scope.OPERATE}))

    def waiting_infos(self, principal: Principal) -> list[WaitingInfo]:
        """The waiting requests of the caller's tenant, or of all tenants for the scope admin."""
        all_tenants = Scope.ADMIN in principal.scopes
        return self.device_queue.infos(
            lambda request: all_tenants or request.tenant == principal.tenant
        )

    def all(self) -> list[Session]:
        """The open sessions of all tenants."""
        return list(self._sessions.values())

    def infos(self, principal: Principal) -> list[SessionInfo]:
        """The sessions of the caller's tenant, or of all tenants for the scope admin."""
        return [session.info() for session in self._of(principal)]

    def find(self, principal: Principal, session_id: str) -> Session:
        """One of the sessions in `infos`, for an administrator or its tenant.

        Raises:
            HandleNotFound: 107017, there is none.
        """
        session = self._by_id.get(session_id)
        if session is None or not _sees(principal, session):
            raise HandleNotFound("session", session_id[:64], allowed="the id of an open session")
        return session

    async def release(self, principal: Principal, session_id: str, *, force: bool) -> None:
        """Ends one of the sessions in `infos`, on behalf of an administrator or its tenant.

        Raises:
            HandleNotFound: 107017, there is none.
            WrongState: 107000, it has work, and force was not given.
        """
        session = self.find(principal, session_id)
        if session.working and not force:
            raise WrongState(
                Status.ACL_ERROR_RT_PARAM_INVALID,
                f"Session {session_id} has work: wait until it is done, or pass --force "
                "(force=True).",
                parameter="session",
                given=session_id,
                allowed="one without work, or force",
            )
        await self._end(session, reason="it was released")

    async def close(self, session: Session) -> None:
        """Ends a session and returns its memory; continues if the caller is cancelled."""
        await self._end(session, reason="it was closed")

    async def drain(self) -> None:
        """Ends each session once it has been quiet; opens no more."""
        self.draining = True
        self._end_waits()
        while self._sessions:
            for session in self.all():
                # Quiet for a while, not just now: a client between two calls must not lose its
                # session.
                if session.is_quiet(self._limits.drain_quiet_s):
                    self._close(session, reason=DRAINED)
            await asyncio.sleep(DRAIN_POLL_INTERVAL_S)

    def renew_tenants(self, tenants: Iterable[Tenant]) -> None:
        """Replaces the tenants; sessions of deleted or disabled ones end."""
        self._accounts.renew(tenants)
        self.device_queue.end(
            lambda: Unauthenticated("the tenant is disabled or gone"),
            where=lambda request: request.account.closed,
        )
        for session in self.all():
            if session.account.closed:
                log.info("session %s… ends: its tenant is disabled or gone", session.id)
                self._close(session)

    async def close_all(self) -> None:
        """Ends every session, and every wait for one."""
        self.draining = True
        self._end_waits()
        for session in self.all():
            self._close(session)
        # Workers may stop only after this: they still write for the calls that end here.
        await asyncio.gather(*self._closing)

    def _end_waits(self) -> None:
        self.device_queue.end(lambda: service_drains("session"), where=lambda _: True)

    def _open_on(
        self, account: Account, requirements: Requirements, device: Device
    ) -> Session | None:
        """A new session; None while another session of a tenant at its quota is ending."""
        try:
            _check_quota(account)
        except QuotaExceeded:
            # The quota is returned when the ending session has stopped; the request stays queued
            # until then.
            if any(session.account is account for session in self._closing.values()):
                return None
            raise
        session = Session(
            self._unused_name(),
            account=account,
            device=device,
            dispatcher=self._dispatchers[device.name],
            requirements=requirements,
            limits=self._limits,
            loop_stalls=self._loop_stalls,
            reclaim=lambda: self._reclaim(device, account),
            observe=self._observe,
        )
        self._sessions[session.name] = self._by_id[session.id] = session
        self._counts[device.name] += 1
        if session.exclusive_s is not None:
            self._exclusive.add(device.name)
        self._watch(session)
        return session

    def _capacity(self) -> Capacity:
        return Capacity(
            self._limits,
            sessions=self._counts,
            exclusive=self._exclusive,
            ending=[session.device for session in self._closing.values()],
        )

    def _of(self, principal: Principal) -> list[Session]:
        return [session for session in self._sessions.values() if _sees(principal, session)]

    def _unused_name(self) -> str:
        """A new name whose session has a unique id."""
        # The id is only the start of the name, so two names may share it.
        while (name := self._new_name())[:LOGGED_CHARACTERS] in self._by_id:
            pass
        return name

    async def _end(self, session: Session, *, reason: str) -> None:
        stopping = self._close(session, reason=reason)
        if stopping is not None:
            await asyncio.shield(stopping)

    def _close(self, session: Session, *, reason: str = "") -> asyncio.Task[None] | None:
        """Ends a session; its tenant can read the reason for a while.

        Returns:
            The task that stops its work; None where no work is left.
        """
        # Removed before its work has stopped: no new call can find it, while `_closing` keeps its
        # device from exclusive use.
        del self._sessions[session.name], self._by_id[session.id]
        self._counts[session.device.name] -= 1
        if session.exclusive_s is not None:
            self._exclusive.discard(session.device.name)
        self._lease_timers.pop(session.name).cancel()
        session.closed = True
        session.end_reason = reason
        self._ended[session.name] = (session.tenant, reason)
        # The reasons are for clients that come back soon; their number is bounded.
        if len(self._ended) > self._limits.sessions_limit:
            self._ended.popitem(last=False)
        stopping = None
        if session.complete:
            session.return_all()
        else:
            stopping = asyncio.create_task(session.stop())
            # asyncio keeps only weak references to tasks; this one must run to its end.
            self._closing[stopping] = session
            stopping.add_done_callback(self._closed)
        self.device_queue.advance()
        return stopping

    def _closed(self, task: asyncio.Task[None]) -> None:
        del self._closing[task]
        self.device_queue.advance()

    def _watch(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_at(session.ends_at, self._expire, session)
        self._lease_timers[session.name] = timer

    def _expire(self, session: Session) -> None:
        now = asyncio.get_running_loop().time()
        # A call in progress, such as a long wait, keeps the session alive.
        if session.calls:
            session.renew()
        if session.ends_at > now:
            self._watch(session)
            return
        reason = f"no call within its lease of {session.lease_s:g} s"
        if session.exclusive_until <= now:
            reason = f"it had its device alone for {session.exclusive_s:g} s, as was granted"
        log.info("session %s… ends: %s", session.id, reason)
        self._close(session, reason=reason)

    def _reclaim(self, device: Device, account: Account) -> None:
        for session in self._sessions.values():
            # Either the device or the tenant's quota lacks memory: both kinds of sessions can help.
            if session.device is device or session.account is account:
                session.memory.give_back_empty_slabs()


def _check_quota(account: Account) -> None:
    account.check(Resource.SESSIONS)
    account.check(Resource.STREAMS)


def _sees(principal: Principal, session: Session) -> bool:
    return Scope.ADMIN in principal.scopes or session.tenant == principal.tenant
