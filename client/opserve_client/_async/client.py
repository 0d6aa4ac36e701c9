"""Connections to a service, over gRPC or Connect."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Self

from typing_extensions import override

from opserve.v1.operator_description_pb2 import OperatorDescription
from opserve.v1.operator_service_pb2 import ListOperatorsRequest
from opserve.v1.session_service_pb2 import (
    GetSessionRequest,
    GetTimelineRequest,
    ListDevicesRequest,
    ListWaitingRequest,
    OpenSessionRequest,
    Waiting,
)
from opserve.v1.usage_service_pb2 import GetUsageRequest, GetUsageResponse
from opserve.v1.watch_service_pb2 import GetSeriesRequest, WatchRequest
from opserve_client import runtime_async
from opserve_client._async.admin import AsyncAdmin
from opserve_client._async.conformance import AsyncConformance
from opserve_client._async.connection import AsyncConnection
from opserve_client._async.services import AsyncServices
from opserve_client._async.session import AsyncSession
from opserve_client._async.session_opener import AsyncSessionOpener
from opserve_client._async.transports.base import AsyncTransport
from opserve_client.access import Access, TlsFiles, access_like, access_to, default_address
from opserve_client.arguments import (
    ACCURACIES,
    DOCUMENTED_RULES,
    AccuracyName,
    DocumentedRulesName,
    boolean,
    choice,
    seconds,
    text,
    unsigned,
)
from opserve_client.chrome_trace import chrome_trace, timeline_of_stream
from opserve_client.device import Device, device_of
from opserve_client.handles import Handles
from opserve_client.recovery import RECOVERY_S
from opserve_client.watched import Series, WatchedState, series_of, state_after
from opserve_client.wire.json_messages import Json
from opserve_client.wire.methods import (
    GET_SERIES,
    GET_SESSION,
    GET_TIMELINE,
    GET_USAGE,
    LIST_DEVICES,
    LIST_OPERATORS,
    LIST_WAITING,
    WATCH,
)

_LARGEST_PRIORITY = 2**31 - 1


class AsyncClient:
    """A connection to a service; a context manager that closes the connection.

    A call above the call rate of its tenant waits until the rate allows it, for up to 30 s in all
    and within `timeout_s`. It raises QuotaExceeded instead if the next attempt is more than 1 s
    away.

    Args:
        address: "127.0.0.1:50051" or "grpc://..." for gRPC, "http://..." for Connect;
            "grpcs://..." and "https://..." for the same under TLS; None means the environment
            variable OPSERVE_ADDRESS, by default "127.0.0.1:50051".
        api_key: API key of the caller, or ID token of its CI job; None means the environment
            variable OPSERVE_API_KEY, if it is set.
        tls: Certificates for TLS; None means the authorities in the file that the environment
            variable OPSERVE_CA names, by default those of the system.
        allow_plaintext: Whether to send the API key to another machine without TLS; None means the
            environment variable OPSERVE_ALLOW_PLAINTEXT, by default no.
        timeout_s: Time limit of one call in seconds; bulk bytes add a second for each MiB. The
            default is above the longest wait of a service, 300 s.
        recovery_s: Seconds for which `session.run` on arrays retries while the service is
            unreachable or restarts: the sum of the pauses between attempts. None raises the first
            failure.
        transport: Transport to use instead of the address.
        sleep: Waits between attempts, in seconds.

    Attributes:
        admin: Tenants, keys, usage and audit; needs the scope "admin".
        conformance: Cases, their expected values, and verdicts on outputs of other implementations.
    """

    def __init__(  # noqa: PLR0913  # each by name
        self,
        address: str | None = None,
        *,
        api_key: str | None = None,
        tls: TlsFiles | None = None,
        allow_plaintext: bool | None = None,
        timeout_s: float = 330.0,
        recovery_s: float | None = RECOVERY_S,
        transport: AsyncTransport | None = None,
        sleep: runtime_async.Sleep = runtime_async.sleep,
    ) -> None:
        where = default_address() if address is None else text(address, parameter="address")
        self._place = type(transport).__name__
        connected = partial(
            AsyncConnection,
            timeout_s=seconds(timeout_s, parameter="timeout_s"),
            recovery_s=_seconds_or_0(recovery_s, parameter="recovery_s"),
            sleep=sleep,
        )
        if transport is None:
            access_of = partial(
                access_to, api_key=api_key, tls=tls, allow_plaintext=allow_plaintext
            )
            access = access_of(where)
            self._place = access.place
            self._connection = connected(_transport_for(access))

            def connect(address: str) -> AsyncConnection:
                return connected(_transport_for(access_like(access, access_of(address))))

            self._services = AsyncServices(
                self._connection, is_http=access.is_http, address=access.place, connect=connect
            )
        else:
            self._connection = connected(transport)
            self._services = AsyncServices(self._connection)
        self.admin = AsyncAdmin(self._connection)
        self.conformance = AsyncConformance(self._connection)

    @override
    def __repr__(self) -> str:
        if not hasattr(self, "_connection"):  # a traceback of a constructor that raised shows this
            return f"<{type(self).__name__}: not open>"
        state = "closed" if self._connection.closed else "open"
        return f"<{type(self).__name__} {self._place}: {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def list_devices(self) -> list[Device]:
        """Returns the devices of the service and of its farm, with their memory and sessions."""
        listed = await self._connection.call(LIST_DEVICES, ListDevicesRequest())
        return [device_of(device) for device in listed.devices]

    async def get_version(self) -> str:
        """Returns the version of the service, such as "1.4.2"; "" of a service before 0.3."""
        return (await self._connection.call(LIST_DEVICES, ListDevicesRequest())).version

    async def get_trace(self, session: str, *, stream: int | None = None) -> dict[str, Json]:
        """Returns the recent work of a session as `Session.trace` does, without resuming it.

        Args:
            session: Name of the session, a secret.
            stream: Handle of a stream, whose work alone is returned; None means the whole session.

        Raises:
            AclrtError: 107017, there is no such session or stream.
        """
        name = text(session, parameter="session")
        request = GetSessionRequest(session=name)
        connection, found = await self._services.call(GET_SESSION, request, at=self._connection)
        timeline = await connection.call(GET_TIMELINE, GetTimelineRequest(session=name))
        if stream is not None:
            timeline = timeline_of_stream(timeline, unsigned(stream, parameter="stream"))
        return chrome_trace(timeline, process=f"session on {found.device.name}")

    async def get_usage(self) -> GetUsageResponse:
        """Returns the use and the limit of each resource of the caller's tenant."""
        return await self._connection.call(GET_USAGE, GetUsageRequest())

    async def list_operators(self, name: str = "") -> list[OperatorDescription]:
        """Returns one operator or all: arguments, dtypes by profile, limits and errors.

        Args:
            name: An operator's name or call, "im2col_backward" or "aclnnIm2colBackward"; "" means
                all.

        Raises:
            AclrtError: 107017, there is no such operator.
        """
        request = ListOperatorsRequest(operator=text(name, parameter="name"))
        return list((await self._connection.call(LIST_OPERATORS, request)).operators)

    def open_session(  # noqa: PLR0913  # each by name
        self,
        profile: str = "ascend910b",
        *,
        lease_s: float | None = None,
        workspace_limit_bytes: int = 0,
        tags: Sequence[str] = (),
        priority: int = 0,
        wait_s: float | None = None,
        exclusive: bool = False,
        exclusive_s: float | None = None,
        accuracy: AccuracyName = "direct",
        documented_rules: DocumentedRulesName = "error",
        on_position: Callable[[Waiting], object] | None = None,
    ) -> runtime_async.AwaitableContext[AsyncSession]:
        """Leases a device; a context manager that closes the session.

        Args:
            profile: The product that the device models, by opserve's or the vendor's name:
                "ascend910b", "Ascend910B1" or "Atlas A2 training".
            lease_s: Seconds without a call after which the service closes the session; None means
                the service's default. A heartbeat renews the lease until the session is closed.
            workspace_limit_bytes: Greatest workspace of a call in bytes. Above it, a slower
                algorithm with a smaller workspace is used, if there is one. 0 means no limit.
            tags: Tags that the device must have; `list_devices` returns those of each device.
            priority: Priority in the queue for a device; greater ones go first, up to the tenant's
                limit.
            wait_s: Longest wait for such a device in seconds; None means no wait.
            exclusive: Whether the session excludes all others from the device.
            exclusive_s: Seconds after which an exclusive session ends, even while it works; None
                means the service's limit.
            accuracy: Error bound of every result: "direct", each by its own products, or "fast",
                which also allows Winograd's algorithm.
            documented_rules: Answer to a call that breaks a rule which only the vendor's page
                states: "error" rejects the call, "warn" accepts it and returns the broken rules as
                warnings.
            on_position: Called with the position in the queue when the wait begins, and then every
                5 s.

        Raises:
            AclrtError: 107001, the service has no such device; 207004, none is ready; 207005, none
                has capacity, or the tenant has too many sessions; 207014, too many requests wait;
                507046, the wait is over.
        """
        request = OpenSessionRequest(
            profile=text(profile, parameter="profile"),
            lease_s=_seconds_or_0(lease_s, parameter="lease_s"),
            workspace_limit_bytes=unsigned(
                workspace_limit_bytes, parameter="workspace_limit_bytes"
            ),
            tags=[text(tag, parameter="tags") for tag in tags],
            priority=unsigned(priority, parameter="priority", most=_LARGEST_PRIORITY),
            wait_s=_seconds_or_0(wait_s, parameter="wait_s"),
            exclusive=boolean(exclusive, parameter="exclusive"),
            exclusive_s=_seconds_or_0(exclusive_s, parameter="exclusive_s"),
            accuracy=choice(accuracy, ACCURACIES, parameter="accuracy"),
            documented_rules=choice(
                documented_rules, DOCUMENTED_RULES, parameter="documented_rules"
            ),
        )
        return runtime_async.awaitable_context(self._open_session(request, on_position))

    async def list_waiting(self) -> list[Waiting]:
        """Returns the caller's tenant's requests for a session that wait, in queue order."""
        return list((await self._connection.call(LIST_WAITING, ListWaitingRequest())).waiting)

    async def watch(self) -> AsyncGenerator[WatchedState]:
        """Yields what the caller may see of the service, then again after each change.

        Devices, the queue, sessions, runs, and the service itself, at most once a second. The
        service ends each watch after some minutes, and this method then watches again. The
        iteration ends with the service.

        Raises:
            AclrtError: 207012, the tenant has too many watches.
            ServiceUnreachable: The connection broke.
        """
        state = WatchedState()
        while True:
            number = 0
            async with aclosing(self._connection.watch(WATCH, WatchRequest())) as changes:
                async for news in changes:
                    state = state_after(state if number else WatchedState(), news.change)
                    number = news.id
                    yield state
            if not number:
                return

    async def get_series(self, *names: str, last_s: int | None = None) -> Series:
        """Returns the latest points of series, one a second, by device or profile.

        Args:
            names: Their names, such as "device_busy_share"; none means all that the caller may
                read.
            last_s: Seconds of the past, up to 600; None means 300.

        Raises:
            AclrtError: 100000, there is no such series, or not so many points; 207006, the key
                lacks the scope.
        """
        wanted = ",".join(text(name, parameter="names") for name in names)
        seconds_of_past = 0 if last_s is None else unsigned(last_s, parameter="last_s")
        request = GetSeriesRequest(name=wanted, last_s=seconds_of_past)
        return series_of(await self._connection.call(GET_SERIES, request))

    def resume_session(self, name: str) -> runtime_async.AwaitableContext[AsyncSession]:
        """Resumes a session within its lease, after a lost connection or in another process.

        The session keeps its objects, and new handles are greater than its last ones. The program
        that used the session before must not use it any more: both would choose the same handles.

        Args:
            name: Name of the session, a secret.

        Raises:
            AclrtError: 107017, the lease has ended, or there is no such session.
        """
        return runtime_async.awaitable_context(self._resume_session(name))

    async def close(self) -> None:
        """Closes the connections; open sessions end with their leases."""
        await self._services.close()

    async def _open_session(
        self, request: OpenSessionRequest, on_position: Callable[[Waiting], object] | None
    ) -> AsyncSession:
        opener = AsyncSessionOpener(self._services, request, on_position)
        connection, opened = await opener.open()
        return AsyncSession(connection, opened, last=Handles(), opener=opener)

    async def _resume_session(self, name: str) -> AsyncSession:
        request = GetSessionRequest(session=text(name, parameter="name"))
        connection, found = await self._services.call(GET_SESSION, request, at=self._services.home)
        last = Handles(
            buffer=found.last_buffer,
            executor=found.last_executor,
            stream=found.last_stream,
            event=found.last_event,
        )
        return AsyncSession(connection, found, last=last, opener=None)


def _seconds_or_0(value: float | None, *, parameter: str) -> float:
    return 0.0 if value is None else seconds(value, parameter=parameter)


def _transport_for(access: Access) -> AsyncTransport:
    # Here, as most of the time that an import of the client takes is that of such a library.
    if access.is_http:
        from opserve_client._async.transports.connect import AsyncConnectTransport  # noqa: PLC0415

        return AsyncConnectTransport(access.target, access=access)
    from opserve_client._async.transports.grpc import AsyncGrpcTransport  # noqa: PLC0415

    return AsyncGrpcTransport(access.target, access=access)
