"""Errors in the form of the Connect protocol, from the table of the gRPC API."""

import base64
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import pydantic_core
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from grpc import StatusCode
from starlette.responses import Response

from opserve_kernels.errors import VALUE_CHARACTERS, shortened
from opserve_kernels.status import Status
from opserve_server.calls import note_failure
from opserve_server.connect_api.envelopes import end_of_stream
from opserve_server.core.errors import InvalidArgument, NotSupported, OpserveError, WaitTimedOut
from opserve_server.core.observations import CALL
from opserve_server.grpc_api.errors import details_of, row_of
from opserve_server.rest_api.endpoints import ErrorForm
from opserve_server.rest_api.errors import headers_of

JSON = "application/json"
IDENTITY = "identity"
"""The only compression, which is none."""
_STATUSES: Mapping[StatusCode, HTTPStatus] = {
    StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    StatusCode.UNIMPLEMENTED: HTTPStatus.NOT_IMPLEMENTED,
    StatusCode.FAILED_PRECONDITION: HTTPStatus.BAD_REQUEST,
    StatusCode.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    StatusCode.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
    StatusCode.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    StatusCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    StatusCode.DATA_LOSS: HTTPStatus.INTERNAL_SERVER_ERROR,
    StatusCode.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
    StatusCode.ABORTED: HTTPStatus.CONFLICT,
}
"""https://connectrpc.com/docs/protocol#error-codes."""


class UnsupportedMediaType(InvalidArgument):
    """A body in a form that the RPC does not accept (100000).

    Attributes:
        accepted: The accepted media types.
    """

    def __init__(self, given: str, *, accepted: str) -> None:
        super().__init__(
            Status.ACL_ERROR_INVALID_PARAM,
            parameter="Content-Type",
            given=given,
            allowed=accepted,
        )
        self.accepted = accepted


class UnsupportedCompression(NotSupported):
    """A compressed body (200001)."""

    def __init__(self, header: str, *, given: str) -> None:
        super().__init__(
            Status.ACL_ERROR_API_NOT_SUPPORT,
            f"{header} does not accept {shortened(given, VALUE_CHARACTERS)}: send messages "
            "uncompressed.",
            parameter=header,
            given=given,
            allowed=IDENTITY,
        )
        self.accept = header.lower().replace("content", "accept")


def stream_needed(name: str, *, instead: str) -> NotSupported:
    """Rejects a call of an RPC that streams its requests (200001)."""
    allowed = f"over HTTP {instead}, or the gRPC API"
    return NotSupported(
        Status.ACL_ERROR_API_NOT_SUPPORT,
        f"{name} streams its requests, which the Connect API does not support: use {instead}, or "
        "the gRPC API.",
        parameter=name,
        given="an RPC that streams its requests",
        allowed=allowed,
    )


def too_late(header: str, *, limit_ms: int) -> WaitTimedOut:
    """Rejects a call that has not ended at its deadline (107020)."""
    return WaitTimedOut(
        Status.ACL_ERROR_RT_TASK_TIMEOUT,
        f"The call did not end within {limit_ms} ms, its {header}: allow it more time.",
        parameter=header,
        given=limit_ms,
        allowed="a longer time",
    )


def _refusal(error: OpserveError, *, path: str, request_id: str) -> Response:
    del path  # the details have no member for it
    headers = headers_of(error)
    status = _STATUSES[row_of(error).code]
    if isinstance(error, UnsupportedMediaType):
        status, headers["Accept-Post"] = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, error.accepted
    if isinstance(error, UnsupportedCompression):
        headers[error.accept] = IDENTITY
    body = pydantic_core.to_json(_noted(error, request_id))
    return Response(body, status, headers, media_type=JSON)


def _stream_refusal(
    media_type: str, error: OpserveError, *, path: str, request_id: str
) -> Response:
    del path
    headers = headers_of(error)
    if isinstance(error, UnsupportedCompression):
        headers[error.accept] = IDENTITY
    return Response(_ending(error, request_id=request_id), headers=headers, media_type=media_type)


def _ending(error: OpserveError, *, request_id: str) -> bytes:
    return end_of_stream({"error": _noted(error, request_id)})


def _noted(error: OpserveError, request_id: str) -> dict[str, Any]:
    """The error as an object; records it as the outcome of the call."""
    note_failure(error)
    code, call = row_of(error).code.name.lower(), CALL.get()
    assert call is not None, "errors are those of calls"
    call.outcome = code
    details = [_detail(one) for one in details_of(error, request_id=request_id)]
    return {"code": code, "message": shortened(error.message), "details": details}


def _detail(message: Message) -> dict[str, Any]:
    value = base64.b64encode(message.SerializeToString()).rstrip(b"=").decode()
    name = message.DESCRIPTOR.full_name
    return {"type": name, "value": value, "debug": MessageToDict(message)}


UNARY_ERRORS = ErrorForm(refusal=_refusal)


def stream_errors(media_type: str) -> ErrorForm:
    """Form of the errors of a server stream: HTTP status 200, and the error in its last message."""
    return ErrorForm(refusal=partial(_stream_refusal, media_type), ending=_ending)
