"""The gRPC status and details of every error: one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from grpc import StatusCode

from opserve_kernels.errors import shortened
from opserve_server.calls import (
    end_of,
    internal_error,
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
from opserve_server.core.observations import Call

REQUEST_ID = "x-request-id"
_DETAILS = "grpc-status-details-bin"
Context = grpc.aio.ServicerContext[Any, Any]


async def fail(context: Context, error: Exception, call: Call) -> NoReturn:
    """Ends a call with an error, without details that are not for its caller."""
    if not isinstance(error, OpserveError):
        if context.done():  # the client has disconnected, and a write to it failed
            raise error
        if isinstance(
            error, grpc.aio.InternalError
        ):  # the same, before gRPC marks the context as done
            await context.abort(StatusCode.CANCELLED)
        error = internal_error(error, call=call.method, request_id=call.request_id)
    row = row_of(error)
    call.outcome = row.code.name
    note_failure(error)
    status = rpc_status(error, request_id=call.request_id)
    await context.abort(
        row.code,
        status.message,
        ((_DETAILS, status.SerializeToString()), (REQUEST_ID, call.request_id)),
    )


@dataclass(frozen=True, slots=True)
class Row:
    """gRPC form of one class of errors: its code, and details beside ErrorInfo."""

    code: StatusCode
    details: tuple[Callable[[OpserveError], Message | None], ...] = ()


def rpc_status(error: OpserveError, *, request_id: str) -> RpcStatus:
    """The complete answer to a failed call, as google.rpc.Status."""
    number, _ = row_of(error).code.value
    status = RpcStatus(code=number, message=shortened(error.message))
    for detail in details_of(error, request_id=request_id):
        status.details.add().Pack(detail)
    return status


def details_of(error: OpserveError, *, request_id: str) -> list[Message]:
    """The details of an error: ErrorInfo, then those of its class."""
    others = (detail(error) for detail in row_of(error).details)
    return [_error_info(error, request_id), *(other for other in others if other is not None)]


def row_of(error: OpserveError) -> Row:
    """The row of an error's class, or of its nearest base class."""
    return next(ERRORS[base] for base in type(error).__mro__ if base in ERRORS)


def _error_info(error: OpserveError, request_id: str) -> ErrorInfo:
    metadata = {
        "code": str(error.status.value),
        "parameter": shortened(error.parameter),
        "given": shortened(error.given),
        "allowed": shortened(error.allowed),
        "request_id": request_id,
    }
    if isinstance(error, ExecutionFailed):
        metadata["executor"] = str(error.executor)
    if ended := end_of(error):
        metadata["ended"] = ended
    metadata |= moved_members(error)
    metadata |= {name: f"{value:.15g}" for name, value in quota_members(error).items()}
    return ErrorInfo(reason=error.status.name, domain=error.status.domain, metadata=metadata)


def _bad_request(error: OpserveError) -> BadRequest | None:
    if not error.parameter:
        return None
    violation = BadRequest.FieldViolation(
        field=shortened(error.parameter),
        description=shortened(error.message),
        reason=error.status.name,
    )
    return BadRequest(field_violations=[violation])


def _quota_failure(error: OpserveError) -> QuotaFailure:
    subject = f"tenant:{error.tenant}" if isinstance(error, QuotaExceeded) else error.parameter
    violation = QuotaFailure.Violation(
        subject=shortened(subject), description=shortened(error.message)
    )
    return QuotaFailure(violations=[violation])


def _retry_info(error: OpserveError) -> RetryInfo:
    delay = Duration()
    delay.FromTimedelta(timedelta(seconds=retry_after_s(error)))
    return RetryInfo(retry_delay=delay)


ERRORS: Mapping[type[OpserveError], Row] = {
    InvalidArgument: Row(StatusCode.INVALID_ARGUMENT, (_bad_request,)),
    HandleNotFound: Row(StatusCode.NOT_FOUND),
    NotSupported: Row(StatusCode.UNIMPLEMENTED),
    WrongState: Row(StatusCode.FAILED_PRECONDITION),
    OutOfMemory: Row(StatusCode.RESOURCE_EXHAUSTED),
    LimitExceeded: Row(StatusCode.RESOURCE_EXHAUSTED, (_quota_failure, _retry_info)),
    CallTooLarge: Row(StatusCode.RESOURCE_EXHAUSTED, (_quota_failure,)),
    QuotaExceeded: Row(StatusCode.RESOURCE_EXHAUSTED, (_quota_failure, _retry_info)),
    TooManyUnknownKeys: Row(StatusCode.RESOURCE_EXHAUSTED, (_quota_failure, _retry_info)),
    WaitTimedOut: Row(StatusCode.DEADLINE_EXCEEDED),
    NotAllowed: Row(StatusCode.PERMISSION_DENIED),
    PermissionDenied: Row(StatusCode.PERMISSION_DENIED),
    Unauthenticated: Row(StatusCode.UNAUTHENTICATED),
    Unavailable: Row(StatusCode.UNAVAILABLE, (_retry_info,)),
    StoreUnavailable: Row(StatusCode.UNAVAILABLE, (_retry_info,)),
    Moved: Row(StatusCode.FAILED_PRECONDITION),
    DataCorrupted: Row(StatusCode.DATA_LOSS),
    ExecutionFailed: Row(StatusCode.INTERNAL),
    ExecutionAborted: Row(StatusCode.ABORTED),
    DeadlineMissed: Row(StatusCode.DEADLINE_EXCEEDED),
    OpserveError: Row(StatusCode.INTERNAL),
}
