"""The gRPC API: opserve's services, health and reflection on one server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as REFLECTION
from grpc_reflection.v1alpha.reflection import aio as reflection
from grpc_reflection.v1alpha.reflection_pb2_grpc import (
    add_ServerReflectionServicer_to_server,  # pyright: ignore[reportUnknownVariableType]  # no types
)

from opserve.v1 import (
    admin_service_pb2,
    command_service_pb2,
    conformance_service_pb2,
    event_service_pb2,
    memory_service_pb2,
    operator_service_pb2,
    session_service_pb2,
    stream_service_pb2,
    usage_service_pb2,
    watch_service_pb2,
)
from opserve.v1.admin_service_pb2_grpc import add_AdminServiceServicer_to_server
from opserve.v1.command_service_pb2_grpc import add_CommandServiceServicer_to_server
from opserve.v1.conformance_service_pb2_grpc import add_ConformanceServiceServicer_to_server
from opserve.v1.operator_service_pb2_grpc import add_OperatorServiceServicer_to_server
from opserve.v1.session_service_pb2_grpc import add_SessionServiceServicer_to_server
from opserve.v1.stream_service_pb2_grpc import add_StreamServiceServicer_to_server
from opserve.v1.usage_service_pb2_grpc import add_UsageServiceServicer_to_server
from opserve.v1.watch_service_pb2_grpc import add_WatchServiceServicer_to_server
from opserve_server.administration import Administration
from opserve_server.conformance.conformance import Conformance
from opserve_server.core.service import Service
from opserve_server.grpc_api.admin import admin_api
from opserve_server.grpc_api.bulk import bulk_handlers
from opserve_server.grpc_api.conformance import conformance_api
from opserve_server.grpc_api.convert import command_handlers
from opserve_server.grpc_api.health import Health
from opserve_server.grpc_api.methods import WrappingServer
from opserve_server.grpc_api.open_inference import SERVICE as OPEN_INFERENCE
from opserve_server.grpc_api.open_inference import add_open_inference
from opserve_server.grpc_api.servicers import (
    CommandServicer,
    OperatorServicer,
    SessionServicer,
    StreamServicer,
    UsageServicer,
)
from opserve_server.grpc_api.watches import WatchServicer
from opserve_server.guard import Guard
from opserve_server.inference.infer import Inference

_SERVICES: Sequence[tuple[Callable[[Any, Any], None], Callable[[Service], object]]] = (
    (add_SessionServiceServicer_to_server, SessionServicer),
    (add_OperatorServiceServicer_to_server, OperatorServicer),
    (add_StreamServiceServicer_to_server, StreamServicer),
    (add_CommandServiceServicer_to_server, CommandServicer),
    (add_UsageServiceServicer_to_server, UsageServicer),
    (add_WatchServiceServicer_to_server, WatchServicer),
)
_HEADER_BYTES = 8 * 2**10
"""Largest size of an upload message beside its chunk, bytes."""
_add_admin_to: Callable[[Any, Any], None] = add_AdminServiceServicer_to_server
_add_conformance_to: Callable[[Any, Any], None] = add_ConformanceServiceServicer_to_server
_FILES = (
    session_service_pb2,
    memory_service_pb2,
    operator_service_pb2,
    stream_service_pb2,
    event_service_pb2,
    command_service_pb2,
    usage_service_pb2,
    watch_service_pb2,
    admin_service_pb2,
    conformance_service_pb2,
)
SERVICES: Sequence[ServiceDescriptor] = [
    described for file in _FILES for described in file.DESCRIPTOR.services_by_name.values()
]
"""Opserve's own services."""


def grpc_server(  # noqa: PLR0913  # each limit by its name
    service: Service,
    guard: Guard,
    administration: Administration,
    conformance: Conformance,
    health: Health,
    *,
    inference: Inference,
    bounds: Sequence[tuple[str, int]] = (),
    message_bytes_limit: int,
    chunk_bytes_limit: int,
    silent_client_limit_s: float,
) -> grpc.aio.Server:
    """A server without a port, not started; `bounds` are channel arguments."""
    server = grpc.aio.server(
        options=[
            *_options(message_bytes_limit, silent_client_limit_s),
            *_windows(chunk_bytes_limit),
            *bounds,
        ]
    )
    wrapping = WrappingServer(server, guard, service.observe)
    add_services(
        wrapping, service, administration, conformance, chunk_bytes_limit=chunk_bytes_limit
    )
    add_open_inference(wrapping, inference)
    health.add_to(wrapping)
    ours = [described.full_name for described in (*SERVICES, OPEN_INFERENCE)]
    reflected = reflection.ReflectionServicer([*ours, HEALTH, REFLECTION])
    add_ServerReflectionServicer_to_server(reflected, wrapping)
    return server


class MethodServer(Protocol):
    """A server as generated code uses it."""

    def add_generic_rpc_handlers(self, handlers: Any, /) -> None:  # noqa: ANN401  # gRPC's
        """Adds handlers of any methods."""

    def add_registered_method_handlers(
        self, service: str, handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]", /
    ) -> None:
        """Adds the methods of a service; of a method that is added twice, the first counts."""


def add_services(
    server: MethodServer,
    service: Service,
    administration: Administration,
    conformance: Conformance,
    *,
    chunk_bytes_limit: int,
) -> None:
    """Adds the methods of opserve's services, SERVICES, to a server."""
    bulk = bulk_handlers(service, chunk_bytes_limit=chunk_bytes_limit)
    # Added before the generated methods of the same service: gRPC calls the first match.
    server.add_registered_method_handlers("opserve.v1.MemoryService", bulk)
    for name, handlers in command_handlers(service).items():
        server.add_registered_method_handlers(name, handlers)
    for add_to, api in _SERVICES:
        add_to(api(service), server)
    _add_admin_to(admin_api(administration), server)
    _add_conformance_to(conformance_api(service, conformance), server)


def _options(message_bytes_limit: int, silent_client_limit_s: float) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", message_bytes_limit),
        ("grpc.max_send_message_length", message_bytes_limit),
        # Two services on one port would split its connections and confuse the clients of both.
        ("grpc.so_reuseport", 0),
        # Pings detect a client that vanished silently, and end its connection.
        ("grpc.keepalive_time_ms", round(silent_client_limit_s * 1000 * 2 / 3)),
        ("grpc.keepalive_timeout_ms", round(silent_client_limit_s * 1000 / 3)),
        ("grpc.http2.ping_timeout_ms", round(silent_client_limit_s * 1000 / 3)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def _windows(chunk_bytes: int) -> list[tuple[str, int]]:
    """Unread bytes that a call may receive, beside the rest of an awaited message.

    Nothing else bounds the bytes after the message of a call. By its bandwidth estimate gRPC would
    raise the window to 8 MiB. A window of one chunk lets the next chunk travel while the service
    reads: 8.7 MB/s of an upload over a network of 50 ms, where 64 KiB allow 4.7 MB/s.
    """
    return [
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", chunk_bytes + _HEADER_BYTES),
    ]
