"""Exceptions of the client for failed calls, with the vendor's number and name.

OpserveError                base class: code, name, parameter, given, allowed
├── AclnnError              an aclnn call was rejected or failed: 161xxx, 361xxx, 561xxx
├── TbeError                a call of the TBE DSL was rejected: "E60011"; a RuntimeError as well
├── DeconvError             a call of FT-DSP was rejected: numbers of opserve
└── AclrtError              sessions, memory, streams, events, devices: 1xxxxx, 2xxxxx, 5xxxxx
    ├── ExecutionFailed     a call failed (507015), missed its deadline (107020) or was aborted
    │                       (107023); has the executor
    ├── AuthenticationError the key is missing, unknown, expired or revoked (207006)
    ├── PermissionDeniedError
    │                       the caller lacks a scope (207006)
    ├── QuotaExceeded       the call exceeds the tenant's quota; has the time of a retry
    ├── Moved               another service of the farm has the session, or room for it (207005)
    ├── SessionLost         the session is gone, and its buffers, streams and work with it (107017)
    ├── CallTimedOut        no answer within the client's timeout_s (107019)
    └── ServiceUnreachable  no connection to the service, or the service stops (507901)
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict, Unpack

from typing_extensions import override

from opserve.v1.command_service_pb2 import CommandResult, Error
from opserve_kernels.errors import CHOICES_CHARACTERS, rejection, shortened
from opserve_kernels.status import DOMAINS, AnyStatus, DeconvStatus, Status, TbeStatus

OPSERVE = DOMAINS[Status]
"""Domain of the codes of aclnn and aclrt."""
RETRYABLE = frozenset({Status.ACL_ERROR_RT_SOCKET_CLOSE, Status.ACL_ERROR_RT_NO_DEVICE})
"""Codes of transient errors: no connection to the service, and no device that is ready."""
RESUMABLE = RETRYABLE | {Status.ACL_ERROR_RT_COPY_DATA}
"""Codes after which an upload or a download continues: transient ones, and a wrong checksum."""

_ACLNN_THOUSANDS = frozenset({161, 361, 561})


class OpserveError(Exception):
    """A failed call.

    Attributes:
        message: A sentence that says what happened and what to do.
        code: The vendor's number, such as 161002, or the E-code of the TBE DSL as a string.
        name: The vendor's name of the code, such as "ACLNN_ERR_PARAM_INVALID".
        parameter: The parameter at fault, in snake case, or "".
        given: The given value, or "".
        allowed: The allowed values, or "".
        request_id: Id of the call in the service's log, or "".
        ended: Why the service ended the session; "" for other errors, and for a session that the
            service does not know, as after a restart.
        results: Of a failed submit, the answers of the commands before the failed one.
        failed_command: Of a failed submit, the position of the failed command, from 0; None if the
            whole call failed, as after a lost connection.
    """

    def __init__(  # noqa: PLR0913  the members that every wire carries
        self,
        message: str,
        *,
        code: int | str,
        name: str = "",
        parameter: str = "",
        given: str = "",
        allowed: str = "",
        request_id: str = "",
        ended: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.name = name
        self.parameter = parameter
        self.given = given
        self.allowed = allowed
        self.request_id = request_id
        self.ended = ended
        self.results: tuple[CommandResult, ...] = ()
        self.failed_command: int | None = None

    @override
    def __str__(self) -> str:
        return f"{self.code} {self.name}: {self.message}"

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Supports pickle, which process pools and test runners use for errors."""
        return _again, (type(self), self.args, vars(self))


def _again(
    kind: type[OpserveError], args: tuple[Any, ...], members: dict[str, Any]
) -> OpserveError:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(members)
    return error


class AclnnError(OpserveError):
    """An operator rejected its arguments (161001, 161002) or failed inside (361xxx, 561xxx)."""


class TbeError(OpserveError, RuntimeError):
    """A call of the TBE DSL broke a rule; `code` and `name` are the E-code, such as "E60011".

    The vendor raises RuntimeError(args_dict, message). Accordingly `args` is that pair: `args[0]`
    has "errCode" and the members of this error.
    """

    def __init__(self, message: str, *, code: int | str, **fields: Unpack["ErrorFields"]) -> None:
        name = fields.get("name") or str(code)
        super().__init__(message, code=name, **fields | {"name": name})
        members = {field: getattr(self, field) for field in _MEMBERS}
        self.args = ({"errCode": name, **members}, message)

    @override
    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class DeconvError(OpserveError):
    """A call of FT-DSP broke a rule, where the vendor's function returns nothing.

    1 DECONV_PARAM_NULL, 2 DECONV_PARAM_INVALID, 3 DECONV_DTYPE_NOT_SUPPORTED.
    """


class AclrtError(OpserveError):
    """A call on a session, buffer, stream, event or device failed (1xxxxx, 2xxxxx, 5xxxxx)."""


class ExecutionFailed(AclrtError):
    """A call on a stream failed; `synchronize` of the stream raises it.

    507015, the kernel failed; 107020, the deadline passed; 107023, the stream was aborted.

    Attributes:
        executor: Handle of the executor that failed.
    """

    executor = 0


class AuthenticationError(AclrtError):
    """The caller is not authenticated: the key is missing, unknown, expired or revoked."""


class PermissionDeniedError(AclrtError):
    """The caller is authenticated and lacks the scope of the call."""


class QuotaExceeded(AclrtError):
    """The call exceeds the tenant's quota of a resource, which `parameter` names.

    The resources are device_memory_bytes, sessions, buffers, executors, streams, queued_entries,
    calls_per_s, bytes_in_flight and device_seconds_per_day. The client waits out a call rate
    (calls_per_s) whose `retry_after_s` is at most 1 s, and raises no error then.

    Attributes:
        limit: The tenant's limit.
        use: The use at the time of the call.
        retry_after_s: Seconds after which a retry may succeed.
    """

    limit = 0.0
    use = 0.0
    retry_after_s = 0.0


class QuotaMembers(NamedTuple):
    """The quota that an error message names."""

    limit: float
    use: float
    retry_after_s: float


class MovedMembers(NamedTuple):
    """The service that an error message names."""

    service: str
    grpc_address: str
    http_address: str


class Moved(AclrtError):
    """Another service of the farm has the session, or room for one; the client calls it there.

    A caller sees this error only if the services sent the call on too often, or if the client has a
    transport in place of an address.

    Attributes:
        service: Name of the other service.
        grpc: Address of its gRPC API.
        http: URL of its HTTP port.
    """

    service = ""
    grpc = ""
    http = ""


class SessionLost(AclrtError):
    """The session is gone, and its buffers, streams, events and work with it.

    The service was restarted, or it ended the session: `ended` is the reason. After a restart or a
    drain, `session.run` on arrays opens a new session and retries. Calls on tensors or buffers of
    the lost session raise this error: upload them again in a new session.
    """


class CallTimedOut(AclrtError):
    """The service did not answer within timeout_s; the call may have run or not."""


class ServiceUnreachable(AclrtError):
    """The service cannot be reached, or the connection broke before the answer."""


class ErrorFields(TypedDict, total=False):
    """Members of an error besides its message and code."""

    name: str
    parameter: str
    given: str
    allowed: str
    request_id: str
    ended: str


_MEMBERS = ("parameter", "given", "allowed", "request_id")


def error_for(
    message: str,
    *,
    code: int,
    domain: str = OPSERVE,
    executor: int = 0,
    quota: QuotaMembers | None = None,
    moved: MovedMembers | None = None,
    **fields: Unpack[ErrorFields],
) -> OpserveError:
    """Returns the exception for an error of the service, by its domain and code."""
    if executor:
        failed = ExecutionFailed(message, code=code, **fields)
        failed.executor = executor
        return failed
    if quota is not None:
        exceeded = QuotaExceeded(message, code=code, **fields)
        exceeded.limit, exceeded.use, exceeded.retry_after_s = quota
        return exceeded
    if moved is not None:
        elsewhere = Moved(message, code=code, **fields)
        elsewhere.service, elsewhere.grpc, elsewhere.http = moved
        return elsewhere
    parameter = fields.get("parameter", "")
    is_runtime = domain == OPSERVE
    family = _class_of(code, parameter) if is_runtime else _FAMILIES.get(domain, OpserveError)
    return family(message, code=code, **fields)


_FAMILIES: Mapping[str, type[OpserveError]] = {
    DOMAINS[TbeStatus]: TbeError,
    DOMAINS[DeconvStatus]: DeconvError,
}


def _class_of(code: int, parameter: str) -> type[OpserveError]:
    if code == Status.ACL_ERROR_RT_NO_PERMISSION:
        return AuthenticationError if parameter == "authorization" else PermissionDeniedError
    if code == Status.ACL_ERROR_RT_SOCKET_CLOSE:
        return ServiceUnreachable
    if code == Status.ACL_ERROR_RT_WAIT_TIMEOUT:
        return CallTimedOut
    return AclnnError if code // 1000 in _ACLNN_THOUSANDS else AclrtError


def error_from_result(error: Error) -> OpserveError:
    """Returns the exception for the error of a command in a batch."""
    return error_for(
        error.message,
        code=error.code,
        domain=error.domain or OPSERVE,
        executor=error.executor,
        quota=QuotaMembers(error.limit, error.use, error.retry_after_s)
        if error.HasField("retry_after_s")
        else None,
        name=error.reason,
        parameter=error.parameter,
        given=error.given,
        allowed=error.allowed,
    )


def invalid_argument(
    parameter: str,
    given: str,
    allowed: str,
    *,
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> OpserveError:
    """Returns the exception for an argument of an operator that the client rejects.

    Args:
        parameter: Name of the argument.
        given: The given value.
        allowed: The allowed values.
        status: The code.
    """
    return _rejection(status, parameter, given, allowed)


def invalid_parameter(
    parameter: str,
    given: str,
    allowed: str,
    *,
    status: Status = Status.ACL_ERROR_RT_PARAM_INVALID,
    message: str = "",
) -> OpserveError:
    """Returns the exception for a parameter of the runtime that the client rejects."""
    return _rejection(status, parameter, given, allowed, message)


def invalid_handle(parameter: str, given: str, allowed: str) -> OpserveError:
    """Returns the exception for an object of another session."""
    return _rejection(Status.ACL_ERROR_RT_INVALID_HANDLE, parameter, given, allowed)


def _rejection(
    status: AnyStatus, parameter: str, given: str, allowed: str, message: str = ""
) -> OpserveError:
    message = message or rejection(parameter, given=given, allowed=allowed)
    return _client_error(status, message, parameter=parameter, given=given, allowed=allowed)


def _client_error(
    status: AnyStatus, message: str, *, parameter: str = "", given: str = "", allowed: str = ""
) -> OpserveError:
    """Returns the exception for an error that the client detects."""
    fields = ErrorFields(name=status.name, parameter=parameter, given=given, allowed=allowed)
    return error_for(message, code=status.value, domain=status.domain, **fields)


def is_transient(error: OpserveError) -> bool:
    """Returns whether a retry of the whole call may succeed, if necessary in a new session.

    A session that the service ended on purpose, as by `opserve release`, is not opened again.
    """
    can_reopen = isinstance(error, SessionLost) and not error.ended
    return can_reopen or error.code in RETRYABLE


def is_session_lost(error: OpserveError) -> bool:
    """Returns whether the service answered that it has no such session."""
    return error.code == Status.ACL_ERROR_RT_INVALID_HANDLE and error.parameter == "session"


def session_lost(request_id: str = "", *, ended: str = "") -> SessionLost:
    """Returns the exception for a call on a session that is gone, or on its objects."""
    allowed = "an open session: open another one, and upload its tensors again"
    end = f"which ended: {ended}" if ended else "that the service does not have, as after a restart"
    given = f"a session {end}; its buffers, streams and queued work are gone"
    fault = "The service does not have the session, as after a restart"
    if ended:
        fault = f"The session has ended: {shortened(ended, CHOICES_CHARACTERS)}"
    return SessionLost(
        f"{fault}. Its buffers, streams and queued work are gone: open another one, and upload its "
        "tensors again.",
        code=Status.ACL_ERROR_RT_INVALID_HANDLE.value,
        name=Status.ACL_ERROR_RT_INVALID_HANDLE.name,
        parameter="session",
        given=given,
        allowed=allowed,
        request_id=request_id,
        ended=ended,
    )


def not_mappable(buffer: int) -> OpserveError:
    """Returns the exception for a buffer that this process cannot map."""
    allowed = "buffers of a service on this host that has shared memory enabled"
    return _rejection(Status.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "buffer", str(buffer), allowed)


def unreachable(message: str) -> OpserveError:
    """Returns the exception for a failed or lost connection."""
    return _client_error(Status.ACL_ERROR_RT_SOCKET_CLOSE, message)


def corrupted(*, given: str, allowed: str) -> OpserveError:
    """Returns the exception for bytes with a wrong checksum."""
    return _rejection(Status.ACL_ERROR_RT_COPY_DATA, "crc32c", given, allowed)


def timed_out(message: str) -> OpserveError:
    """Returns the exception for an answer that exceeds its time limit."""
    return _client_error(Status.ACL_ERROR_RT_WAIT_TIMEOUT, message)


def over_limit(message: str) -> OpserveError:
    """Returns the exception for a message that exceeds the size limit of the protocol."""
    return _client_error(Status.ACL_ERROR_RT_OVER_LIMIT, message)


def unknown_call(message: str) -> OpserveError:
    """Returns the exception for a call that an older service does not have."""
    remedy = "the service is older than this client: update it"
    return _client_error(Status.ACL_ERROR_API_NOT_SUPPORT, f"{message}; {remedy}")


def is_unknown_call(error: OpserveError) -> bool:
    """Returns whether the service does not have the call."""
    return error.code == Status.ACL_ERROR_API_NOT_SUPPORT and not error.parameter


def malformed_answer(message: str) -> OpserveError:
    """Returns the exception for an answer that the client cannot parse."""
    return _client_error(Status.ACL_ERROR_INTERNAL_ERROR, message)
