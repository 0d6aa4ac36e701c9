"""What both APIs do alike: ids of calls, texts, errors that nobody foresaw, and readiness."""

import logging
import re
import time
from collections.abc import Iterable
from secrets import token_hex
from typing import TypedDict

from opserve_kernels.status import Status
from opserve_server.core.accounts import RETRY_AFTER_S
from opserve_server.core.errors import (
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    NotAllowed,
    OpserveError,
    QuotaExceeded,
    TooManyUnknownKeys,
    Unauthenticated,
)
from opserve_server.core.observations import CALL, Call, CallBegan, CallEnded, Observe
from opserve_server.core.principal import Principal
from opserve_server.core.service import DeviceInfo

_WELL_FORMED_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TEXT_LIMIT = 512
VALUES_LIMIT = 1024
"""Of one list of numbers on either wire: no shape has more than 8, but a message has room for
millions, which would be read before anything could refuse them."""
MEMBERS_LIMIT = 20_000
"""Of one list of objects, likewise: the largest suite has 16,159 cases."""
log = logging.getLogger(__name__)


def call_id(given: str | bytes | None) -> str:
    """The caller's own id where it is well formed, else a new one."""
    if isinstance(given, str) and _WELL_FORMED_ID.fullmatch(given):
        return given
    return token_hex(16)


class ObservedCall:
    """A call at work, in whose context the block runs; its begin and end are observed.

    Args:
        call: The call.
        observe: Told of it.
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
        call.headers = {}  # queued work and kept answers hold the call for longer
        CALL.reset(self._token)


def caller() -> Principal:
    """Who makes the call at work, as the guard has said.

    Raises:
        Unauthenticated: There is no call, or nobody has asked the guard about it.
    """
    call = CALL.get()
    if call is None or call.principal is None:
        raise Unauthenticated("nobody asked the guard")
    return call.principal


def note_failure(error: OpserveError) -> None:
    """The call at work is refused with an error."""
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


def retry_after_s(error: OpserveError) -> float:
    """Seconds after which a call that was refused for lack of room may be tried again."""
    return error.retry_after_s if isinstance(error, QuotaExceeded) else RETRY_AFTER_S


def end_of(error: OpserveError) -> str:
    """Why the session that a call named was ended; empty where its client may open it again."""
    return error.ended if isinstance(error, HandleNotFound) else ""


class QuotaMembers(TypedDict, total=False):
    """What an answer tells of a quota, by the names on every wire."""

    limit: float
    use: float
    retry_after_s: float


def quota_members(error: OpserveError) -> QuotaMembers:
    """What an answer tells of the quota that refused a call; nothing where none did."""
    if not isinstance(error, QuotaExceeded):
        return {}
    return {"limit": error.limit, "use": error.use, "retry_after_s": error.retry_after_s}


class BodyTooLarge(LimitExceeded):
    """A body is larger than the service takes, however often it is sent (207012)."""

    def __init__(self, parameter: str, *, limit: int, unit: str = "bytes") -> None:
        super().__init__(
            Status.ACL_ERROR_RT_OVER_LIMIT,
            f"{parameter}: given more than {limit} {unit}, allowed at most {limit}",
            parameter=parameter,
            given=f"more than {limit} {unit}",
            allowed=limit,
        )


def malformed(parameter: str, *, given: object, allowed: object) -> InvalidArgument:
    """A message that does not fit its form on the wire (100000)."""
    return InvalidArgument(
        Status.ACL_ERROR_INVALID_PARAM,
        f"{parameter}: given {shortened(str(given))}, allowed {allowed}",
        parameter=parameter,
        given=given,
        allowed=allowed,
    )


def internal_error(error: BaseException, *, call: str, request_id: str) -> OpserveError:
    """Logs an error that nobody foresaw, whole, and gives what the caller may know of it."""
    log.error("%s failed", call, exc_info=error, extra={"request_id": request_id})
    return OpserveError(Status.ACL_ERROR_INTERNAL_ERROR, "internal error")


def ready_profiles(devices: Iterable[DeviceInfo]) -> dict[str, bool]:
    """Whether any device is ready, by profile."""
    profiles: dict[str, bool] = {}
    for device in devices:
        profiles[device.profile] = profiles.get(device.profile, False) or device.ready
    return profiles


def shortened(text: str) -> str:
    """A text that fits the headers of both wires, whatever a caller made us repeat."""
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"
