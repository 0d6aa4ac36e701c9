"""Everything that the client raises for a call that failed, with the vendor's number and name.

OpserveError                what every failure carries: code, name, parameter, given, allowed
├── AclnnError              an aclnn call was refused or failed: 161xxx, 361xxx, 561xxx
├── TbeError                a call of the TBE DSL was refused: "E60011"; a RuntimeError as well
├── DeconvError             a call of FT-DSP was refused: numbers of opserve's own
└── AclrtError              sessions, memory, streams, events, devices: 1xxxxx, 2xxxxx, 5xxxxx
    ├── ExecutionFailed     a call failed (507015), was too late (107020) or aborted (107023);
    │                       carries the executor
    ├── AuthenticationError it is not known who calls: no key, or none that is known (207006)
    ├── PermissionDeniedError
    │                       the caller lacks a scope (207006)
    ├── QuotaExceeded       the tenant's quota allows no more now; tells when to retry
    ├── SessionLost         the session is gone, and its buffers, streams and work with it (107017)
    ├── CallTimedOut        no answer within the client's timeout_s (107019)
    └── ServiceUnreachable  no connection to the service, or it is going down (507901)
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict, Unpack

from typing_extensions import override

from opserve.v1.command_service_pb2 import CommandResult, Error
from opserve_kernels.status import DOMAINS, AnyStatus, DeconvStatus, Status, TbeStatus

OPSERVE = DOMAINS[Status]
"""Domain of the codes of aclnn and aclrt."""
WORTH_A_RETRY = frozenset({Status.ACL_ERROR_RT_SOCKET_CLOSE, Status.ACL_ERROR_RT_NO_DEVICE})
"""Codes of what may succeed a moment later: no connection, and no device that is ready."""

WORTH_RESUMING = WORTH_A_RETRY | {Status.ACL_ERROR_RT_COPY_DATA}
"""Codes after which an upload or a download goes on from what has come through."""

_ACLNN_THOUSANDS = frozenset({161, 361, 561})


class OpserveError(Exception):
    """A call failed.

    Attributes:
        message: One sentence: what was wrong, what was given and what is allowed.
        code: The vendor's number, such as 161002, or the E-code of the TBE DSL as a string.
        name: The vendor's name of it, such as "ACLNN_ERR_PARAM_INVALID".
        parameter: The parameter at fault, in snake case, or "".
        given: What was given, or "".
        allowed: What is allowed, or "".
        request_id: Identifies the call in the service's log, or "".
        ended: Why the service has ended the session; "" where it does not have it, as after a
            restart, or the error is another.
        results: Of a failed submit, the answers of the commands before the one that failed.
        failed_command: Of a failed submit, the place of the command that failed, from 0; None where
            the whole call failed, as when the connection broke.
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
        """Errors travel between processes: an executor's, a test runner's."""
        return _again, (type(self), self.args, vars(self))


def _again(
    kind: type[OpserveError], args: tuple[Any, ...], members: dict[str, Any]
) -> OpserveError:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(members)
    return error


class AclnnError(OpserveError):
    """An operator refused its arguments (161001, 161002) or failed inside (361xxx, 561xxx)."""


class TbeError(OpserveError, RuntimeError):
    """A call of the TBE DSL broke a rule; `code` and `name` are the E-code, such as "E60011".

    The vendor raises RuntimeError(args_dict, message), and so `args` is that pair: `args[0]` has
    "errCode" and the members of this error.
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
    """A session, buffer, stream, event or device refused (1xxxxx, 2xxxxx, 5xxxxx)."""


class ExecutionFailed(AclrtError):
    """A call did not end well; surfaces when its stream is synchronised.

    507015, its kernel failed; 107020, its deadline passed; 107023, its stream was aborted.

    Attributes:
        executor: Handle of the executor that failed.
    """

    executor = 0


class AuthenticationError(AclrtError):
    """The service does not know who calls: there is no key, or none that it knows, any more."""


class PermissionDeniedError(AclrtError):
    """The caller is known, and may not do this."""


class QuotaExceeded(AclrtError):
    """The tenant's quota allows no more of a resource now, which `parameter` names.

    The resources are device_memory_bytes, sessions, buffers, executors, streams, queued_entries,
    calls_per_s, bytes_in_flight and device_seconds_per_day.

    Attributes:
        limit: What the quota allows.
        use: What was in use.
        retry_after_s: Seconds after which a later try may succeed.
    """

    limit = 0.0
    use = 0.0
    retry_after_s = 0.0


class QuotaMembers(NamedTuple):
    """What a wire brings of the quota that refused a call."""

    limit: float
    use: float
    retry_after_s: float


class SessionLost(AclrtError):
    """The service has this session no more, and its buffers, streams, events and work are gone.

    The service was restarted, or it ended the session: `ended` is the reason. After a restart or a
    drain `session.run` on arrays goes on in a new session by itself; what uses tensors or buffers
    of the lost one cannot.
    """


class CallTimedOut(AclrtError):
    """The service did not answer within timeout_s; whether the call was carried out is unknown."""


class ServiceUnreachable(AclrtError):
    """The service cannot be reached, or the connection broke before it answered."""


class ErrorFields(TypedDict, total=False):
    """The members of an error besides its message and code."""

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
    **fields: Unpack[ErrorFields],
) -> OpserveError:
    """The exception for an error that a wire brought, of the class of its domain and code."""
    if executor:
        failed = ExecutionFailed(message, code=code, **fields)
        failed.executor = executor
        return failed
    if quota is not None:
        refused = QuotaExceeded(message, code=code, **fields)
        refused.limit, refused.use, refused.retry_after_s = quota
        return refused
    parameter = fields.get("parameter", "")
    ours = domain == OPSERVE
    family = _class_of(code, parameter) if ours else _FAMILIES.get(domain, OpserveError)
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
    """The exception for the error of a command in a batch."""
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
    """The exception for an argument of an operator that is refused before it is sent.

    Args:
        parameter: The argument.
        given: What was given.
        allowed: What is allowed.
        status: The code.
    """
    return _refusal(status, parameter, given, allowed)


def invalid_parameter(
    parameter: str,
    given: str,
    allowed: str,
    *,
    status: Status = Status.ACL_ERROR_RT_PARAM_INVALID,
) -> OpserveError:
    """The exception for a parameter of the runtime that is refused before it is sent."""
    return _refusal(status, parameter, given, allowed)


def invalid_handle(parameter: str, given: str, allowed: str) -> OpserveError:
    """The exception for an object that means nothing where it is given."""
    return _refusal(Status.ACL_ERROR_RT_INVALID_HANDLE, parameter, given, allowed)


def _refusal(status: AnyStatus, parameter: str, given: str, allowed: str) -> OpserveError:
    message = f"{parameter}: given {given}, allowed {allowed}"
    return _raised(status, message, parameter=parameter, given=given, allowed=allowed)


def _raised(
    status: AnyStatus, message: str, *, parameter: str = "", given: str = "", allowed: str = ""
) -> OpserveError:
    """The exception for an error that no wire brought."""
    fields = ErrorFields(name=status.name, parameter=parameter, given=given, allowed=allowed)
    return error_for(message, code=status.value, domain=status.domain, **fields)


def may_pass(error: OpserveError) -> bool:
    """Whether a whole call may succeed a moment later, in a session that is opened anew.

    A session that was ended on purpose, as by `opserve release`, is not opened anew.
    """
    is_open_again = isinstance(error, SessionLost) and not error.ended
    return is_open_again or error.code in WORTH_A_RETRY


def is_session_lost(error: OpserveError) -> bool:
    """Whether a service says that it has no such session."""
    return error.code == Status.ACL_ERROR_RT_INVALID_HANDLE and error.parameter == "session"


def session_lost(request_id: str = "", *, ended: str = "") -> SessionLost:
    """The exception for whatever is used of a session that is gone."""
    allowed = "a session that lives: open another one, and upload again what it needs"
    end = f"which ended: {ended}" if ended else "that the service has no more, as after a restart"
    given = f"a session {end}; its buffers, streams and queued work are gone"
    return SessionLost(
        f"session: given {given}, allowed {allowed}",
        code=Status.ACL_ERROR_RT_INVALID_HANDLE.value,
        name=Status.ACL_ERROR_RT_INVALID_HANDLE.name,
        parameter="session",
        given=given,
        allowed=allowed,
        request_id=request_id,
        ended=ended,
    )


def not_mappable(buffer: int) -> OpserveError:
    """The exception for memory that this process cannot see."""
    allowed = "buffers of a service on this host that lets its clients map them"
    return _refusal(Status.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "buffer", str(buffer), allowed)


def unreachable(message: str) -> OpserveError:
    """The exception for a connection that cannot be made or broke."""
    return _raised(Status.ACL_ERROR_RT_SOCKET_CLOSE, message)


def corrupted(*, given: str, allowed: str) -> OpserveError:
    """The exception for bytes that changed on their way."""
    return _refusal(Status.ACL_ERROR_RT_COPY_DATA, "crc32c", given, allowed)


def timed_out(message: str) -> OpserveError:
    """The exception for an answer that did not come in time."""
    return _raised(Status.ACL_ERROR_RT_WAIT_TIMEOUT, message)


def over_limit(message: str) -> OpserveError:
    """The exception for a message that is larger than a wire carries."""
    return _raised(Status.ACL_ERROR_RT_OVER_LIMIT, message)


def incomprehensible(message: str) -> OpserveError:
    """The exception for an answer that is none of opserve's."""
    return _raised(Status.ACL_ERROR_INTERNAL_ERROR, message)
