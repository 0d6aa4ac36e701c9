"""Every refusal as gRPC tells it: one table, and what stands around every method."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn
from urllib.parse import unquote

import grpc
from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from grpc import StatusCode

from opserve_server.calls import (
    AtWork,
    call_id,
    hidden,
    malformed,
    note_failure,
    quota_members,
    retry_after_s,
    shortened,
)
from opserve_server.certificates import names_in_auth_context
from opserve_server.core.errors import (
    DataCorrupted,
    DeadlineMissed,
    ExecutionAborted,
    ExecutionFailed,
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    NotAllowed,
    NotSupported,
    OpserveError,
    OutOfMemory,
    PermissionDenied,
    QuotaExceeded,
    StoreUnavailable,
    TooManyGuesses,
    Unauthenticated,
    Unavailable,
    WaitTimedOut,
    WrongState,
)
from opserve_server.core.observations import Call, Observe
from opserve_server.grpc_api.elements import check_elements
from opserve_server.guard import AUTHORIZATION, Credentials, Guard

REQUEST_ID = "x-request-id"
_DETAILS = "grpc-status-details-bin"
Context = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[..., Any]
Read = Callable[[Any], Awaitable[Any]]


class WrappingServer:
    """What generated code adds a service to: a server whose every method tells its failures.

    Each call gets its id, and each failure its status and details. Methods are wrapped once, when
    they are added; an interceptor would wrap them anew for every call.

    Args:
        server: Where the methods go.
        guard: Asked before every call.
        observe: Told of every call.
    """

    def __init__(self, server: grpc.aio.Server, guard: Guard, observe: Observe) -> None:
        self._server = server
        self._guard = guard
        self._observe = observe

    def add_generic_rpc_handlers(self, _: object) -> None:
        """Generated code offers the same methods twice; see add_registered_method_handlers."""

    def add_registered_method_handlers(
        self, service: str, handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """Adds the methods of a service."""
        wrapped = {
            name: _wrapped(handler, _Method(name, f"{service}/{name}", self._guard, self._observe))
            for name, handler in handlers.items()
        }
        handler = grpc.method_handlers_generic_handler(service, wrapped)
        self._server.add_generic_rpc_handlers((handler,))


@dataclass(frozen=True, slots=True)
class _Method:
    """What stands around a method: who may call it, and who is told.

    Attributes:
        name: For observers.
        path: Its row in the guard's table.
        guard: Asked before each call.
        observe: Told of each call.
    """

    name: str
    path: str
    guard: Guard
    observe: Observe

    def begin(self, context: Context) -> tuple[Call, Credentials]:
        """A call, whose id goes back with whatever answer there is, and what came to open it."""
        headers = dict(context.invocation_metadata() or ())
        authorization = headers.pop(AUTHORIZATION, None)
        request_id = call_id(headers.get(REQUEST_ID))
        context.set_trailing_metadata(((REQUEST_ID, request_id),))
        call = Call(face="grpc", method=self.name, request_id=request_id, headers=headers)
        return call, _credentials(authorization, context)

    async def admit(self, call: Call, credentials: Credentials) -> None:
        """Says who calls, where it may."""
        await self.guard.admit(call, credentials, self.path)


def _wrapped(
    handler: "grpc.RpcMethodHandler[Any, Any]", method: _Method
) -> "grpc.RpcMethodHandler[Any, Any]":
    read, each = _readers(handler.request_deserializer)
    # gRPC reads no message: it would do so for callers that the guard refuses, and tell nobody why.
    codecs = (None, handler.response_serializer)
    if handler.unary_stream is not None:
        stream = _streaming(handler.unary_stream, method, read)
        return grpc.unary_stream_rpc_method_handler(stream, *codecs)
    if handler.stream_unary is not None:
        single = _answering(handler.stream_unary, method, each)
        return grpc.stream_unary_rpc_method_handler(single, *codecs)
    if handler.stream_stream is not None:
        both = _streaming(handler.stream_stream, method, each)
        return grpc.stream_stream_rpc_method_handler(both, *codecs)
    assert handler.unary_unary is not None, "there is no fifth kind"
    answer = _answering(handler.unary_unary, method, read)
    return grpc.unary_unary_rpc_method_handler(answer, *codecs)


def _readers(deserialize: Callable[[bytes], Any] | None) -> tuple[Read, Read]:
    """What reads a method's only message, and what reads each of many."""
    if deserialize is None:
        return _as_it_came, _as_it_came
    form: Descriptor = deserialize(b"").DESCRIPTOR  # that of an empty message
    read = partial(message_in, form, deserialize)
    return read, partial(_messages, read)


async def message_in(form: Descriptor, deserialize: Callable[[bytes], Any], data: bytes) -> Any:  # noqa: ANN401  # any kind
    """The message in bytes that a client sent.

    Args:
        form: Type of the message.
        deserialize: Parses it.
        data: The bytes.

    Raises:
        InvalidArgument: 100000, they are none, or a message of too many values.
    """
    await check_elements(data, form)
    try:
        return deserialize(data)
    except DecodeError:
        allowed = "the method's message, nested no deeper than 100"
        raise malformed("message", given="other bytes", allowed=allowed) from None


async def _as_it_came(request: Any) -> Any:  # noqa: ANN401  # for a method that reads its bytes itself
    return request


async def _messages(read: Read, each: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async def messages() -> AsyncIterator[Any]:
        async for data in each:
            yield await read(data)

    return messages()


def _answering(behaviour: Behaviour, method: _Method, read: Read) -> Behaviour:
    async def answer(request: bytes, context: Context) -> object:
        call, credentials = method.begin(context)
        with AtWork(call, method.observe):
            try:
                await method.admit(call, credentials)
                answered = await behaviour(await read(request), context)
                await method.guard.turn(call)
            except Exception as error:  # noqa: BLE001  # told, or hidden and logged
                await method.guard.turn(call)
                await _fail(context, error, call)
            call.outcome = StatusCode.OK.name
            return answered

    return answer


def _streaming(behaviour: Behaviour, method: _Method, read: Read) -> Behaviour:
    # The answers are written here, not yielded: a call that is cancelled in the middle then closes
    # its generator at once, instead of when it is collected.
    async def stream(request: object, context: Context) -> None:
        call, credentials = method.begin(context)
        with AtWork(call, method.observe):
            try:
                await method.admit(call, credentials)
                async with (
                    aclosing(behaviour(await read(request), context)) as answers,
                    aclosing(method.guard.while_allowed(answers, call, credentials)) as allowed,
                ):
                    async for answer in allowed:
                        await context.write(answer)
            except Exception as error:  # noqa: BLE001  # told, or hidden and logged
                await method.guard.turn(call)
                await _fail(context, error, call)
            call.outcome = StatusCode.OK.name

    return stream


def _credentials(authorization: str | bytes | None, context: Context) -> Credentials:
    return Credentials(
        authorization=authorization if isinstance(authorization, str) else None,
        certificate=lambda: names_in_auth_context(context.auth_context()),
        peer=lambda: _host_of(context.peer()),
    )


def _host_of(peer: str) -> str:
    """The address in gRPC's "ipv4:192.0.2.1:50000" or "ipv6:%5B2001:db8::1%5D:50000"."""
    _, _, address = unquote(peer).partition(":")
    host, _, _ = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]")


async def _fail(context: Context, error: Exception, call: Call) -> NoReturn:
    if not isinstance(error, OpserveError):
        if context.done():  # the client has gone, and a write to it failed
            raise error
        if isinstance(error, grpc.aio.InternalError):  # so it has, before gRPC says that it is done
            await context.abort(StatusCode.CANCELLED)
        error = hidden(error, call=call.method, request_id=call.request_id)
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
    QuotaExceeded: Row(StatusCode.RESOURCE_EXHAUSTED, (_quota_failure, _retry_info)),
    TooManyGuesses: Row(StatusCode.RESOURCE_EXHAUSTED, (_quota_failure, _retry_info)),
    WaitTimedOut: Row(StatusCode.DEADLINE_EXCEEDED),
    NotAllowed: Row(StatusCode.PERMISSION_DENIED),
    PermissionDenied: Row(StatusCode.PERMISSION_DENIED),
    Unauthenticated: Row(StatusCode.UNAUTHENTICATED),
    Unavailable: Row(StatusCode.UNAVAILABLE, (_retry_info,)),
    StoreUnavailable: Row(StatusCode.UNAVAILABLE, (_retry_info,)),
    DataCorrupted: Row(StatusCode.DATA_LOSS),
    ExecutionFailed: Row(StatusCode.INTERNAL),
    ExecutionAborted: Row(StatusCode.ABORTED),
    DeadlineMissed: Row(StatusCode.DEADLINE_EXCEEDED),
    OpserveError: Row(StatusCode.INTERNAL),
}
