"""Conversion of failed HTTP requests to exceptions: Connect's errors, and problems of REST routes.

Connect: https://connectrpc.com/docs/protocol#error-end-stream; REST: RFC 9457.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any, cast, get_type_hints

from google.protobuf.message import DecodeError
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  they are not marked typed
    error_details_pb2,
)

from opserve_client.errors import (
    OPSERVE,
    MovedMembers,
    OpserveError,
    QuotaMembers,
    error_for,
    malformed_answer,
    timed_out,
    unreachable,
)
from opserve_client.wire.connection_failures import explained
from opserve_client.wire.error_info import from_info
from opserve_client.wire.http_messages import HttpFailure

_GATEWAY_STATUSES = frozenset({502, 503, 504})
_NOT_FOUND = frozenset({404, 405})
_ERROR_INFO = "google.rpc.ErrorInfo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An application/problem+json body (RFC 9457) with the members of opserve."""

    detail: str
    code: int
    reason: str
    domain: str = OPSERVE
    parameter: str = ""
    given: str = ""
    allowed: str = ""
    request_id: str = ""
    ended: str = ""
    executor: int = 0
    limit: int | float = 0.0
    use: int | float = 0.0
    retry_after_s: int | float | None = None
    service: str = ""
    grpc_address: str = ""
    http_address: str = ""


def from_failure(failure: HttpFailure, *, call: str, address: str) -> OpserveError:
    """Returns the exception for a call without a complete answer."""
    if failure.late:
        return timed_out(f"{address}: {call}: {failure}")
    return unreachable(explained(address, f"{failure}"))


def from_connect(status: int, body: bytes, *, address: str) -> OpserveError:
    """Returns the exception for an RPC's answer with another status than 200."""
    return _from_connect(_object_in(body)) or _from_another(status, body, address=address)


def from_end(members: object, *, address: str) -> OpserveError | None:
    """Returns the exception for the last message of a stream, or None if the stream succeeded."""
    if not isinstance(members, dict):
        return malformed_answer(f"{address}: the last message of a stream is malformed")
    if "error" not in members:
        return None
    error = cast("dict[str, object]", members)["error"]
    return _from_connect(error) or malformed_answer(f"{address}: {error}")


def from_route(status: int, body: bytes, *, address: str) -> OpserveError:
    """Returns the exception for an answer of a REST route with a status of 400 or more."""
    problem = _problem(_object_in(body))
    if problem is None:
        return _from_another(status, body, address=address)
    return error_for(
        problem.detail,
        code=problem.code,
        domain=problem.domain,
        executor=problem.executor,
        quota=None
        if problem.retry_after_s is None
        else QuotaMembers(problem.limit, problem.use, problem.retry_after_s),
        moved=MovedMembers(problem.service, problem.grpc_address, problem.http_address)
        if problem.http_address
        else None,
        name=problem.reason,
        parameter=problem.parameter,
        given=problem.given,
        allowed=problem.allowed,
        request_id=problem.request_id,
        ended=problem.ended,
    )


def _from_another(status: int, body: bytes, *, address: str) -> OpserveError:
    """Returns the exception for an answer of another program, or of an older service."""
    shown = f"(HTTP {status}: {body[:200].decode(errors='replace')})"
    if status in _GATEWAY_STATUSES:
        return unreachable(f"{address}: a program between client and service failed {shown}")
    if status in _NOT_FOUND:
        return malformed_answer(
            f"{address} does not serve Connect. Is a path in the address wrong? A service before "
            f"0.3 does not: use the address of its gRPC API {shown}"
        )
    return malformed_answer(f"{address}: the answer is malformed {shown}")


def _from_connect(error: object) -> OpserveError | None:
    """Returns the exception for an error in Connect's form; None for another program's."""
    try:
        members = cast("dict[str, Any]", error)
        message = str(members["message"])
        (packed,) = (one["value"] for one in members["details"] if one["type"] == _ERROR_INFO)
        info = error_details_pb2.ErrorInfo.FromString(base64.b64decode(f"{packed}=="))
        return from_info(message, info)
    except (DecodeError, KeyError, TypeError, ValueError):
        return None


def _problem(value: object) -> Problem | None:
    """Parses a problem; returns None for the body of another program, such as a proxy."""
    if not isinstance(value, dict):
        return None
    members = cast("dict[str, Any]", value)
    types = get_type_hints(Problem)
    known = {name: members[name] for name in types if name in members}
    if any(not isinstance(value, types[name]) for name, value in known.items()):
        return None
    try:
        return Problem(**known)
    except TypeError:  # a member is missing
        return None


def _object_in(body: bytes) -> object:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found
