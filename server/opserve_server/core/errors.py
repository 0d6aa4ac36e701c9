"""The exception tree of the service. The APIs translate each class once, each in its own table.

OpserveError               (opserve_kernels.errors) status, message, parameter, given, allowed
├── InvalidArgument        a rule is broken: 161001, 161002, 100000, 107000, 107001
├── HandleNotFound         unknown, foreign, freed or used handle or session: 107017
├── NotSupported           the profile does not support the operator: 200001
├── WrongState             the object is not in the state for this: 107000, 107006, 107023, 507000
├── OutOfMemory            device memory: 207001
├── LimitExceeded          a named limit of the service: 207005, 207007, 207008, 207012, 207014
│   ├── QuotaExceeded      a limit of the caller's tenant: the same, and 207001 for device memory
│   └── TooManyUnknownKeys an address has sent too many unknown keys: 207012
├── WaitTimedOut           a wait ended without its event: 507046, 507047
├── NotAllowed             the caller is not permitted: 207006
│   ├── Unauthenticated    the caller is not authenticated
│   └── PermissionDenied   the caller lacks a scope
├── Unavailable            no device is ready, or the service drains: 207004, 507901
│   └── StoreUnavailable   the database of tenants and keys does not answer: 507901
├── Moved                  another service of the farm has the session, or room for it: 207005
├── DataCorrupted          bytes are not what their sender's checksum says: 507052
└── ExecutionFailed        a kernel failed on the device: 507015
    ├── ExecutionAborted   its stream was aborted: 107023
    └── DeadlineMissed     its deadline passed: 107020
"""

from collections.abc import Mapping
from math import ceil
from typing import ClassVar

from opserve_kernels.errors import (
    VALUE_CHARACTERS,
    InvalidArgument,
    OpserveError,
    choices_shortened,
    closed,
    shortened,
)
from opserve_kernels.status import Status
from opserve_server.core.info import ServiceAddress
from opserve_server.core.principal import LOCAL, Principal
from opserve_server.core.tenants import Resource

__all__ = [
    "CallTooLarge",
    "DataCorrupted",
    "DeadlineMissed",
    "ExecutionAborted",
    "ExecutionFailed",
    "HandleNotFound",
    "InvalidArgument",
    "LimitExceeded",
    "Moved",
    "NotAllowed",
    "NotSupported",
    "OpserveError",
    "OutOfMemory",
    "PermissionDenied",
    "QuotaExceeded",
    "StoreUnavailable",
    "TooManyUnknownKeys",
    "Unauthenticated",
    "Unavailable",
    "WaitTimedOut",
    "WrongState",
    "cut_off",
    "no_credentials",
    "service_drains",
    "service_ends",
    "session_not_found",
    "unknown_certificate",
    "unraised",
]


DRAINED = "the service drains"
"""End reason of a session that its client may open again."""


class HandleNotFound(OpserveError):
    """A missing handle or session (107017).

    Attributes:
        ended: Reason why the session ended, so that its client does not reopen it automatically;
            empty where the reason is unknown, as after a restart, or the service drains.
    """

    def __init__(
        self, kind: str, given: object, *, allowed: str = "", ended: str = "", message: str = ""
    ) -> None:
        allowed = allowed or f"a live {kind} of this session"
        shown = f"'{shortened(given, VALUE_CHARACTERS)}'" if isinstance(given, str) else given
        self.ended = "" if ended == DRAINED else ended
        super().__init__(
            Status.ACL_ERROR_RT_INVALID_HANDLE,
            message or closed(f"There is no {kind} {shown}; use {choices_shortened(allowed)}"),
            parameter=kind,
            given=given,
            allowed=allowed,
        )


def session_not_found(name: str, *, ended: str = "") -> HandleNotFound:
    """A session that does not exist or belongs to another tenant: one answer for both (107017).

    Args:
        name: The requested name.
        ended: Reason of its end, for its own tenant only; empty where unknown.
    """
    given = name[:64]
    message = f"'{given}' is not one of your sessions, or it has ended. Open a new one."
    if ended:
        message = f"Session '{given}' has ended: {ended}. Open a new one."
    return HandleNotFound(
        "session", given, allowed="an open session of the caller", ended=ended, message=message
    )


class NotSupported(OpserveError):
    """The profile does not support the operator, or the service does not support the call."""


class WrongState(OpserveError):
    """The object exists, but its state does not allow the operation."""


class OutOfMemory(OpserveError):
    """The device has not enough free memory."""


class LimitExceeded(OpserveError):
    """A named limit of the service is reached."""


class CallTooLarge(LimitExceeded):
    """One call exceeds a limit of each call, so that no retry can succeed."""


class TooManyUnknownKeys(LimitExceeded):
    """An address has sent too many unknown keys (207012).

    Attributes:
        reason: The address, for the audit only.
    """

    def __init__(self, peer: str, *, per_s: float) -> None:
        allowed = f"{per_s:g} a second"
        super().__init__(
            Status.ACL_ERROR_RT_OVER_LIMIT,
            f"Too many unknown keys came from this address: it may send {allowed}. Check "
            "OPSERVE_API_KEY, then retry.",
            parameter="authorization",
            given="too many unknown keys from one address",
            allowed=allowed,
        )
        self.reason = f"unknown keys from {peer}"


class QuotaExceeded(LimitExceeded):
    """A tenant's use of a resource would exceed its quota.

    Attributes:
        tenant: The tenant.
        limit: Limit of the quota.
        use: Current use.
        retry_after_s: Seconds after which a retry may succeed.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        tenant: str,
        limit: float,
        use: float,
        requested: float,
        retry_after_s: float,
    ) -> None:
        fault = _QUOTA_FAULTS[resource].format(
            tenant=tenant, limit=_number(limit), use=_number(use), requested=_number(requested)
        )
        # No retry meets a limit of 0, nor one below a single request.
        can_pass = limit > 0 if resource in _OF_CALLS else requested <= limit
        remedy = _QUOTA_REMEDIES.get(resource, f"Retry in {_duration(retry_after_s)}")
        super().__init__(
            _QUOTA_STATUS[resource],
            f"{fault}. {remedy if can_pass else 'An administrator can raise it'}.",
            parameter=resource,
            given="another call" if resource in _OF_CALLS else _number(requested),
            allowed=_number(limit),
        )
        self.tenant = tenant
        self.limit = limit
        self.use = use
        self.retry_after_s = retry_after_s


_OF_CALLS = {Resource.CALLS_PER_S, Resource.DEVICE_SECONDS}
_QUOTA_STATUS: Mapping[Resource, Status] = {
    Resource.DEVICE_MEMORY: Status.ACL_ERROR_RT_MEMORY_ALLOCATION,
    Resource.SESSIONS: Status.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
    Resource.BUFFERS: Status.ACL_ERROR_RT_OVER_LIMIT,
    Resource.EXECUTORS: Status.ACL_ERROR_RT_OVER_LIMIT,
    Resource.STREAMS: Status.ACL_ERROR_RT_NO_STREAM_RESOURCE,
    Resource.QUEUED: Status.ACL_ERROR_RT_QUEUE_FULL,
    Resource.CALLS_PER_S: Status.ACL_ERROR_RT_OVER_LIMIT,
    Resource.BYTES_IN_FLIGHT: Status.ACL_ERROR_RT_OVER_LIMIT,
    Resource.DEVICE_SECONDS: Status.ACL_ERROR_RT_OVER_LIMIT,
}


_OF_OBJECTS = "quota of tenant {tenant} used up ({use} of {limit})"
_OF_BYTES = "of tenant {tenant} exceeded: {requested} bytes beside {use} in use, of {limit}"
_QUOTA_FAULTS: Mapping[Resource, str] = {
    Resource.DEVICE_MEMORY: f"Quota of device memory {_OF_BYTES}",
    Resource.SESSIONS: f"Session {_OF_OBJECTS}",
    Resource.BUFFERS: f"Buffer {_OF_OBJECTS}",
    Resource.EXECUTORS: f"Executor {_OF_OBJECTS}",
    Resource.STREAMS: f"Stream {_OF_OBJECTS}",
    Resource.QUEUED: f"Queue {_OF_OBJECTS}",
    Resource.CALLS_PER_S: "Rate limit of tenant {tenant} reached: {limit} calls/s",
    Resource.BYTES_IN_FLIGHT: f"Quota of bytes in flight {_OF_BYTES}",
    Resource.DEVICE_SECONDS: "Device time of tenant {tenant} used up today: {use} of {limit} s",
}
_QUOTA_REMEDIES: Mapping[Resource, str] = {
    Resource.DEVICE_MEMORY: "Free a buffer or close a session first",
    Resource.SESSIONS: "Close one first",
    Resource.BUFFERS: "Free one first",
    Resource.EXECUTORS: "Destroy one first",
    Resource.STREAMS: "Destroy one first",
    Resource.QUEUED: "Synchronize a stream first",
}
"""The action that releases a resource; the other resources are released without one."""
_MINUTE_S = 60
_HOUR_S = 3600


def _number(value: float) -> str:
    return f"{round(value, 3):.15g}"


def _duration(seconds: float) -> str:
    """At least the time, in the unit that makes it short."""
    if seconds < 1:
        return f"{ceil(seconds * 1000)} ms"
    if seconds <= 2 * _MINUTE_S:
        return f"{ceil(seconds)} s"
    if seconds <= 2 * _HOUR_S:
        return f"{ceil(seconds / _MINUTE_S)} min"
    return f"{ceil(seconds / _HOUR_S)} h"


class WaitTimedOut(OpserveError):
    """A wait ended before what it waited for."""


class NotAllowed(OpserveError):
    """The caller is not permitted (207006).

    Attributes:
        reason: Reason, for the audit only.
        principal: The caller, where authenticated; for the audit only.
    """

    def __init__(
        self,
        parameter: str,
        *,
        given: str,
        allowed: str,
        reason: str,
        principal: Principal | None = None,
        message: str = "",
    ) -> None:
        super().__init__(
            Status.ACL_ERROR_RT_NO_PERMISSION,
            message,
            parameter=parameter,
            given=given,
            allowed=allowed,
        )
        self.reason = reason
        self.principal = principal


_UNKNOWN = "an API key that is unknown, expired or revoked, or whose tenant is disabled"
_UNKNOWN_MESSAGE = (
    "This API key is unknown, expired or revoked, or its tenant is disabled: use another one, "
    "which an administrator makes with `opserve key create`."
)


class Unauthenticated(NotAllowed):
    """The caller is not authenticated; one answer for every key that is not accepted."""

    def __init__(
        self,
        reason: str,
        *,
        principal: Principal | None = None,
        given: str = _UNKNOWN,
        message: str = _UNKNOWN_MESSAGE,
    ) -> None:
        super().__init__(
            "authorization",
            given=given,
            allowed="'Bearer ' and an API key or ID token, or a client certificate",
            reason=reason,
            principal=principal,
            message=message,
        )


def no_credentials() -> Unauthenticated:
    """Rejects a caller that sent neither a key nor a certificate."""
    return Unauthenticated(
        "neither a key nor a certificate",
        given="no API key",
        message=(
            "No API key was sent, and this service has keys: set OPSERVE_API_KEY, or pass "
            "--api-key or api_key=. An administrator makes keys with `opserve key create`; "
            "`opserve bootstrap --force` replaces a lost first key."
        ),
    )


def unknown_certificate(name: str) -> Unauthenticated:
    """Rejects a caller whose verified client certificate is not registered."""
    return Unauthenticated(
        "a certificate that is not registered",
        given="a client certificate that is not registered",
        message=(
            f"The client certificate {name[:128]} is not registered, and no API key was sent: "
            "an administrator registers it with `opserve certificate add`."
        ),
    )


class PermissionDenied(NotAllowed):
    """The caller lacks the scope that the method requires."""

    def __init__(self, principal: Principal, *, scope: str) -> None:
        super().__init__(
            "scope",
            given=f"a caller without {scope}",
            allowed=f"a caller with {scope}",
            reason=f"a caller without {scope}",
            principal=principal,
            message=_NO_KEYS if principal == LOCAL else f"This caller lacks {scope}: {_NEW_KEY}",
        )


_NEW_KEY = "use a key that has it, which an administrator makes with `opserve key create`."
_NO_KEYS = (
    "This service requires no key, so nobody can administer it: run `opserve bootstrap`, then set "
    "OPSERVE_API_KEY."
)


class Unavailable(OpserveError):
    """The service cannot do this now; a retry may succeed."""


def service_drains(parameter: str) -> Unavailable:
    """Rejects new work while the service drains (507901)."""
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        "The service drains and accepts no new work: retry later, or use another service.",
        parameter=parameter,
        given="new work",
        allowed="another service, or a later try",
    )


def cut_off() -> Unavailable:
    """Rejects a new session while the service has no lease in its farm (507901)."""
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        "This service has lost the store of its farm and opens no session: retry later, or use "
        "another service of the farm.",
        parameter="session",
        given="a new session",
        allowed="another service, or a later try",
    )


def service_ends() -> Unavailable:
    """Rejects a call at the end of a drain (507901)."""
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        "The service stops: retry later, or use another service.",
        parameter="service",
        given="a call",
        allowed="another service, or a later try",
    )


class StoreUnavailable(Unavailable):
    """The database of tenants and keys does not answer (507901); the cause is only in the log."""

    def __init__(self) -> None:
        super().__init__(
            Status.ACL_ERROR_RT_SOCKET_CLOSE,
            "The database of tenants and keys does not answer: retry later.",
            parameter="store",
            given="no answer",
            allowed="a later try",
        )


class Moved(OpserveError):
    """Another service of the farm has the session, or room for it (207005).

    Attributes:
        service: The other service.
    """

    def __init__(self, service: ServiceAddress) -> None:
        super().__init__(
            Status.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            f"Service {service.name} of this farm has the session, or room for it: call it at "
            f"{service.http} or {service.grpc}.",
            parameter="session",
            given="another service of the farm",
            allowed=service.http,
        )
        self.service = service


class DataCorrupted(OpserveError):
    """Bytes changed in transit (507052)."""

    def __init__(self, checksum: str, *, given: object, allowed: object) -> None:
        super().__init__(
            Status.ACL_ERROR_RT_COPY_DATA,
            f"{checksum} is {shortened(str(given), VALUE_CHARACTERS)}, but {allowed} is that of "
            "the received bytes: send them again.",
            parameter=checksum,
            given=given,
            allowed=allowed,
        )


class ExecutionFailed(OpserveError):
    """A call failed on its stream; synchronise raises it."""

    code: ClassVar[Status] = Status.ACL_ERROR_RT_AICORE_EXCEPTION

    def __init__(self, message: str, *, executor: int) -> None:
        super().__init__(self.code, message, parameter="executor", given=executor)
        self.executor = executor


class ExecutionAborted(ExecutionFailed):
    """A call was stopped or dropped because its stream was aborted."""

    code = Status.ACL_ERROR_RT_STREAM_ABORT


class DeadlineMissed(ExecutionFailed):
    """A call was stopped or dropped because its deadline had passed."""

    code = Status.ACL_ERROR_RT_TASK_TIMEOUT


def unraised(error: OpserveError) -> OpserveError:
    """A copy of an error without its traceback, whose frames would keep objects alive."""
    fresh = type(error).__new__(type(error), *error.args)
    fresh.__dict__.update(error.__dict__)
    return fresh
