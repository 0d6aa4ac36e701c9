"""Conversion of REST errors to exceptions."""

import json
from dataclasses import dataclass
from typing import Any, cast, get_type_hints

import httpx2

from opserve_client.errors import (
    OPSERVE,
    OpserveError,
    QuotaMembers,
    error_for,
    malformed_answer,
    timed_out,
    unreachable,
)
from opserve_client.wire.connection_failures import explained

_GATEWAY_STATUSES = frozenset({502, 503, 504})


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


def from_response(status: int, body: bytes) -> OpserveError:
    """Returns the exception for a response with a status of 400 or more."""
    problem = _problem(body)
    if problem is None:
        message = f"HTTP {status}: {body[:200].decode(errors='replace')}"
        return unreachable(message) if status in _GATEWAY_STATUSES else malformed_answer(message)
    return error_for(
        problem.detail,
        code=problem.code,
        domain=problem.domain,
        executor=problem.executor,
        quota=None
        if problem.retry_after_s is None
        else QuotaMembers(problem.limit, problem.use, problem.retry_after_s),
        name=problem.reason,
        parameter=problem.parameter,
        given=problem.given,
        allowed=problem.allowed,
        request_id=problem.request_id,
        ended=problem.ended,
    )


def _problem(body: bytes) -> Problem | None:
    """Parses a problem; returns None for the body of another program, such as a proxy."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
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


def from_transport_error(error: httpx2.TransportError, *, address: str) -> OpserveError:
    """Returns the exception for a failed connection or a missing answer."""
    failure = f"{type(error).__name__}: {error}"
    if isinstance(error, httpx2.TimeoutException) and not isinstance(error, httpx2.ConnectTimeout):
        return timed_out(f"{address}: {failure}")
    return unreachable(explained(address, failure))
