"""Every refusal as gRPC tells it: one table, one interceptor."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from grpc import StatusCode
from typing_extensions import override

from opserve_server.calls import RETRY_AFTER_S, call_id, hidden, shortened
from opserve_server.core.errors import (
    ExecutionFailed,
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    OpserveError,
    OutOfMemory,
    Unavailable,
    WaitTimedOut,
    WrongState,
)

REQUEST_ID = "x-request-id"
_DETAILS = "grpc-status-details-bin"
_OURS = "/opserve.v1."
Context = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[..., Any]


class GrpcErrors(grpc.aio.ServerInterceptor):
    """Gives every call of opserve its id, and every failure its status and details."""

    @override
    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], "Awaitable[grpc.RpcMethodHandler[Any, Any] | None]"
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Wraps opserve's own methods; health and reflection answer by themselves."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or not method.startswith(_OURS):
            return handler
        codecs = (handler.request_deserializer, handler.response_serializer)
        if handler.unary_stream is not None:
            stream = _streaming(handler.unary_stream, method)
            return grpc.unary_stream_rpc_method_handler(stream, *codecs)
        if handler.stream_unary is not None:
            single = _answering(handler.stream_unary, method)
            return grpc.stream_unary_rpc_method_handler(single, *codecs)
        assert handler.unary_unary is not None, "opserve has no method that streams both ways"
        return grpc.unary_unary_rpc_method_handler(_answering(handler.unary_unary, method), *codecs)


def _answering(behaviour: Behaviour, method: str) -> Behaviour:
    async def call(request: object, context: Context) -> object:
        async with _refusals(method, context):
            return await behaviour(request, context)

    return call


def _streaming(behaviour: Behaviour, method: str) -> Behaviour:
    # The answers are written here, not yielded: a call that is cancelled in the middle then closes
    # its generator at once, instead of when it is collected.
    async def call(request: object, context: Context) -> None:
        async with _refusals(method, context), aclosing(behaviour(request, context)) as answers:
            async for answer in answers:
                await context.write(answer)

    return call


@asynccontextmanager
async def _refusals(method: str, context: Context) -> AsyncGenerator[None]:
    given = dict(context.invocation_metadata() or ()).get(REQUEST_ID)
    request_id = call_id(given if isinstance(given, str) else None)
    context.set_trailing_metadata(((REQUEST_ID, request_id),))
    try:
        yield
    except OpserveError as error:
        await _abort(context, error, request_id)
    except Exception as error:
        if context.done():  # the client has gone, and a write to it failed
            raise
        await _abort(context, hidden(error, call=method, request_id=request_id), request_id)


async def _abort(context: Context, error: OpserveError, request_id: str) -> None:
    status = rpc_status(error, request_id=request_id)
    await context.abort(
        row_of(error).code,
        status.message,
        ((_DETAILS, status.SerializeToString()), (REQUEST_ID, request_id)),
    )


@dataclass(frozen=True, slots=True)
class Row:
    """How gRPC tells one class of errors: its code, and details beside ErrorInfo."""

    code: StatusCode
    details: tuple[Callable[[OpserveError], Message | None], ...] = ()


def rpc_status(error: OpserveError, *, request_id: str) -> RpcStatus:
    """The whole answer to a failed call, as google.rpc.Status."""
    row = row_of(error)
    number, _ = row.code.value
    status = RpcStatus(code=number, message=shortened(error.message))
    details = (detail(error) for detail in row.details)
    for detail in (_error_info(error, request_id), *details):
        if detail is not None:
            status.details.add().Pack(detail)
    return status


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
    violation = QuotaFailure.Violation(
        subject=shortened(error.parameter), description=shortened(error.message)
    )
    return QuotaFailure(violations=[violation])


def _retry_info(_: OpserveError) -> RetryInfo:
    return RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_S))


ERRORS: Mapping[type[OpserveError], Row] = {
    InvalidArgument: Row(StatusCode.INVALID_ARGUMENT, (_bad_request,)),
    HandleNotFound: Row(StatusCode.NOT_FOUND),
    NotSupported: Row(StatusCode.UNIMPLEMENTED),
    WrongState: Row(StatusCode.FAILED_PRECONDITION),
    OutOfMemory: Row(StatusCode.RESOURCE_EXHAUSTED),
    LimitExceeded: Row(StatusCode.RESOURCE_EXHAUSTED, (_quota_failure, _retry_info)),
    WaitTimedOut: Row(StatusCode.DEADLINE_EXCEEDED),
    Unavailable: Row(StatusCode.UNAVAILABLE, (_retry_info,)),
    ExecutionFailed: Row(StatusCode.INTERNAL),
    OpserveError: Row(StatusCode.INTERNAL),
}
