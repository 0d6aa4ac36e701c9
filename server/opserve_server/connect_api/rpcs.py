"""The RPCs of the Connect API, made from the handlers of the gRPC API."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from starlette.types import ASGIApp

from opserve_server.administration import Administration
from opserve_server.conformance.conformance import Conformance
from opserve_server.connect_api.calls import Method, serve_stream, serve_unary
from opserve_server.connect_api.errors import (
    UNARY_ERRORS,
    UnsupportedMediaType,
    stream_errors,
    stream_needed,
)
from opserve_server.connect_api.json_messages import json_of, read_json
from opserve_server.core.errors import OpserveError, unraised
from opserve_server.core.principal import Scope
from opserve_server.core.service import Service
from opserve_server.grpc_api.methods import message_in
from opserve_server.grpc_api.scopes import SCOPES
from opserve_server.grpc_api.server import SERVICES, add_services
from opserve_server.rest_api.endpoints import Endpoint, ErrorForm, Rpc

INSTEAD: Mapping[str, str] = {
    "Write": "PUT /v1/sessions/{session}/buffers/{buffer}/content",
    "Verify": "POST /v1/conformance/suites/{suite}/cases/{case}:verify",
    "ReportRun": "POST /v1/conformance/runs:report",
}
"""REST routes in place of the RPCs that stream their requests."""
_PROTO, _JSON = "proto", "json"
_UNARY, _STREAM = "application/", "application/connect+"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


def connect_rpcs(
    service: Service,
    administration: Administration,
    conformance: Conformance,
    *,
    message_bytes_limit: int,
    chunk_bytes_limit: int,
) -> Mapping[str, Rpc]:
    """The RPCs by path.

    Args:
        service: The core.
        administration: The administration calls.
        conformance: The conformance calls.
        message_bytes_limit: Maximum size of a message, bytes.
        chunk_bytes_limit: Maximum size of a chunk of uploaded bytes, for the gRPC API only.
    """
    methods = _Methods()
    add_services(methods, service, administration, conformance, chunk_bytes_limit=chunk_bytes_limit)
    return {
        f"/{described.full_name}/{rpc.name}": _rpc(
            rpc,
            methods.handlers[described.full_name, rpc.name],
            SCOPES[described.full_name],
            message_bytes_limit,
        )
        for described in SERVICES
        for rpc in described.methods
    }


class _Methods:
    """A server to which generated code adds services, for their handlers alone.

    Attributes:
        handlers: The handlers, by service and name.
    """

    def __init__(self) -> None:
        self.handlers: dict[tuple[str, str], Handler] = {}

    def add_generic_rpc_handlers(self, _: object) -> None:
        """Does nothing: add_registered_method_handlers gets the same methods."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Adds the methods of a service; of a method that is added twice, the first counts."""
        for name, handler in handlers.items():
            self.handlers.setdefault((service, name), handler)


def _rpc(rpc: MethodDescriptor, handler: Handler, scope: Scope | None, limit: int) -> Rpc:
    """The endpoints of an RPC by media type; an unknown media type has one too."""

    def endpoint(app: ASGIApp, errors: ErrorForm = UNARY_ERRORS) -> Endpoint:
        return Endpoint(api="connect", name=rpc.name, scope=scope, app=app, errors=errors)

    endpoints: dict[str, Endpoint] = {}
    if rpc.client_streaming:
        app = _refusing(stream_needed(rpc.name, instead=INSTEAD[rpc.name]))
        for form in (_PROTO, _JSON):
            media_type = f"{_STREAM}{form}"
            endpoints[media_type] = endpoint(app, stream_errors(media_type))
            endpoints[f"{_UNARY}{form}"] = endpoint(app)
    else:
        for method in _methods(rpc, handler, limit):
            streams = rpc.server_streaming
            errors = stream_errors(method.media_type) if streams else UNARY_ERRORS
            serve = partial(serve_stream if streams else serve_unary, method)
            endpoints[method.media_type] = endpoint(serve, errors)
    accepted = ", ".join(endpoints)

    def found(content_type: str) -> Endpoint:
        media_type = content_type.partition(";")[0].strip().lower()
        known = endpoints.get(media_type)
        if known is not None:
            return known
        return endpoint(_refusing(UnsupportedMediaType(media_type, accepted=accepted)))

    return found


def _methods(rpc: MethodDescriptor, handler: Handler, limit: int) -> tuple[Method, Method]:
    """An RPC in protobuf and in JSON."""
    prefix = _STREAM if rpc.server_streaming else _UNARY
    behaviour: Any = handler.unary_stream if rpc.server_streaming else handler.unary_unary
    request, answer = GetMessageClass(rpc.input_type), GetMessageClass(rpc.output_type)
    serialize = handler.response_serializer
    assert behaviour is not None, "each kind of RPC has its own handler"
    assert serialize is not None, "generated code has one for every method"

    async def protobuf_of(made: Any) -> bytes:  # noqa: ANN401  # as the handler made it
        return serialize(made)

    async def in_json(made: Any) -> bytes:  # noqa: ANN401  # as the handler made it
        return await json_of(made if isinstance(made, Message) else answer.FromString(made))

    protobuf = Method(
        behaviour=behaviour,
        read=partial(message_in, rpc.input_type, request.FromString),
        write=protobuf_of,
        media_type=f"{prefix}{_PROTO}",
        message_bytes_limit=limit,
    )
    json = Method(
        behaviour=behaviour,
        read=partial(read_json, rpc.input_type, request),
        write=in_json,
        media_type=f"{prefix}{_JSON}",
        message_bytes_limit=limit,
    )
    return protobuf, json


def _refusing(error: OpserveError) -> ASGIApp:
    """Rejects every call."""

    async def refuse(*_: object) -> NoReturn:
        raise unraised(error)

    return refuse
