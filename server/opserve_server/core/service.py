"""The core that both APIs call: sessions, and commands in them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypedDict

from opserve_kernels.description import OperatorDescription, describe
from opserve_kernels.operator import variant_on
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS, operators_of
from opserve_kernels.status import Status
from opserve_kernels.user_input import choices
from opserve_server.core import memory_commands, transfers, whole_calls
from opserve_server.core.accounts import Accounts
from opserve_server.core.batches import check_batch, check_count, run_up_to_failure
from opserve_server.core.commands import HANDLERS, Command
from opserve_server.core.device_queue import RequestKey
from opserve_server.core.devices import Device
from opserve_server.core.errors import (
    HandleNotFound,
    InvalidArgument,
    Unauthenticated,
    service_drains,
)
from opserve_server.core.farm import SINGLE, DeviceRecord, Farm, service_id
from opserve_server.core.history import News, NoNews
from opserve_server.core.info import (
    DeviceInfo,
    FoundSession,
    OpenedSession,
    ServiceAddress,
    SessionInfo,
    Usage,
    WaitingInfo,
)
from opserve_server.core.limits import Limits
from opserve_server.core.observations import Observe, ignore
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.requests import AnsweredRequests, check_request_id
from opserve_server.core.results import Result, Written
from opserve_server.core.series import STEP_S, Series, SeriesPoints
from opserve_server.core.session import DeterministicLevel, Session
from opserve_server.core.session_request import ANY_DEVICE, SessionRequest
from opserve_server.core.sessions import Sessions, random_name
from opserve_server.core.tenants import Tenant
from opserve_server.core.timeline import Timeline, timeline_of
from opserve_server.core.uploads import Uploads
from opserve_server.core.watched import WatchedItems
from opserve_server.core.watches import Audience, Change, Watches
from opserve_server.core.whole_calls import Computed, WholeCall

__all__ = [
    "DeterministicLevel",
    "DeviceInfo",
    "FoundSession",
    "OpenedSession",
    "Service",
    "operator_not_found",
]
log = logging.getLogger(__name__)


class Service:
    """All operations of clients. The first argument of each method is the caller.

    Args:
        devices: The virtual devices.
        limits: Bounds on what clients can make the service hold.
        accounts: Accounts of the tenants; by default that of LOCAL alone.
        shared_memory: Name of the socket where clients on this host map memory; empty without one.
        observe: Observer of the core and both APIs.
        farm: Farm of the service.
        new_session_name: Returns names that cannot be guessed.

    Attributes:
        accounts: Accounts of the tenants.
        uploads: Bodies in temporary files, of all tenants.
        device_queue: Session requests that wait for a device.
        meet: Lets requests that wait at other services have devices of this one.
        series: The latest ten minutes of counters and gauges.
        watched: Computes the items of watches.
        watches: Open watches of the service's state.
    """

    def __init__(  # noqa: PLR0913  # each by its name
        self,
        devices: Sequence[Device],
        *,
        limits: Limits,
        accounts: Accounts | None = None,
        shared_memory: str = "",
        observe: Observe = ignore,
        farm: Farm = SINGLE,
        new_session_name: Callable[[], str] = random_name,
    ) -> None:
        self._shared_memory = shared_memory
        self._devices = devices
        self._limits = limits
        self._farm = farm
        self.observe = observe
        self.accounts = accounts or Accounts()
        self.uploads = Uploads(limits.uploads_bytes_limit)
        self._sessions = Sessions(
            devices,
            limits=limits,
            accounts=self.accounts,
            observe=observe,
            farm=farm,
            new_name=lambda: _named(new_session_name(), service_id(farm.name)),
        )
        self.device_queue, self.meet = self._sessions.device_queue, self._sessions.meet
        self.series = Series()
        self.watched = WatchedItems(
            devices, self._sessions, describe=self._describe, series=self.series
        )
        self.watched.add_source("service", self._usage_item, scope=Scope.OPERATE)
        self.watches = Watches(self.watched.gather, limits=limits)
        # A table for each tenant: no other tenant can evict an answer that a retry needs.
        self._opened = defaultdict[str, AnsweredRequests[OpenedSession]](
            partial(_opened_sessions, limits)
        )

    def list_devices(self, principal: Principal) -> list[DeviceInfo]:
        """The devices of this service."""
        del principal  # every tenant may see every device
        return [self._describe(device) for device in self._devices]

    def list_farm(self, principal: Principal) -> list[DeviceInfo]:
        """The devices of this service, then those of the other live services of its farm."""
        others = (device.info for service in self._farm.others for device in service.devices)
        return [*self.list_devices(principal), *others]

    @property
    def services(self) -> tuple[ServiceAddress, ...]:
        """The services of the farm, this one first; empty outside a farm."""
        own = self._farm.own
        return () if own is None else tuple(one.address for one in (own, *self._farm.others))

    def device_records(self) -> list[DeviceRecord]:
        """The devices of this service, with the sessions that each can take."""
        return [
            DeviceRecord(
                info=self._describe(device),
                room=self._sessions.room(device, exclusive=False),
                exclusive_room=self._sessions.room(device, exclusive=True) > 0,
            )
            for device in self._devices
        ]

    def usage(self, principal: Principal) -> Usage:
        """Current use and limits of the caller's tenant."""
        account = self.accounts.of(principal.tenant)
        return Usage(tenant=principal.tenant, uses=account.uses())

    def list_operators(self, principal: Principal, operator: str = "") -> list[OperatorDescription]:
        """Every operator, or the one of a name or call, whether or not a device supports it.

        Raises:
            HandleNotFound: 107017, there is no such operator.
        """
        del principal  # operators are no secret
        found = [known for known in OPERATORS.values() if operator in {"", known.name, known.call}]
        if not found:
            raise operator_not_found(operator)
        return [describe(known) for known in found]

    async def open_session(
        self,
        principal: Principal,
        request: SessionRequest = ANY_DEVICE,
        *,
        request_id: str = "",
    ) -> OpenedSession:
        """Opens a session; waits no longer than any call may. Raises as Sessions.open does."""
        check_request_id(request_id, limit=self._limits.name_length_limit)
        limit_s = self._limits.wait_limit_s
        if not request_id:
            return await self._open(principal, request, key=None, wait_limit_s=limit_s)
        with self._sessions.device_queue.connected((principal.tenant, request_id)):
            return await self._open_once(principal, request, request_id, wait_limit_s=limit_s)

    async def request_session(
        self, principal: Principal, request: SessionRequest, *, request_id: str, tell_after_s: float
    ) -> OpenedSession | WaitingInfo:
        """Opens a session, or returns the state of the waiting request after a while.

        The client then repeats the call. The position is kept for waiting_return_s without a call.
        It is passed over meanwhile if the previous call was cancelled, but not if that call was
        answered.

        Args:
            principal: The caller.
            request: The request.
            request_id: The same for each call of one wait.
            tell_after_s: Seconds after which the state is returned.

        Raises:
            InvalidArgument: 107000, there is no request id, or no time.
            OpserveError: As Sessions.open does.
        """
        check_request_id(request_id, limit=self._limits.name_length_limit)
        _check_report_interval(request_id, tell_after_s)
        key, limit_s = (principal.tenant, request_id), self._limits.device_wait_limit_s
        device_queue = self._sessions.device_queue
        with device_queue.connected(key):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(tell_after_s, self._limits.wait_limit_s)):
                        return await self._open_once(
                            principal, request, request_id, wait_limit_s=limit_s
                        )
                # A request that was granted since the timeout is not listed: the next round returns
                # its session.
                for waiting in device_queue.infos(lambda request: request.key == key):
                    return waiting

    def list_waiting(self, principal: Principal) -> list[WaitingInfo]:
        """The tenant's own requests that wait for a device; all requests for the scope admin."""
        return self._sessions.waiting_infos(principal)

    def cancel_waiting(self, principal: Principal, request_id: str) -> None:
        """Ends a waiting request of the tenant by its public id; its client gets an error.

        Raises:
            HandleNotFound: 107017, no such request waits.
        """
        self._sessions.device_queue.cancel(principal.tenant, request_id)

    def get_session(self, principal: Principal, session: str) -> FoundSession:
        """The data with which a client continues a session after a break; renews its lease."""
        found = self._sessions.get(principal, session)
        return FoundSession(
            **self._lease_of(found),
            last_buffer=found.buffers.last,
            last_executor=found.executors.last,
            last_stream=found.streams.last,
            last_event=found.events.last,
        )

    @contextmanager
    def whole_call(self, principal: Principal, session: str) -> Generator[None]:
        """Marks a session as that of one call, which a draining service completes."""
        found = self._sessions.get(principal, session)
        found.finishes = True
        with found.in_progress():
            yield

    def keep_alive(self, principal: Principal, session: str) -> float:
        """Renews a lease and returns its seconds."""
        return self._sessions.get(principal, session).lease_s

    async def close_session(self, principal: Principal, session: str) -> None:
        """Ends a session: drops queued work, stops running work and returns its memory."""
        await self._sessions.close(self._sessions.get(principal, session))

    def list_sessions(self, principal: Principal) -> list[SessionInfo]:
        """The tenant's own sessions; all sessions for a caller with the scope admin."""
        return self._sessions.infos(principal)

    async def release(self, principal: Principal, session_id: str, *, force: bool) -> None:
        """Ends a session from list_sessions; raises as Sessions.release does."""
        await self._sessions.release(principal, session_id, force=force)

    def set_deterministic_level(
        self, principal: Principal, session: str, level: DeterministicLevel
    ) -> None:
        """Sets how far results must repeat bit by bit."""
        self._sessions.get(principal, session).set_deterministic_level(level)

    async def run(
        self, principal: Principal, session: str, command: Command, *, request_id: str = ""
    ) -> Result:
        """Runs one command; raises OpserveError."""

        async def run_one() -> list[Result]:
            # Checked here and not before `once`: a retry of an answered request gets its answer
            # even while the service drains.
            self._check_accepts(found, [command])
            with found.in_progress():
                # With a request id this runs in a task; the session may end before its first step.
                found.check_open()
                return [await HANDLERS[type(command)].run(found, command)]

        found = self._sessions.get(principal, session)
        if not request_id:
            return (await run_one())[0]
        if HANDLERS[type(command)].waits:
            return (await self._once(found, request_id, [command], run_one))[0]
        check_request_id(request_id, limit=self._limits.name_length_limit)
        return (await found.answered.at_once(request_id, [command], run_one))[0]

    async def compute(self, principal: Principal, session: str, call: WholeCall) -> Computed:
        """Runs a whole call; see whole_calls.compute.

        Raises:
            HandleNotFound: 107017, there is no such session.
            Unavailable: 507901, the service drains.
        """
        found = self._sessions.get(principal, session)
        self._check_accepts(found, [call.plan])
        with found.in_progress():
            return await whole_calls.compute(found, call)

    def check_count(self, commands: int) -> None:
        """Rejects a batch of too many commands (207012) before the time to read them is spent."""
        check_count(commands, self._limits)

    async def submit(
        self,
        principal: Principal,
        session: str,
        commands: Sequence[Command],
        *,
        request_id: str = "",
    ) -> list[Result]:
        """Runs commands in order up to the first failure, whose Failed is the last result.

        Raises:
            HandleNotFound: 107017, there is no such session.
            LimitExceeded: 207012, too many commands or too many bytes in them.
            Unavailable: 507901, the service drains, and a command is new work.
        """

        async def run_all() -> list[Result]:
            self._check_accepts(found, commands)
            with found.in_progress():
                return await run_up_to_failure(found, commands)

        found = self._sessions.get(principal, session)
        # Before `once`, so that a rejected batch leaves no answer behind.
        check_batch(commands, self._limits)
        if request_id:
            return await self._once(found, request_id, commands, run_all)
        return await run_all()

    def buffer_size(self, principal: Principal, session: str, buffer: int) -> int:
        """Bytes of a buffer."""
        return self._sessions.get(principal, session).buffers.get(buffer).size_bytes

    def shared_memory_owner(self, session: str, token: bytes) -> Principal:
        """The owner of a session, for a caller of the shared memory; see Sessions.owner."""
        return self._sessions.owner(session, shared_memory_token=token)

    def map_buffer(
        self, principal: Principal, session: str, buffer: int
    ) -> memory_commands.MappedBuffer | None:
        """Data that a client needs to map a buffer; None while a call computes in its slab."""
        return memory_commands.map_buffer(self._sessions.get(principal, session), buffer)

    async def write(
        self,
        principal: Principal,
        session: str,
        *,
        buffer: int,
        offset: int,
        size_bytes: int,
        chunks: AsyncIterator[bytes | memoryview],
    ) -> Written:
        """Copies host bytes into a buffer as they arrive; see transfers.write."""
        found = self._sessions.get(principal, session)
        return await transfers.write(
            found, buffer=buffer, offset=offset, size_bytes=size_bytes, chunks=chunks
        )

    def read(
        self,
        principal: Principal,
        session: str,
        *,
        buffer: int,
        offset: int,
        size_bytes: int,
        form: Callable[[memoryview], bytes] = bytes,
    ) -> AsyncGenerator[bytes]:
        """Copies bytes of a buffer to the host in chunks; see transfers.read."""
        found = self._sessions.get(principal, session)
        return transfers.read(found, buffer=buffer, offset=offset, size_bytes=size_bytes, form=form)

    def watch_stream(
        self, principal: Principal, session: str, stream: int, *, after: int = 0
    ) -> AsyncGenerator[News]:
        """Outcomes of a stream's work after a sequence number, including future ones.

        Ends with the stream, the session or after watch_limit_s; watching renews no lease.
        """
        history = self._sessions.get(principal, session).streams.get(stream).history
        limits = self._limits
        return history.watch(
            after, limit_s=limits.watch_limit_s, quiet_limit_s=limits.watch_quiet_limit_s
        )

    def timeline(self, principal: Principal, session: str) -> Timeline:
        """Kept history of a session's work, for live streams."""
        return timeline_of(self._sessions.get(principal, session))

    def watch(self, principal: Principal) -> AsyncGenerator[Change | NoNews]:
        """The state of the service and its changes; see Watches.watch."""
        return self.watches.watch(principal)

    def get_series(self, principal: Principal, names: str, *, last_s: int) -> SeriesPoints:
        """The latest points of series; see Series.of."""
        return self.series.of(principal, names, last_s=last_s)

    async def tick(self) -> None:
        """Adds a point to each series and updates the watches."""
        self.series.tick()
        await self.watches.tick()

    async def keep_ticking(self) -> None:
        """Ticks once in a step of the series, until it is cancelled."""
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while True:
            try:
                await self.tick()
            except Exception:
                log.exception("the watches were not updated")
            next_s = max(next_s + STEP_S, loop.time())
            await asyncio.sleep(next_s - loop.time())

    def timeline_of(self, principal: Principal, session_id: str) -> Timeline:
        """The timeline of a session from list_sessions; renews no lease."""
        return timeline_of(self._sessions.find(principal, session_id))

    def busy_seconds(self) -> dict[str, float]:
        """Seconds in which a device had a call, by the name of the device."""
        return {device.name: self._sessions.dispatcher(device).busy_s for device in self._devices}

    def waits_s(self) -> dict[str, list[float]]:
        """Seconds that each session request has waited, by the profile of a device."""
        waits: dict[str, list[float]] = {device.profile: [] for device in self._devices}
        now_s = asyncio.get_running_loop().time()
        for request in self._sessions.device_queue.waiting():
            waits[request.requirements.profile].append(now_s - request.requested_at)
        return waits

    @property
    def open_watches(self) -> int:
        """Open watches of the service's state."""
        return self.watches.count

    def waiting_entries(self) -> dict[str, int]:
        """Entries that wait on streams, by the name of their device."""
        return {device.name: self._sessions.dispatcher(device).waiting for device in self._devices}

    def renew_tenants(self, tenants: Iterable[Tenant]) -> None:
        """Replaces the tenants; sessions of deleted or disabled ones end."""
        self._sessions.renew_tenants(tenants)
        living = {account.tenant.name for account in self.accounts}
        for removed in self._opened.keys() - living:
            del self._opened[removed]

    @property
    def draining(self) -> bool:
        """Whether the service is about to end and accepts no new work."""
        return self._sessions.draining

    async def drain(self) -> None:
        """Rejects new work; returns when all work is complete and every session has ended."""
        try:
            await self._sessions.drain()
        finally:
            self.watches.end()

    async def stop(self) -> None:
        """Ends every session."""
        self.watches.end()
        await self._sessions.close_all()

    async def _usage_item(self, audience: Audience) -> Mapping[str, object]:
        try:
            return {
                "usage": Usage(
                    tenant=audience.tenant, uses=self.accounts.of(audience.tenant).uses()
                )
            }
        except Unauthenticated:  # the guard ends its watches
            return {}

    async def _open_once(
        self, principal: Principal, request: SessionRequest, request_id: str, *, wait_limit_s: float
    ) -> OpenedSession:
        key = (principal.tenant, request_id)
        opening = partial(self._open, principal, request, key=key, wait_limit_s=wait_limit_s)
        return await self._opened[principal.tenant].once(request_id, request, opening)

    async def _open(
        self,
        principal: Principal,
        request: SessionRequest,
        *,
        key: RequestKey | None,
        wait_limit_s: float,
    ) -> OpenedSession:
        opened = await self._sessions.open(principal, request, key=key, wait_limit_s=wait_limit_s)
        return OpenedSession(**self._lease_of(opened))

    async def _once(
        self,
        session: Session,
        request_id: str,
        commands: Sequence[Command],
        work: Callable[[], Coroutine[Any, Any, list[Result]]],
    ) -> list[Result]:
        check_request_id(request_id, limit=self._limits.name_length_limit)
        return await session.answered.once(request_id, commands, work)

    def _check_accepts(self, session: Session, commands: Sequence[Command]) -> None:
        refuses = self.draining and not session.finishes
        if refuses and any(HANDLERS[type(command)].new_work for command in commands):
            raise service_drains("service")

    def _lease_of(self, session: Session) -> "_Lease":
        return {
            "session": session.name,
            "device": self._describe(session.device),
            "lease_s": session.lease_s,
            "exclusive_left_s": session.exclusive_left_s,
            "accuracy": session.plan_options.accuracy.value,
            "documented_rules": session.plan_options.documented_rules.value,
            "local_lane": self._shared_memory,
            "local_lane_token": session.shared_memory_token.hex() if self._shared_memory else "",
            "services": self.services,
        }

    def _describe(self, device: Device) -> DeviceInfo:
        profile = PROFILES[device.profile]
        return DeviceInfo(
            name=device.name,
            profile=device.profile,
            products=profile.products,
            operators=tuple(operator.call for operator in operators_of(profile.name)),
            memory_bytes=device.memory_bytes,
            free_memory_bytes=device.slabs.free_bytes,
            ready=device.ready,
            sessions=self._sessions.count(device),
            tags=tuple(sorted(device.tags)),
            exclusive=self._sessions.is_exclusive(device),
            kernel_variant=variant_on(profile),
            host=self._farm.name,
        )


def _named(name: str, service: str) -> str:
    """A session's name whose last digits name its service."""
    return name[: len(name) - len(service)] + service


def operator_not_found(name: str) -> HandleNotFound:
    """The error for an unknown operator (107017)."""
    calls = [operator.call for operator in OPERATORS.values()]
    return HandleNotFound("operator", name[:64], allowed=choices(calls, name))


def _check_report_interval(request_id: str, tell_after_s: float) -> None:
    if not request_id or not tell_after_s > 0:  # a NaN is not
        with_id = "with" if request_id else "without"
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            f"tell_after_s is {tell_after_s:g} {with_id} a request id: pass more than 0, with a "
            "request id.",
            parameter="tell_after_s",
            given=tell_after_s,
            allowed="more than 0 with a request id",
        )


def _opened_sessions(limits: Limits) -> AnsweredRequests[OpenedSession]:
    """Answers for each session of a tenant that may be open, and each request that may wait."""
    return AnsweredRequests(
        limit=limits.sessions_limit + limits.tenant_waiting_limit,
        retained_bytes_limit=limits.retained_bytes_limit,
        size_bytes=lambda _: 0,
    )


class _Lease(TypedDict):
    session: str
    device: DeviceInfo
    lease_s: float
    exclusive_left_s: float
    accuracy: str
    documented_rules: str
    local_lane: str
    local_lane_token: str
    services: tuple[ServiceAddress, ...]
