"""The one core that both APIs call: sessions, and commands in them."""

import asyncio
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypedDict

from opserve_kernels.description import OperatorDescription, describe
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS, operators_of
from opserve_kernels.status import Status
from opserve_server.core import memory_commands, transfers
from opserve_server.core.accounts import Accounts
from opserve_server.core.batches import check_batch, check_count, run_up_to_failure
from opserve_server.core.commands import HANDLERS, Command
from opserve_server.core.device_queue import RequestKey
from opserve_server.core.devices import Device
from opserve_server.core.errors import (
    HandleNotFound,
    InvalidArgument,
    service_drains,
)
from opserve_server.core.history import News
from opserve_server.core.info import (
    DeviceInfo,
    FoundSession,
    OpenedSession,
    SessionInfo,
    Usage,
    WaitingInfo,
)
from opserve_server.core.limits import Limits
from opserve_server.core.observations import Observe, ignore
from opserve_server.core.principal import Principal
from opserve_server.core.requests import AnsweredRequests, check_request_id
from opserve_server.core.results import Result, Written
from opserve_server.core.session import DeterministicLevel, Session
from opserve_server.core.session_request import ANY_DEVICE, SessionRequest
from opserve_server.core.sessions import Sessions, random_name
from opserve_server.core.tenants import Tenant
from opserve_server.core.timeline import Timeline, timeline_of
from opserve_server.core.uploads import Uploads

__all__ = [
    "DeterministicLevel",
    "DeviceInfo",
    "FoundSession",
    "OpenedSession",
    "Service",
    "operator_not_found",
]


class Service:
    """Everything a client can ask for. The first argument of each method is who asks.

    Args:
        devices: The virtual devices.
        limits: Bounds on what clients can make the service hold.
        accounts: Of the tenants; unless given, that of LOCAL alone.
        shared_memory: Name of the socket where clients on this host map memory; empty if none.
        observe: Told of what happens, by the core and by both APIs.
        new_session_name: Makes names that cannot be guessed.

    Attributes:
        accounts: Of the tenants.
        uploads: Bodies in temporary files, of all tenants.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        *,
        limits: Limits,
        accounts: Accounts | None = None,
        shared_memory: str = "",
        observe: Observe = ignore,
        new_session_name: Callable[[], str] = random_name,
    ) -> None:
        self._shared_memory = shared_memory
        self._devices = devices
        self._limits = limits
        self.observe = observe
        self.accounts = accounts or Accounts()
        self.uploads = Uploads(limits.uploads_bytes_limit)
        self._sessions = Sessions(
            devices,
            limits=limits,
            accounts=self.accounts,
            observe=observe,
            new_name=new_session_name,
        )
        # A table for each tenant: no other one can push an answer out that a retry asks for.
        self._opened = defaultdict[str, AnsweredRequests[OpenedSession]](
            lambda: AnsweredRequests(
                limit=limits.sessions_limit + limits.tenant_waiting_limit,
                retained_bytes_limit=limits.retained_bytes_limit,
                size_bytes=lambda _: 0,
            )
        )

    def list_devices(self, principal: Principal) -> list[DeviceInfo]:
        """The devices of this service."""
        del principal  # every tenant may see every device
        return [self._describe(device) for device in self._devices]

    def usage(self, principal: Principal) -> Usage:
        """What the caller's tenant uses now, and how much it may."""
        account = self.accounts.of(principal.tenant)
        return Usage(tenant=principal.tenant, uses=account.uses())

    def list_operators(self, principal: Principal, operator: str = "") -> list[OperatorDescription]:
        """Every operator, or the one of a name or call, whether or not a device here has it.

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
        """Opens a session, and waits no longer than any call may; raises as Sessions.open does."""
        check_request_id(request_id, limit=self._limits.name_length_limit)
        limit_s = self._limits.wait_limit_s
        if not request_id:
            return await self._open(principal, request, key=None, wait_limit_s=limit_s)
        with self._sessions.device_queue.connected((principal.tenant, request_id)):
            return await self._open_once(principal, request, request_id, wait_limit_s=limit_s)

    async def request_session(
        self, principal: Principal, request: SessionRequest, *, request_id: str, tell_after_s: float
    ) -> OpenedSession | WaitingInfo:
        """Opens a session, or returns after a while how the request waits; call it again then.

        The place is kept for waiting_return_s without a call. It is passed over meanwhile if the
        call before was cancelled, and not if that one had its answer.

        Args:
            principal: The caller.
            request: The request.
            request_id: The same for each call of one wait.
            tell_after_s: Seconds after which an answer comes in any case.

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
                for waiting in device_queue.infos(lambda request: request.key == key):
                    return waiting

    def list_waiting(self, principal: Principal) -> list[WaitingInfo]:
        """The tenant's own requests that wait for a device; all of them for scope admin."""
        return self._sessions.waiting_infos(principal)

    def get_session(self, principal: Principal, session: str) -> FoundSession:
        """What a client needs to go on with a session after a break; renews its lease."""
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
        """Makes a session that of one call, which a service that drains finishes."""
        found = self._sessions.get(principal, session)
        found.finishes = True
        with found.in_progress():
            yield

    def keep_alive(self, principal: Principal, session: str) -> float:
        """Renews a lease and tells its seconds."""
        return self._sessions.get(principal, session).lease_s

    async def close_session(self, principal: Principal, session: str) -> None:
        """Ends a session: queued work is dropped, running work stopped, memory returned."""
        await self._sessions.close(self._sessions.get(principal, session))

    def list_sessions(self, principal: Principal) -> list[SessionInfo]:
        """Who has what: the tenant's own sessions, or all of them for a caller with scope admin."""
        return self._sessions.infos(principal)

    async def release(self, principal: Principal, session_id: str, *, force: bool) -> None:
        """Ends a session that list_sessions tells; see Sessions.release for what it raises."""
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
            self._check_accepts(found, [command])
            with found.in_progress():
                found.check_open()
                return [await HANDLERS[type(command)].run(found, command)]

        found = self._sessions.get(principal, session)
        if request_id:
            return (await self._once(found, request_id, [command], run_one))[0]
        return (await run_one())[0]

    def check_count(self, commands: int) -> None:
        """Refuses a batch of so many commands (207012), before they cost the time to read them."""
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
            Unavailable: 507901, the service drains, and some of them are new work.
        """

        async def run_all() -> list[Result]:
            self._check_accepts(found, commands)
            with found.in_progress():
                return await run_up_to_failure(found, commands)

        found = self._sessions.get(principal, session)
        check_batch(commands, self._limits)
        if request_id:
            return await self._once(found, request_id, commands, run_all)
        return await run_all()

    def buffer_size(self, principal: Principal, session: str, buffer: int) -> int:
        """Bytes of a buffer."""
        return self._sessions.get(principal, session).buffers.get(buffer).size_bytes

    def shared_memory_owner(self, session: str, token: bytes) -> Principal:
        """Whose a session is, for a caller of the shared memory; see Sessions.owner."""
        return self._sessions.owner(session, shared_memory_token=token)

    def map_buffer(
        self, principal: Principal, session: str, buffer: int
    ) -> memory_commands.MappedBuffer | None:
        """What a client needs to map a buffer; None while a call computes in its slab."""
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
        """Copies host bytes into a buffer as they come; see transfers.write."""
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
        """What a stream's work came to, behind a sequence number, and then as it ends.

        Ends with the stream, the session or after watch_limit_s; watching renews no lease.
        """
        history = self._sessions.get(principal, session).streams.get(stream).history
        limits = self._limits
        return history.watch(
            after, limit_s=limits.watch_limit_s, quiet_limit_s=limits.watch_quiet_limit_s
        )

    def timeline(self, principal: Principal, session: str) -> Timeline:
        """What is remembered of a session's work, for streams that live."""
        return timeline_of(self._sessions.get(principal, session))

    def waiting_entries(self) -> dict[str, int]:
        """Entries that wait on streams, by the name of their device."""
        return {device.name: self._sessions.waiting(device) for device in self._devices}

    def renew_tenants(self, tenants: Iterable[Tenant]) -> None:
        """All tenants, as they are now; sessions of those that are gone or disabled end."""
        self._sessions.renew_tenants(tenants)
        living = {account.tenant.name for account in self.accounts}
        for removed in self._opened.keys() - living:
            del self._opened[removed]

    @property
    def draining(self) -> bool:
        """Whether it takes no new work, since it is about to end."""
        return self._sessions.draining

    async def drain(self) -> None:
        """Takes no new work; returns when work is finished, and with it every session."""
        await self._sessions.drain()

    async def stop(self) -> None:
        """Ends every session."""
        await self._sessions.close_all()

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
        )


def operator_not_found(name: str) -> HandleNotFound:
    """An operator that is not there (107017)."""
    calls = ", ".join(operator.call for operator in OPERATORS.values())
    return HandleNotFound("operator", name[:64], allowed=calls)


def _check_report_interval(request_id: str, tell_after_s: float) -> None:
    if not request_id or not tell_after_s > 0:  # a NaN is not
        with_id = "with" if request_id else "without"
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            f"tell_after_s: given {tell_after_s:g} {with_id} a request id, allowed more than 0 "
            "with a request id",
            parameter="tell_after_s",
            given=tell_after_s,
            allowed="more than 0 with a request id",
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
