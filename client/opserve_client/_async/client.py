"""The client: a connection to a service, over gRPC or REST."""

from collections.abc import Callable, Sequence
from typing import Self

from opserve.v1.operator_description_pb2 import OperatorDescription
from opserve.v1.operator_service_pb2 import ListOperatorsRequest
from opserve.v1.session_service_pb2 import (
    Device,
    GetSessionRequest,
    ListDevicesRequest,
    ListWaitingRequest,
    OpenSessionRequest,
    Waiting,
)
from opserve.v1.usage_service_pb2 import GetUsageRequest, GetUsageResponse
from opserve_client import runtime_async
from opserve_client._async.admin import AsyncAdmin
from opserve_client._async.conformance import AsyncConformance
from opserve_client._async.connection import AsyncConnection
from opserve_client._async.opener import AsyncOpener
from opserve_client._async.session import AsyncSession
from opserve_client._async.transports.base import AsyncTransport
from opserve_client.access import Access, TlsFiles, access_to
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
from opserve_client.handles import Handles
from opserve_client.recovery import RECOVERY_S
from opserve_client.wire.methods import (
    GET_SESSION,
    GET_USAGE,
    LIST_DEVICES,
    LIST_OPERATORS,
    LIST_WAITING,
)

DEFAULT_ADDRESS = "127.0.0.1:50051"
_LARGEST_PRIORITY = 2**31 - 1


class AsyncClient:
    """A connection to a service; a context manager, which closes it.

    Args:
        address: "127.0.0.1:50051" or "grpc://..." speaks gRPC, "http://..." speaks REST;
            "grpcs://..." and "https://..." the same under TLS.
        api_key: Says who calls; None means that of the variable OPSERVE_API_KEY, if there is one.
        tls: Files of TLS, where those of the system do not do.
        allow_plaintext: Whether a key may travel without TLS to another machine; None means that
            of the variable OPSERVE_ALLOW_PLAINTEXT, by default no.
        timeout_s: Longest that one call may take, seconds. The default is above the longest wait
            of a service, 300 s; bulk bytes get a second more for each MiB.
        recovery_s: Longest that `session.run` on arrays goes on while the service is away or is
            restarted, seconds of pauses between attempts; None raises the first failure.
        transport: Another way to the service, instead of the address.
        sleep: Waits between attempts, seconds.

    Attributes:
        admin: Tenants, keys, usage and audit, for whoever has the scope admin.
        conformance: Cases, what must come of them, and verdicts on outputs of others.
    """

    def __init__(  # noqa: PLR0913  # each by name
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        api_key: str | None = None,
        tls: TlsFiles | None = None,
        allow_plaintext: bool | None = None,
        timeout_s: float = 330.0,
        recovery_s: float | None = RECOVERY_S,
        transport: AsyncTransport | None = None,
        sleep: runtime_async.Sleep = runtime_async.sleep,
    ) -> None:
        where = text(address, parameter="address")
        if transport is None:
            transport = _transport_for(
                access_to(where, api_key=api_key, tls=tls, allow_plaintext=allow_plaintext)
            )
        self._connection = AsyncConnection(
            transport,
            timeout_s=seconds(timeout_s, parameter="timeout_s"),
            recovery_s=_seconds_or_0(recovery_s, parameter="recovery_s"),
            sleep=sleep,
        )
        self.admin = AsyncAdmin(self._connection)
        self.conformance = AsyncConformance(self._connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def list_devices(self) -> list[Device]:
        """The devices of the service."""
        return list((await self._connection.call(LIST_DEVICES, ListDevicesRequest())).devices)

    async def get_usage(self) -> GetUsageResponse:
        """What the caller's tenant uses now of each resource, and how much it may."""
        return await self._connection.call(GET_USAGE, GetUsageRequest())

    async def list_operators(self, name: str = "") -> list[OperatorDescription]:
        """Every operator, or one: its arguments, dtypes by profile, limits and errors.

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
    ) -> runtime_async.Opening[AsyncSession]:
        """Leases a device; a context manager, which closes the session.

        Args:
            profile: What the device stands for, as opserve or as the vendor names it:
                "ascend910b", "Ascend910B1" or "Atlas A2 training".
            lease_s: Seconds without a sign of life after which the service closes the session;
                None means the service's default. A heartbeat keeps the lease meanwhile.
            workspace_limit_bytes: Bytes of workspace that a call is to need at most, by a slower
                algorithm if one needs less, else as few as there can be; 0 means no limit.
            tags: What the device must have, all of them; `list_devices` tells what there is.
            priority: How far ahead this waits, up to the limit of the tenant.
            wait_s: Longest wait for such a device, seconds; None means no wait.
            exclusive: Whether nobody else may have a session on the device meanwhile.
            exclusive_s: Seconds after which an exclusive session ends, whatever it does; None means
                the service's limit.
            accuracy: Error bound of every result: "direct", each by its own products, or "fast",
                which also allows Winograd's algorithm.
            documented_rules: Answer to a call that breaks a rule which only the vendor's page
                states: "error" rejects the call, "warn" accepts it and returns the broken rules as
                warnings.
            on_position: Told of the place in the line when the wait begins, and every few seconds.

        Raises:
            AclrtError: 107001, the service has no such device; 207004, none is ready; 207005, none
                has room, or the tenant has too many sessions; 207014, too many wait; 507046, the
                wait is over.
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
        # A service of the release before these fields rejects them over REST: defaults stay unsaid.
        if accuracy == "direct":
            request.ClearField("accuracy")
        if documented_rules == "error":
            request.ClearField("documented_rules")
        return runtime_async.opening(self._open_session(request, on_position))

    async def list_waiting(self) -> list[Waiting]:
        """The requests of the caller's tenant that wait for a device, in their order."""
        return list((await self._connection.call(LIST_WAITING, ListWaitingRequest())).waiting)

    def resume_session(self, name: str) -> runtime_async.Opening[AsyncSession]:
        """Goes on with a session within its lease, after a break or in another process.

        What it holds is there, and new handles go on above its last ones. Whoever had it before
        must not go on with it too.

        Args:
            name: The session's secret name.

        Raises:
            AclrtError: 107017, its lease has ended, or there is no such session.
        """
        return runtime_async.opening(self._resume_session(name))

    async def close(self) -> None:
        """Ends the connection, once; sessions that are open end with their lease."""
        await self._connection.close()

    async def _open_session(
        self, request: OpenSessionRequest, on_position: Callable[[Waiting], object] | None
    ) -> AsyncSession:
        opener = AsyncOpener(self._connection, request, on_position)
        return AsyncSession(self._connection, await opener.open(), last=Handles(), opener=opener)

    async def _resume_session(self, name: str) -> AsyncSession:
        request = GetSessionRequest(session=text(name, parameter="name"))
        found = await self._connection.call(GET_SESSION, request)
        last = Handles(
            buffer=found.last_buffer,
            executor=found.last_executor,
            stream=found.last_stream,
            event=found.last_event,
        )
        return AsyncSession(self._connection, found, last=last, opener=None)


def _seconds_or_0(value: float | None, *, parameter: str) -> float:
    return 0.0 if value is None else seconds(value, parameter=parameter)


def _transport_for(access: Access) -> AsyncTransport:
    # Here, as most of the time that an import of the client takes is that of such a library.
    if access.is_rest:
        from opserve_client._async.transports.rest import AsyncRestTransport  # noqa: PLC0415

        return AsyncRestTransport(access.target, access=access)
    from opserve_client._async.transports.grpc import AsyncGrpcTransport  # noqa: PLC0415

    return AsyncGrpcTransport(access.target, access=access)
