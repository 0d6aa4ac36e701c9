"""Errors as REST answers: one table, one form (RFC 9457 problem+json)."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import ErrorDetails
from starlette.responses import Response

from opserve_kernels.errors import shortened
from opserve_server.allowed_values import allowed
from opserve_server.calls import (
    end_of,
    malformed,
    moved_members,
    note_failure,
    quota_members,
    retry_after_s,
)
from opserve_server.core.errors import (
    CallTooLarge,
    DataCorrupted,
    DeadlineMissed,
    ExecutionAborted,
    ExecutionFailed,
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    Moved,
    NotAllowed,
    NotSupported,
    OpserveError,
    OutOfMemory,
    PermissionDenied,
    QuotaExceeded,
    StoreUnavailable,
    TooManyUnknownKeys,
    Unauthenticated,
    Unavailable,
    WaitTimedOut,
    WrongState,
)

PROBLEM_JSON = "application/problem+json"
_OPEN_INFERENCE = "/v2"


class RangeNotSatisfiable(InvalidArgument):
    """A Range header requests bytes that the buffer does not have."""


@dataclass(frozen=True, slots=True)
class Row:
    """REST form of one class of errors: its status and headers.

    Attributes:
        status: The HTTP status.
        retry: Whether a retry may succeed, and when.
        scheme: Authentication scheme for the caller.
    """

    status: HTTPStatus
    retry: bool = False
    scheme: str = ""


ERRORS: Mapping[type[OpserveError], Row] = {
    InvalidArgument: Row(HTTPStatus.BAD_REQUEST),
    RangeNotSatisfiable: Row(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE),
    HandleNotFound: Row(HTTPStatus.NOT_FOUND),
    NotSupported: Row(HTTPStatus.NOT_IMPLEMENTED),
    WrongState: Row(HTTPStatus.CONFLICT),
    OutOfMemory: Row(HTTPStatus.INSUFFICIENT_STORAGE),
    LimitExceeded: Row(HTTPStatus.TOO_MANY_REQUESTS, retry=True),
    QuotaExceeded: Row(HTTPStatus.TOO_MANY_REQUESTS, retry=True),
    TooManyUnknownKeys: Row(HTTPStatus.TOO_MANY_REQUESTS, retry=True),
    CallTooLarge: Row(HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    WaitTimedOut: Row(HTTPStatus.GATEWAY_TIMEOUT),
    NotAllowed: Row(HTTPStatus.FORBIDDEN),
    PermissionDenied: Row(HTTPStatus.FORBIDDEN),
    Unauthenticated: Row(HTTPStatus.UNAUTHORIZED, scheme="Bearer"),
    Unavailable: Row(HTTPStatus.SERVICE_UNAVAILABLE, retry=True),
    StoreUnavailable: Row(HTTPStatus.SERVICE_UNAVAILABLE, retry=True),
    Moved: Row(HTTPStatus.MISDIRECTED_REQUEST),
    DataCorrupted: Row(HTTPStatus.BAD_REQUEST),
    ExecutionFailed: Row(HTTPStatus.INTERNAL_SERVER_ERROR),
    ExecutionAborted: Row(HTTPStatus.CONFLICT),
    DeadlineMissed: Row(HTTPStatus.GATEWAY_TIMEOUT),
    OpserveError: Row(HTTPStatus.INTERNAL_SERVER_ERROR),
}


class Problem(BaseModel):
    """An error (RFC 9457), with the vendor's code and the given and allowed values."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str = "about:blank"
    """Always about:blank: `reason` names the kind of problem."""
    title: str
    """The HTTP status in words."""
    status: int
    """The HTTP status."""
    detail: str
    """The error as one sentence, with its remedy."""
    instance: str
    """Path of the request."""
    code: int
    """The vendor's code, such as 161002; of the TBE DSL 60011 for E60011."""
    reason: str
    """The vendor's name of the code, such as ACLNN_ERR_PARAM_INVALID or E60011."""
    domain: str
    """The family of the code: opserve (aclnn and aclrt), opserve.tbe or opserve.ft_dsp."""
    parameter: str
    """The parameter at fault, or empty."""
    given: str
    """The given value, or empty."""
    allowed: str
    """The allowed values, or empty."""
    request_id: str
    """Id of this call in the service's log."""
    error: str | None = None
    """The detail again, below /v2 alone, where clients of the Open Inference Protocol read it."""
    executor: int | None = None
    """The executor that failed, where one did."""
    ended: str | None = None
    """Reason why the session was ended; absent where its client may reopen it, as after a
    restart."""
    service: str | None = None
    """Service of the farm that has the session, or room for it; the next two are its addresses."""
    grpc_address: str | None = None
    """Address of its gRPC API."""
    http_address: str | None = None
    """URL of its HTTP port."""
    limit: float | None = None
    """Limit of the tenant's quota for the resource in `parameter`, where the quota rejected the
    call."""
    use: float | None = None
    """Use of that resource at the time."""
    retry_after_s: float | None = None
    """Seconds after which a retry may succeed; Retry-After has whole seconds."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Errors with these statuses, for a route's entry in the document."""
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        int(status): {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted(statuses)
    }


def refusal(error: OpserveError, *, path: str, request_id: str) -> Response:
    """The answer to a call that failed."""
    note_failure(error)
    return _answer(error, row_of(error), path=path, request_id=request_id)


def not_routed(method: str, path: str, *, methods: Collection[str], request_id: str) -> Response:
    """The answer for an unknown path, or a method that it does not have."""
    allowed = "a method and path of /openapi.json, or POST and the path of an RPC"
    found = malformed("path", given=f"{method} {path}", allowed=allowed)
    row = Row(HTTPStatus.METHOD_NOT_ALLOWED if methods else HTTPStatus.NOT_FOUND)
    answer = _answer(found, row, path=path, request_id=request_id)
    if methods:
        answer.headers["Allow"] = ", ".join(sorted(methods))
    return answer


def wrong_form(
    errors: list[ErrorDetails], model: type[BaseModel], *, inside: str = ""
) -> InvalidArgument:
    """The first violation of a document's schema (100000)."""
    first = errors[0]
    path = ".".join([*filter(None, [inside]), *map(str, first["loc"])])
    given = shortened(_given(first))
    return malformed(path or "body", given=given, allowed=allowed(first, model))


def row_of(error: OpserveError) -> Row:
    """The row of an error's class, or of its nearest base class."""
    return next(ERRORS[base] for base in type(error).__mro__ if base in ERRORS)


def _answer(error: OpserveError, row: Row, *, path: str, request_id: str) -> Response:
    problem = Problem(
        title=row.status.phrase,
        status=row.status.value,
        detail=shortened(error.message),
        instance=shortened(path),
        code=error.status.value,
        reason=error.status.name,
        domain=error.status.domain,
        parameter=shortened(error.parameter),
        given=shortened(error.given),
        allowed=shortened(error.allowed),
        request_id=request_id,
        error=shortened(error.message) if path.startswith(_OPEN_INFERENCE) else None,
        executor=error.executor if isinstance(error, ExecutionFailed) else None,
        ended=end_of(error) or None,
        **quota_members(error),
        **moved_members(error),
    )
    return Response(
        problem.model_dump_json(exclude_none=True),
        status_code=row.status.value,
        headers=headers_of(error),
        media_type=PROBLEM_JSON,
    )


def headers_of(error: OpserveError) -> dict[str, str]:
    """The headers of an answer to a call that failed."""
    row = row_of(error)
    retry = str(ceil(retry_after_s(error))) if row.retry else ""
    headers = {"Retry-After": retry, "WWW-Authenticate": row.scheme}
    return {name: value for name, value in headers.items() if value}


def _given(error: ErrorDetails) -> str:
    if error["type"] == "json_invalid":
        return "text that is not JSON"
    if error["type"] == "missing":
        return "nothing"
    return json.dumps(error["input"], default=lambda value: type(value).__name__)
