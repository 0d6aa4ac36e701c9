"""Conversion of sessions and session requests."""

from collections.abc import Sequence
from typing import Any

from opserve.v1.session_service_pb2 import (
    Device,
    FarmService,
    GetSessionResponse,
    OpenSessionRequest,
    OpenSessionResponse,
    Waiting,
)
from opserve_server.core.info import (
    DeviceInfo,
    FoundSession,
    OpenedSession,
    ServiceAddress,
    WaitingInfo,
)
from opserve_server.core.session_request import SessionRequest
from opserve_server.grpc_api.convert import values_of


def session_request_of(message: OpenSessionRequest) -> SessionRequest:
    """The session request in a message."""
    return SessionRequest(
        profile=message.profile,
        tags=tuple(message.tags),
        lease_s=message.lease_s,
        workspace_limit_bytes=message.workspace_limit_bytes,
        priority=message.priority,
        wait_s=message.wait_s,
        exclusive=message.exclusive,
        exclusive_s=message.exclusive_s,
        accuracy=message.accuracy,
        documented_rules=message.documented_rules,
        here=message.here,
    )


def device_of(info: DeviceInfo) -> Device:
    """A device as a message."""
    return Device(**values_of(info))


def waiting_of(info: WaitingInfo) -> Waiting:
    """A waiting request as a message."""
    return Waiting(**values_of(info))


def opened_of(opened: OpenedSession) -> OpenSessionResponse:
    """A new session as a message."""
    return OpenSessionResponse(**_with_device(opened))


def found_of(found: FoundSession) -> GetSessionResponse:
    """An open session as a message."""
    return GetSessionResponse(**_with_device(found))


def services_of(services: Sequence[ServiceAddress]) -> list[FarmService]:
    """The messages of services of a farm."""
    return [FarmService(**values_of(service)) for service in services]


def _with_device(session: OpenedSession) -> dict[str, Any]:
    own = {"device": device_of(session.device), "services": services_of(session.services)}
    return values_of(session) | own
