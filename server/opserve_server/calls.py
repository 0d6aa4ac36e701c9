"""Steps common to both APIs: call ids, texts, unexpected errors, closing of sessions."""

import logging
import re
import time
from secrets import token_hex
from traceback import clear_frames
from typing import TypedDict

from opserve_kernels.status import Status
from opserve_server.core.accounts import RETRY_AFTER_S
from opserve_server.core.errors import (
    CallTooLarge,
    HandleNotFound,
    InvalidArgument,
    Moved,
    NotAllowed,
    OpserveError,
    QuotaExceeded,
    TooManyUnknownKeys,
    Unauthenticated,
)
from opserve_server.core.observations import CALL, Call, CallBegan, CallEnded, Observe
from opserve_server.core.principal import Principal
from opserve_server.core.service import Service

_WELL_FORMED_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
VALUES_LIMIT = 1024
"""Numbers in one list on either wire. No shape has more than 8, but a message has space for
millions, which would be parsed before any check could reject them."""
MEMBERS_LIMIT = 20_000
"""Objects in one list, for the same reason; the largest suite has 16,159 cases."""
log = logging.getLogger(__name__)


def call_id(given: str | bytes | None) -> str:
    """The caller's own id where it is well formed, else a new one."""
    if isinstance(given, str) and _WELL_FORMED_ID.fullmatch(given):
        return given
    return token_hex(16)


class ObservedCall:
    """Runs the block in the context of a call; reports its begin and end.

    Args:
        call: The call.
        observe: Observer.
    """

    __slots__ = ("_began_s", "_call", "_observe", "_token")  # not @contextmanager, which is slow

    def __init__(self, call: Call, observe: Observe) -> None:
        self._call = call
        self._observe = observe

    def __enter__(self) -> None:
        self._token = CALL.set(self._call)
        self._began_s = time.perf_counter()
        self._observe(CallBegan(self._call))

    def __exit__(self, *_: object) -> None:
        call = self._call
        self._observe(CallEnded(call, time.perf_counter() - self._began_s))
        call.headers = {}  # queued work and kept answers keep the call alive for longer
        CALL.reset(self._token)


def caller() -> Principal:
    """The authenticated caller of the current call.

    Raises:
        Unauthenticated: There is no call, or the guard has not checked it.
    """
    call = CALL.get()
    if call is None or call.principal is None:
        raise Unauthenticated("the guard has not checked this call")
    return call.principal


async def close_session(service: Service, session: str) -> None:
    """Closes a session of the caller; only a call that finds none counts towards the call rate.

    So a tenant above its rate can clean up. A session is closed once: such calls are no more than
    those that opened the sessions.

    Raises:
        HandleNotFound: 107017, there is no such session.
        QuotaExceeded: The same, and the tenant has made too many calls in a second.
    """
    principal = caller()
    account = service.accounts.of(principal.tenant)
    try:
        await service.close_session(principal, session)
    except HandleNotFound:
        account.admit_call()
        raise
    account.calls += 1


def note_failure(error: OpserveError) -> None:
    """Records an error as the failure of the current call, and releases what its frames hold."""
    _release_frames(error)
    call = CALL.get()
    if call is None:
        return
    call.failure = error.message
    match error:
        case NotAllowed():
            call.audited = error.reason
            call.principal = error.principal
        case TooManyUnknownKeys():
            call.audited = error.reason
        case QuotaExceeded():
            call.audited = f"the quota of {error.parameter}"
        case _:
            pass


def _release_frames(error: BaseException | None) -> None:
    """Clears the frames of an error and of its causes.

    The error and its frames are a cycle, which would keep messages until a garbage collection.
    """
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__context__


def retry_after_s(error: OpserveError) -> float:
    """Seconds after which a call that was rejected for lack of capacity may be retried."""
    return error.retry_after_s if isinstance(error, QuotaExceeded) else RETRY_AFTER_S


def end_of(error: OpserveError) -> str:
    """Reason why the call's session was ended; empty where its client may reopen it."""
    return error.ended if isinstance(error, HandleNotFound) else ""


class QuotaMembers(TypedDict, total=False):
    """Members of an answer about a quota, by their names on every wire."""

    limit: float
    use: float
    retry_after_s: float


def quota_members(error: OpserveError) -> QuotaMembers:
    """Members about the quota that rejected a call; empty where none did."""
    if not isinstance(error, QuotaExceeded):
        return {}
    return {"limit": error.limit, "use": error.use, "retry_after_s": error.retry_after_s}


def moved_members(error: OpserveError) -> dict[str, str]:
    """Members about the service that a client must call instead, by their names on every wire."""
    if not isinstance(error, Moved):
        return {}
    to = error.service
    return {"service": to.name, "grpc_address": to.grpc, "http_address": to.http}


class BodyTooLarge(CallTooLarge):
    """A body is larger than the service accepts; a retry cannot succeed (207012)."""

    def __init__(self, parameter: str, *, limit: int, unit: str = "bytes") -> None:
        super().__init__(
            Status.ACL_ERROR_RT_OVER_LIMIT,
            f"{parameter} has more than {limit} {unit}, the limit: send a smaller one.",
            parameter=parameter,
            given=f"more than {limit} {unit}",
            allowed=limit,
        )


def malformed(parameter: str, *, given: object, allowed: object) -> InvalidArgument:
    """A message that does not have its form on the wire (100000)."""
    return InvalidArgument(
        Status.ACL_ERROR_INVALID_PARAM,
        parameter=parameter,
        given=given,
        allowed=allowed,
    )


def internal_error(error: BaseException, *, call: str, request_id: str) -> OpserveError:
    """Logs an unexpected error in full, and returns the error for the caller."""
    log.error("%s failed", call, exc_info=error, extra={"request_id": request_id})
    _release_frames(error)
    message = f"The service failed: report the request id {request_id} to its administrator."
    return OpserveError(Status.ACL_ERROR_INTERNAL_ERROR, message)
